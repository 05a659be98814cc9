/*
 * Without an MPI: tuttirun --start (exec/starter.h) forks the supervisors of this host, and has
 * another one on each other host by ssh. Where each host starts its own ranks (here/here.h), it
 * starts only those of this one.
 */
#include <string.h>

#include "base/mem.h"
#include "launcher/mpi_launcher/mpi_launcher.h"

/* "a:2,b:1": the hosts that have ranks, and how many; of the first rank on. */
static void add_ranks(const struct options *options, const struct launch_facts *facts,
        struct arguments *words)
{
    const struct host_list *hosts = facts->hosts;
    const bool is_alone = facts->is_here || hosts->count == 0;
    int *counts = mem_calloc(hosts->count + 1, sizeof *counts);
    struct arguments list = { .items = NULL };
    char *text;
    int first = 0;

    if (counts == NULL) {
        words->failed = true;
        return;
    }
    launch_spread(hosts, options->np, counts);
    for (int i = 0; i < facts->own; i++) {
        first += counts[i];
    }
    if (facts->own >= 0) {
        arguments_add_format(&list, ".:%d", counts[facts->own]);
    } else if (is_alone) {
        arguments_add_format(&list, ".:%d", options->np);
    }
    for (size_t i = 0; facts->own < 0 && !is_alone && i < hosts->count; i++) {
        if (counts[i] > 0) {
            arguments_add_format(&list, "%s:%d", hosts->hosts[i].name, counts[i]);
        }
    }
    text = arguments_join(&list, ",");
    arguments_add_format(words, "%d", options->np);
    arguments_add_format(words, "%d", first);
    arguments_add(words, text == NULL ? "" : text);
    words->failed = words->failed || text == NULL;
    arguments_fini(&list);
    mem_free(text);
    mem_free(counts);
}

static void build(const struct options *options, const struct launch_facts *facts,
        struct launch_command *command)
{
    struct arguments *words = &command->words;
    const bool is_remote = launch_is_remote(facts) && facts->own < 0;

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
