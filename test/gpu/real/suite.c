/*
 * tutti on a machine with a GPU, ranks as processes with memory that is really the device's:
 *
 *     device_suite [--staged] [--bare] [--time-limit SECONDS]
 *         [operations|order|times|capture|abort]...
 *
 * --staged says that there is no NCCL: everything must go through host memory then; --bare that
 * some rank has no kernels: what needs some must. Without topics all run;
 * abort comes last, for it breaks the job.
 */
#include "test/gpu/real/suite.h"

#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "test/batch/pattern.h"

/** A topic and its name. */
struct topic {
    const char *name;
    void (*run)(struct suite *s);
};

static const struct topic topics[] = { { "operations", suite_operations },
    { "order", suite_order }, { "times", suite_times }, { "capture", suite_capture },
    { "abort", suite_abort } };

#define TOPICS (sizeof topics / sizeof topics[0])

tutti_status suite_sum(struct suite *s, const char *name, void *memory, size_t count,
        cu_stream stream, tutti_request *request)
{
    tutti_options options;

    tutti_options_default(&options);
    options.stream = stream;
    return tutti_allreduce_async(s->t, name, memory, memory, (int64_t)count,
            TUTTI_FLOAT32, TUTTI_SUM, &options, request);
}

/* NULL: there is none. */
static const struct topic *topic_of(const char *name)
{
    for (size_t i = 0; i < TOPICS; i++) {
        if (strcmp(topics[i].name, name) == 0) {
            return &topics[i];
        }
    }
    return NULL;
}

/* Of the arguments up to the topics. @return false, having said what is wrong */
static bool parse(int argc, char **argv, struct suite *s, int64_t *limit)
{
    static const struct option longs[] = { { "staged", no_argument, NULL, 's' },
        { "bare", no_argument, NULL, 'b' },
        { "time-limit", required_argument, NULL, 't' }, { NULL, 0, NULL, 0 } };
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
    for (int i = optind; i < argc; i++) {
        if (topic_of(argv[i]) == NULL) {
            (void)fprintf(stderr, "device_suite: there is no topic \"%s\"\n", argv[i]);
            return false;
        }
    }
    return true;
}

static void run(struct suite *s, const struct topic *topic)
{
    s->c.topic = topic->name;
    topic->run(s);
}

static int finish(struct suite *s)
{
    EXPECT_STATUS(&s->c, s->is_broken ? TUTTI_ERR_CONTEXT_FAILED : TUTTI_OK,
            tutti_finalize(s->t));
    if (!s->is_broken) {
        device_close(&s->rig);
    }
    (void)printf("device_suite: rank %d: %d checks, %d failed\n", s->c.rank, s->c.made,
            s->c.failed);
    return s->c.failed == 0 && s->c.made > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
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
    static struct suite s = { .c = { .topic = "start" } };
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
    s.c.rank = tutti_rank(s.t);
    s.c.size = tutti_size(s.t);
    device_open(&s.rig, tutti_local_rank(s.t));
    pattern_set_exact(true);
    for (int i = optind; i < argc; i++) {
        run(&s, topic_of(argv[i]));
    }
    for (size_t i = 0; i < TOPICS && optind == argc; i++) {
        run(&s, &topics[i]);
    }
    status = finish(&s);
    return MPI_Finalize() == MPI_SUCCESS ? status : EXIT_FAILURE;
}
