/*
 * tutti on a machine with a GPU, ranks as processes with memory that is really the device's:
 *
 *     device_suite [--staged] [--bare] [--time-limit SECONDS]
 *         [operations|order|times|capture|abort]...
 *
 * --staged says that there is no NCCL: everything must go through host memory then; --bare that
 * some rank has no kernels: what needs some must. Without topics all run; abort is the last, for it breaks the job.
 */
#include "test/gpu/real/suite.h"

#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/** A topic and its name. */
struct topic {
    const char *name;
    void (*run)(struct suite *s);
    bool is_wanted;
};

static struct topic topics[] = { { "operations", suite_operations, false },
    { "order", suite_order, false }, { "times", suite_times, false },
    { "capture", suite_capture, false }, { "abort", suite_abort, false } };

#define TOPICS (sizeof topics / sizeof topics[0])

bool suite_expect(
        struct suite *s, bool holds, const char *file, int line, const char *condition)
{
    s->made++;
    if (!holds) {
        s->failed++;
        (void)fprintf(stderr, "%s:%d: rank %d, %s: %s does not hold; %s\n", file, line,
                s->rank, s->what, condition, tutti_last_error());
    }
    return holds;
}

/* Those that are named, or all. @return a name that is no topic, or NULL */
static const char *choose(char *const *names)
{
    size_t t;

    for (t = 0; t < TOPICS; t++) {
        topics[t].is_wanted = names[0] == NULL;
    }
    for (; *names != NULL; names++) {
        for (t = 0; t < TOPICS && strcmp(topics[t].name, *names) != 0;) {
            t++;
        }
        if (t == TOPICS) {
            return *names;
        }
        topics[t].is_wanted = true;
    }
    return NULL;
}

/* Of the arguments. @return false, having said what is wrong */
static bool parse(int argc, char **argv, struct suite *s, int64_t *limit)
{
    static const struct option longs[] = { { "staged", no_argument, NULL, 's' },
        { "bare", no_argument, NULL, 'b' },
        { "time-limit", required_argument, NULL, 't' }, { NULL, 0, NULL, 0 } };
    const char *unknown;
    int letter;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    while ((letter = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (letter == 's') {
            s->staged = true;
        } else if (letter == 'b') {
            s->bare = true;
        } else if (letter != 't' || !text_to_int64(optarg, limit) || *limit < 1) {
            (void)fprintf(stderr,
                    "usage: device_suite [--staged] [--bare] [--time-limit SECONDS] "
                    "[topic]...\n");
            return false;
        }
    }
    unknown = choose(argv + optind);
    if (unknown != NULL) {
        (void)fprintf(stderr, "device_suite: there is no topic \"%s\"\n", unknown);
    }
    return unknown == NULL;
}

static int finish(struct suite *s)
{
    const tutti_status status = tutti_finalize(s->t);

    (void)SUITE_EXPECT(
            s, status == (s->is_broken ? TUTTI_ERR_CONTEXT_FAILED : TUTTI_OK));
    if (!s->is_broken) {
        device_close(&s->rig);
    }
    (void)printf("device_suite: rank %d: %d checks, %d failed\n", s->rank, s->made,
            s->failed);
    return s->failed == 0 && s->made > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * The program's own MPI: MPI_Finalize() waits for a slow rank after the abort as well. Where
 * tutti has initialised it, a rank whose context has failed waits for a moment only, leaves
 * without MPI_Finalize(), and mpirun calls that a failure.
 */
static void start_mpi(int *argc, char ***argv)
{
    int level = 0;

    if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        (void)fprintf(stderr, "device_suite: MPI does not start\n");
        exit(EXIT_FAILURE); /* NOLINT(concurrency-mt-unsafe): nothing has begun */
    }
}

int main(int argc, char **argv)
{
    static struct suite s = { .what = "start" };
    int64_t limit = 600;
    int status = device_find(&s.rig, "device_suite");

    if (status != 0) {
        return status;
    }
    if (!parse(argc, argv, &s, &limit)) {
        return 2;
    }
    (void)alarm((unsigned)limit); /* a hang ends with a signal, not never */
    start_mpi(&argc, &argv);
    if (tutti_init(&s.t, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "device_suite: %s\n", tutti_last_error());
        return EXIT_FAILURE;
    }
    s.rank = tutti_rank(s.t);
    s.size = tutti_size(s.t);
    device_open(&s.rig, tutti_local_rank(s.t));
    for (size_t i = 0; i < TOPICS; i++) {
        if (topics[i].is_wanted) {
            s.what = topics[i].name;
            topics[i].run(&s);
        }
    }
    status = finish(&s);
    return MPI_Finalize() == MPI_SUCCESS ? status : EXIT_FAILURE;
}
