/*
 * Where the ranks run, as the variables and files of schedulers say.
 */
#include "base/mem.h"
#include "launcher/exec/procs.h"
#include "launcher/hosts/source.h"
#include "launcher/options.h"
#include "test/unit/launcher/cases.h"
#include "test/unit/launcher/root.h"

/* A job: its flags, its environment, and the files below its root. */
struct job {
    struct root root;
    struct arguments words, environment;
    struct options options;
    struct source_facts facts;
};

/* Takes "-FLAG=VALUE", "NAME=VALUE", and "@/PATH TEXT", a file; a flag may end with one. */
static void job_open(struct job *job, const char *text)
{
    static char *none[] = { NULL };
    char *const *words = cases_words(text);

    *job = (struct job){ .words = { .items = NULL } };
    root_make(&job->root);
    arguments_add(&job->words, "tuttirun");
    for (; *words != NULL; words++) {
        const char *word = *words;
        const char *file = strchr("-@", word[0]) == NULL ? NULL : strchr(word, '@');

        if (file != NULL) {
            root_write(&job->root, file + 1, *++words, 0700);
        }
        if (word[0] == '-') {
            arguments_add_format(&job->words, "%.*s%s%s",
                    (int)(file == NULL ? strlen(word) : (size_t)(file - word)), word,
                    file == NULL ? "" : job->root.path, file == NULL ? "" : file + 1);
        } else if (file == NULL) {
            arguments_add(&job->environment, word);
        }
    }
    arguments_add(&job->words, "prog");
    assert_int_equal(command_line_parse(&job->options, job->words.items), TUTTI_OK);
    job->facts = (struct source_facts){ .options = &job->options,
        .environment = job->environment.items == NULL ? none : job->environment.items,
        .root = job->root.path,
        .script_ms = 1000000 };
}

static void job_close(struct job *job)
{
    options_fini(&job->options);
    arguments_fini(&job->words);
    arguments_fini(&job->environment);
    root_remove(&job->root);
}

static void add(char *out, const char *before, const char *text)
{
    (void)sprintf(out + strlen(out), "%s%s", before, text);
}

/* "[HOSTS] SOURCE", and behind a ';' what else there is to say. */
static void show(const struct job *job, const struct placement *placement, char *out)
{
    const struct join_place *join = &placement->join;
    char *hosts = host_list_format(&placement->hosts);

    (void)sprintf(out, "[%s] %s", hosts, placement->source);
    mem_free(hosts);
    add(out, placement->is_slurm ? "; srun" : "", placement->waits ? "; waits" : "");
    if (placement->ranks > 0) {
        (void)sprintf(out + strlen(out), "; %d ranks", placement->ranks);
    }
    if (join->nodes > 0) {
        (void)sprintf(out + strlen(out),
                "; %d of %d, first %s, key %s, port %d, own %s", join->index,
                join->nodes, join->first, join->key, join->port, placement->own);
    }
    if (placement->shard.count > 0) {
        (void)sprintf(out + strlen(out), "; shard %d of %d", placement->shard.index,
                placement->shard.count);
    }
    if (placement->roles != NULL) {
        add(out, "; roles ", placement->roles);
    }
    if (placement->failure[0] != '\0') {
        add(out, "; failure ", placement->failure + strlen(job->root.path));
    }
}

UNIT_CASES(test_sources, "sources")
{
    struct placement placement = { .ranks = 0 };
    struct job job;

    job_open(&job, in);
    if (source_resolve(&job.facts, &placement) == TUTTI_OK) {
        show(&job, &placement, out);
    } else {
        cases_refused(out);
    }
    placement_fini(&placement);
    job_close(&job);
}

/* Ends for this: the script, and a child that it left behind with its output open. */
UNIT_TEST(test_discovery_scripts_that_hang_are_killed)
{
    static const char text[] =
            "--host-discovery-script=@/discover '#!/bin/sh\nsleep 1000 &\n"
            "echo $! >\"$0.new\"; mv \"$0.new\" \"${0%/*}/pid\"\nwait\n' "
            "PATH=/bin:/usr/bin";
    struct placement placement = { .ranks = 0 };
    struct job job;
    char path[64];
    FILE *file = NULL;
    long pid = 0;

    job_open(&job, text);
    (void)snprintf(path, sizeof path, "%s/pid", job.root.path);
    /* The time that it has must be enough for it to start its child. */
    for (job.facts.script_ms = 500; file == NULL; job.facts.script_ms *= 2) {
        assert_int_equal(source_resolve(&job.facts, &placement), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), "has not ended within"));
        file = fopen(path, "re");
    }
    assert_int_equal(fscanf(file, "%ld", &pid), 1);
    (void)fclose(file);
    while (process_state((pid_t)pid) != 0 && process_state((pid_t)pid) != 'Z') {
        (void)usleep(1000);
    }
    job_close(&job);
}
