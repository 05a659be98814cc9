/*
 * Ranks of one process with GPUs, through the public API: who gets which, what is decided,
 * and that device memory is reduced, on the GPUs or through host memory.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"
#include "test/unit/unit.h"

#define RANKS 2
#define COUNT 1000

/* A job of several ranks, and what it logged. */
struct local {
    tutti_config *config;
    tutti *contexts[RANKS];
    char lines[8192];
    pthread_mutex_t lock;
};

static void keep_line(void *user, tutti_log_level level, int rank, const char *line)
{
    struct local *job = user;
    size_t len;

    (void)level;
    (void)rank;
    (void)pthread_mutex_lock(&job->lock);
    len = strlen(job->lines);
    (void)snprintf(job->lines + len, sizeof job->lines - len, "%s\n", line);
    (void)pthread_mutex_unlock(&job->lock);
}

static void set(struct local *job, const char *name, const char *value)
{
    assert_int_equal(tutti_config_set(job->config, name, value), TUTTI_OK);
}

static void prepare(struct local *job)
{
    *job = (struct local){ .config = NULL };
    (void)pthread_mutex_init(&job->lock, NULL);
    assert_int_equal(tutti_config_create(&job->config), TUTTI_OK);
    assert_int_equal(tutti_config_set_log(job->config, keep_line, job), TUTTI_OK);
    set(job, "cuda_library", GPUSIM_CUDA);
    set(job, "nccl_library", GPUSIM_NCCL);
    set(job, "gpu_kernels", "/proc/self/exe");
}

static void start(struct local *job)
{
    if (tutti_init_local(RANKS, job->contexts, job->config) != TUTTI_OK) {
        fail_msg("tutti_init_local: %s", tutti_last_error());
    }
}

static void *finalize(void *arg)
{
    return tutti_finalize(arg) == TUTTI_OK ? NULL : arg;
}

static void finish(struct local *job)
{
    pthread_t threads[RANKS];

    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(
                pthread_create(&threads[r], NULL, finalize, job->contexts[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        void *failed = NULL;

        assert_int_equal(pthread_join(threads[r], &failed), 0);
        assert_null(failed);
    }
    tutti_config_destroy(job->config);
    (void)pthread_mutex_destroy(&job->lock);
}

/* What a rank does, and says of it: "" when all went well. */
struct deed {
    tutti *t;
    int rank;
    char fault[256];
};

static bool is_ok(struct deed *deed, tutti_status status, const char *what)
{
    if (status != TUTTI_OK && deed->fault[0] == '\0') {
        (void)snprintf(
                deed->fault, sizeof deed->fault, "%s: %s", what, tutti_last_error());
    }
    return status == TUTTI_OK;
}

/* Rank r contributes r + 1 + i; sums of small integers are exact. */
static void *reduce(void *arg)
{
    struct deed *deed = arg;
    float values[COUNT];
    void *memory = NULL;

    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(deed->rank + 1 + i);
    }
    if (!is_ok(deed, tutti_alloc(deed->t, sizeof values, TUTTI_DEVICE, &memory),
                "alloc") ||
            !gpusim_write((uint64_t)(uintptr_t)memory, values, sizeof values) ||
            !is_ok(deed,
                    tutti_allreduce(deed->t, "x", memory, memory, COUNT, TUTTI_FLOAT32,
                            TUTTI_SUM, NULL),
                    "allreduce")) {
        return NULL;
    }
    if (!gpusim_read(values, (uint64_t)(uintptr_t)memory, sizeof values)) {
        (void)snprintf(deed->fault, sizeof deed->fault, "the memory cannot be read");
    }
    for (int i = 0; i < COUNT && deed->fault[0] == '\0'; i++) {
        if (values[i] != (float)(3 + 2 * i)) {
            (void)snprintf(deed->fault, sizeof deed->fault, "element %d is %g", i,
                    (double)values[i]);
        }
    }
    (void)is_ok(deed, tutti_free(deed->t, memory), "free");
    return NULL;
}

static void reduce_on_all(struct local *job)
{
    struct deed deeds[RANKS];
    pthread_t threads[RANKS];

    for (int r = 0; r < RANKS; r++) {
        deeds[r] = (struct deed){ .t = job->contexts[r], .rank = r };
        assert_int_equal(pthread_create(&threads[r], NULL, reduce, &deeds[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
        if (deeds[r].fault[0] != '\0') {
            fail_msg("rank %d: %s", r, deeds[r].fault);
        }
    }
}

static uint64_t staged(tutti *t)
{
    tutti_stats stats = { .size = sizeof stats };

    assert_int_equal(tutti_stats_get(t, &stats), TUTTI_OK);
    assert_int_equal(stats.device_batches, 1);
    return stats.device_staged;
}

static void run(struct local *job, uint64_t expected_staged, const char *says)
{
    start(job);
    reduce_on_all(job);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(staged(job->contexts[r]), expected_staged);
    }
    if (strstr(job->lines, says) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", says, job->lines);
    }
    finish(job);
}

UNIT_TEST(test_each_rank_has_a_gpu_and_nccl_reduces)
{
    const struct gpusim_live before = gpusim_live();
    struct local job;

    prepare(&job);
    run(&job, 0, "");
    assert_string_equal(job.lines, ""); /* nothing to warn of */
    assert_int_equal(gpusim_live().retained, before.retained);
    assert_int_equal(gpusim_live().device_allocations, before.device_allocations);
    assert_int_equal(gpusim_live().streams, before.streams);
    assert_int_equal(gpusim_live().events, before.events);
}

UNIT_TEST(test_without_nccl_host_memory_reduces)
{
    struct local job;

    prepare(&job);
    set(&job, "nccl_library", "no-such-nccl.so");
    run(&job, 1, "rank 0 has no NCCL");
}

UNIT_TEST(test_ranks_on_one_gpu_are_told)
{
    struct local job;

    prepare(&job);
    set(&job, "gpu", "3");
    run(&job, 1, "rank 0 and rank 1 share the GPU");
}

UNIT_TEST(test_the_parameter_backend_asks_for_host_memory)
{
    struct local job;

    prepare(&job);
    set(&job, "backend", "shm");
    run(&job, 1, "the parameter backend asks for it");
}

UNIT_TEST(test_a_gpu_that_is_not_there_is_refused)
{
    const struct gpusim_live before = gpusim_live();
    struct local job;

    prepare(&job);
    set(&job, "gpu", "0,9");
    assert_int_equal(
            tutti_init_local(RANKS, job.contexts, job.config), TUTTI_ERR_CONFIG);
    assert_non_null(strstr(tutti_last_error(), "no device \"9\" for rank 1"));
    assert_int_equal(gpusim_live().retained, before.retained);
    tutti_config_destroy(job.config);
}

UNIT_TEST(test_without_a_driver_host_memory_works)
{
    struct local job;
    void *memory = NULL;

    prepare(&job);
    set(&job, "cuda_library", "no-such-driver.so");
    start(&job);
    assert_int_not_equal(
            tutti_alloc(job.contexts[0], 4, TUTTI_DEVICE, &memory), TUTTI_OK);
    assert_non_null(strstr(tutti_last_error(), "rank 0 has no GPU"));
    assert_int_equal(tutti_alloc(job.contexts[0], 4, TUTTI_HOST, &memory), TUTTI_OK);
    finish(&job);
}
