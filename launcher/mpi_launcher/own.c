/*
 * Without an MPI: tuttirun --start (exec/start.h) forks the supervisors of this host, and has
 * another one on each other host by ssh. Where each host starts its own ranks (here/here.h), it
 * starts only those of this one.
 */
#include <string.h>

#include "base/mem.h"
#include "launcher/mpi_launcher/mpi_launcher.h"

/* "a:2,b:1": the hosts that have ranks, and how many. */
static char *list_ranks(const struct options *options, const struct host_list *hosts)
{
    int *counts = mem_calloc(hosts->count, sizeof *counts);
    struct arguments list = { .failed = counts == NULL };
    char *text = NULL;

    if (counts != NULL) {
        launch_spread(hosts, options->np, counts);
        for (size_t i = 0; i < hosts->count && counts[i] > 0; i++) {
            arguments_add_format(&list, "%s:%d", hosts->hosts[i].name, counts[i]);
        }
        text = arguments_join(&list, ",");
    }
    arguments_fini(&list);
    mem_free(counts);
    return text;
}

static void add_ranks(const struct options *options, const struct launch_facts *facts,
        struct arguments *words)
{
    const struct share *share = facts->share;
    char *text;

    arguments_add_format(words, "%d", options->np);
    arguments_add_format(words, "%d", share->is_set ? share->first : 0);
    if (share->is_set || facts->is_here) {
        arguments_add_format(words, ".:%d", share->is_set ? share->count : options->np);
        return;
    }
    text = list_ranks(options, facts->hosts);
    words->failed = words->failed || text == NULL;
    arguments_add(words, text == NULL ? "" : text);
    mem_free(text);
}

/* Later generations find the connection of the first. Seconds: where tuttirun is killed. */
static void add_share(const char *folder, struct arguments *words)
{
    if (folder != NULL) {
        arguments_add(words, "-oControlMaster=auto");
        arguments_add_format(words, "-oControlPath=%s/%%C", folder);
        arguments_add(words, "-oControlPersist=30");
    }
}

static void build(const struct options *options, const struct launch_facts *facts,
        struct launch_command *command)
{
    struct arguments *words = &command->words;
    const bool is_remote = !facts->is_here && !facts->share->is_set;

    arguments_add(words, "--start");
    add_ranks(options, facts, words);
    for (size_t i = 0; i < command->exports.count; i++) {
        const char *entry = command->exports.items[i];

        if (strchr(entry, '=') != NULL) {
            arguments_add(&command->variables, entry);
        }
        if (is_remote) {
            arguments_add(words, "-x");
            arguments_add_format(words, "%.*s", (int)strcspn(entry, "="), entry);
        }
    }
    if (is_remote) {
        arguments_add(words, "ssh");
        launch_add_ssh(options, words);
        launch_add_ssh_rest(options, words);
        add_share(options->ssh_share, words);
    }
    arguments_add(words, "--");
    launch_add_program(options, facts, words);
}

const struct mpi_launcher launcher_own = {
    .kind = MPI_KIND_LOCAL,
    .name = "local",
    .title = "tuttirun",
    .programs = (const char *const[]){ NULL },
    .versions = (const char *const[]){ NULL },
    .build = build,
};
