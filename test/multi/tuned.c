/*
 * Settings that change while a job runs: no bit of any result depends on them. What was found
 * is kept in a file, and read by the next context; damaged, it is refused.
 *
 *   tuned NODES     a digit for each rank: its node
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/mpi.h>

#include "check.h"

enum {
    TENSORS = 24,
    COUNT_MAX = 1 << 16,
    SEARCH_STEPS = 400,
    PATH_MAX_BYTES = 64,
    TEXT_MAX_BYTES = 4096
};

static float input[COUNT_MAX];
static float output[TENSORS][COUNT_MAX];
static float first[TENSORS][COUNT_MAX];
static char path[PATH_MAX_BYTES];
static const char *nodes;
static int rank;

/* Some small ones that are fused, and one that goes in pieces. */
static int64_t count_of(int tensor)
{
    return tensor == TENSORS / 2 ? COUNT_MAX : 1 + 97 * tensor;
}

/* Sums of these are not exact: their bits tell the order in which they were added. */
static void fill(void)
{
    for (int i = 0; i < COUNT_MAX; i++) {
        input[i] = 0.1F * (float)(1 + i % 13) * (float)(rank + 1);
    }
}

static tutti_config *configure(const char *fusion_bytes)
{
    const char host[] = { nodes[rank], '\0' };
    tutti_config *config;

    CHECK(tutti_config_create(&config) == TUTTI_OK);
    CHECK(tutti_config_set(config, "host_id", host) == TUTTI_OK);
    CHECK(tutti_config_set(config, "autotune_file", path) == TUTTI_OK);
    if (fusion_bytes != NULL) {
        CHECK(tutti_config_set(config, "fusion_bytes", fusion_bytes) == TUTTI_OK);
    }
    return config;
}

static tutti *begin(tutti_config *config)
{
    tutti *t = NULL;

    CHECK(tutti_init(&t, config) == TUTTI_OK);
    tutti_config_destroy(config);
    return t;
}

static void step(tutti *t)
{
    tutti_request requests[TENSORS];
    char name[16];

    for (int i = 0; i < TENSORS; i++) {
        (void)snprintf(name, sizeof name, "w%d", i);
        CHECK(tutti_allreduce_async(t, name, input, output[i], count_of(i),
                      TUTTI_FLOAT32, TUTTI_AVERAGE, NULL, &requests[i]) == TUTTI_OK);
    }
    CHECK(tutti_wait_all(t, TENSORS, requests, TUTTI_FOREVER, NULL) == TUTTI_OK);
}

static void keep_first(void)
{
    for (int i = 0; i < TENSORS; i++) {
        memcpy(first[i], output[i], (size_t)count_of(i) * sizeof(float));
    }
}

static void is_as_first(void)
{
    for (int i = 0; i < TENSORS; i++) {
        CHECK(memcmp(first[i], output[i], (size_t)count_of(i) * sizeof(float)) == 0);
    }
}

/* All ranks have the same bits. */
static void is_equal_everywhere(void)
{
    for (int i = 0; i < TENSORS; i++) {
        (void)MPI_Bcast(first[i], (int)count_of(i), MPI_FLOAT, 0, MPI_COMM_WORLD);
    }
    is_as_first();
}

static tutti_stats stats_of(tutti *t)
{
    tutti_stats stats = { .size = sizeof stats };

    CHECK(tutti_stats_get(t, &stats) == TUTTI_OK);
    return stats;
}

/* Batches of a step, once its plan is on. */
static uint64_t batches_of_a_step(tutti_config *config)
{
    tutti *t = begin(config);
    uint64_t before;
    uint64_t batches;

    for (int i = 0; i < 20; i++) {
        step(t);
        is_as_first();
    }
    before = stats_of(t).batches;
    step(t);
    batches = stats_of(t).batches - before;
    CHECK(tutti_finalize(t) == TUTTI_OK);
    return batches;
}

static void search(void)
{
    tutti_config *config = configure(NULL);
    tutti *t;

    CHECK(tutti_config_set(config, "autotune", "true") == TUTTI_OK);
    CHECK(tutti_config_set(config, "autotune_sample_steps", "3") == TUTTI_OK);
    CHECK(tutti_config_set(config, "autotune_steps", "300") == TUTTI_OK);
    t = begin(config);
    step(t);
    keep_first();
    is_equal_everywhere();
    for (int i = 0; i < SEARCH_STEPS; i++) {
        step(t);
        is_as_first();
    }
    CHECK(stats_of(t).plan_exits > 10);
    CHECK(tutti_finalize(t) == TUTTI_OK);
}

static void read_file(char text[TEXT_MAX_BYTES])
{
    FILE *file = fopen(path, "r");
    size_t len;

    CHECK(file != NULL);
    len = fread(text, 1, TEXT_MAX_BYTES - 1, file);
    text[len] = '\0';
    (void)fclose(file);
}

/* Rank 0 puts other settings, or another number of ranks, into the file that tutti wrote. */
static void rewrite(const char *settings, const char *instead)
{
    char text[TEXT_MAX_BYTES];
    char *heading;
    FILE *file;

    if (rank == 0) {
        read_file(text);
        heading = strstr(text, "[ranks=");
        CHECK(heading != NULL && strchr(heading, '\n') != NULL);
        *strchr(heading, '\n') = '\0';
        file = fopen(path, "w");
        CHECK(file != NULL);
        (void)fprintf(file, "# by a test\n%s%s\n%s\n", instead,
                heading + strlen(instead), settings);
        (void)fclose(file);
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

static void later_contexts_read_the_file(void)
{
    rewrite("fusion_bytes=1\ngain=1.0%", "");
    CHECK(batches_of_a_step(configure(NULL)) == TENSORS);
    CHECK(batches_of_a_step(configure("8388608")) < TENSORS);
    rewrite("fusion_bytes=1", "[ranks=99");
    CHECK(batches_of_a_step(configure(NULL)) < TENSORS);
}

static void a_damaged_file_is_refused(void)
{
    static const char *const damaged[] = { "fusion_bytes=some", "fusion_bytes",
        "inflight=99", "algorithm=fast", "colour=1", "[ranks=3]" };

    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        tutti_config *config = configure(NULL);
        tutti *t = NULL;

        rewrite(damaged[i], "");
        CHECK(tutti_init(&t, config) == TUTTI_ERR_CONFIG);
        CHECK(strstr(tutti_last_error(), path) != NULL);
        CHECK(strstr(tutti_last_error(), damaged[i]) != NULL);
        tutti_config_destroy(config);
        (void)MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int provided;
    int descriptor;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    nodes = argv[1];
    if (rank == 0) {
        (void)snprintf(path, sizeof path, "/tmp/tutti-tuned-XXXXXX");
        descriptor = mkstemp(path);
        CHECK(descriptor >= 0);
        (void)close(descriptor);
    }
    (void)MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    fill();
    search();
    later_contexts_read_the_file();
    a_damaged_file_is_refused();
    if (rank == 0) {
        (void)unlink(path);
    }
    (void)MPI_Finalize();
    return 0;
}
