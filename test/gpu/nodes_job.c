/*
 * Ranks of MPI that say that they are on two nodes, with a simulated GPU each: their
 * allreduces of device memory go by nodes, through the public API, negotiated and planned;
 * broadcasts and sets on one node do not.
 *
 *     nodes_job LIBRARY_OF_CUDA LIBRARY_OF_NCCL STEPS
 *
 * STEPS is 0 where the ranks of the nodes are not equally many.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <tutti/mpi.h>
#include <tutti/tutti.h>

#include "test/gpusim/gpusim_test.h"
#include "test/multi/check.h"

enum {
    TENSORS = 5,
    COUNT = 3001,
    ITERATIONS = 40
};

static int rank;
static int ranks;

static void set(tutti_config *config, const char *name, const char *value)
{
    CHECK(tutti_config_set(config, name, value) == TUTTI_OK);
}

static tutti *start(const char *program, char **arguments)
{
    tutti_config *config = NULL;
    tutti *t = NULL;
    char text[32];

    CHECK(tutti_config_create(&config) == TUTTI_OK);
    set(config, "cuda_library", arguments[1]);
    set(config, "nccl_library", arguments[2]);
    set(config, "gpu_kernels", program);
    set(config, "gpu_hierarchical", "nccl");
    (void)snprintf(text, sizeof text, "node-%d", rank % 2);
    set(config, "host_id", text);
    (void)snprintf(text, sizeof text, "%d", rank);
    set(config, "gpu", text);
    CHECK(tutti_init_mpi(&t, MPI_COMM_WORLD, config) == TUTTI_OK);
    tutti_config_destroy(config);
    return t;
}

static tutti_stats stats_of(tutti *t)
{
    tutti_stats stats = { .size = sizeof stats };

    CHECK(tutti_stats_get(t, &stats) == TUTTI_OK);
    return stats;
}

static void fill(float *tensor, int iteration)
{
    float host[COUNT];

    for (int i = 0; i < COUNT; i++) {
        host[i] = (float)(i % 100 + rank + iteration);
    }
    CHECK(gpusim_write((uint64_t)(uintptr_t)tensor, host, sizeof host));
}

static void check(const float *tensor, int iteration)
{
    float host[COUNT];

    CHECK(gpusim_read(host, (uint64_t)(uintptr_t)tensor, sizeof host));
    for (int i = 0; i < COUNT; i++) {
        const int sum = ranks * (i % 100 + iteration) + ranks * (ranks - 1) / 2;

        CHECK(host[i] == (float)sum);
    }
}

/* A trainer's steps: the same names again and again. */
static void train(tutti *t, float *const *tensors)
{
    tutti_request requests[TENSORS];
    char name[16];

    for (int n = 0; n < ITERATIONS; n++) {
        for (int i = 0; i < TENSORS; i++) {
            fill(tensors[i], n + i);
            (void)snprintf(name, sizeof name, "layer %d", i);
            CHECK(tutti_allreduce_async(t, name, tensors[i], tensors[i], COUNT,
                          TUTTI_FLOAT32, TUTTI_SUM, NULL, &requests[i]) == TUTTI_OK);
        }
        CHECK(tutti_wait_all(t, TENSORS, requests, TUTTI_FOREVER, NULL) == TUTTI_OK);
        for (int i = 0; i < TENSORS; i++) {
            check(tensors[i], n + i);
        }
    }
}

/* What stays flat: a broadcast, and a set on one node. */
static void stay_flat(tutti *t, float *tensor)
{
    const uint64_t before = stats_of(t).device_hierarchical;
    const int members[] = { 0, 2 };
    tutti_process_set pair = TUTTI_WORLD;
    tutti_options options;
    float host[COUNT];

    tutti_options_default(&options);
    fill(tensor, 0);
    CHECK(tutti_broadcast(t, "flat", tensor, COUNT, TUTTI_FLOAT32, 1, NULL) ==
            TUTTI_OK);
    CHECK(gpusim_read(host, (uint64_t)(uintptr_t)tensor, sizeof host));
    CHECK(host[0] == 1 && host[COUNT - 1] == (float)((COUNT - 1) % 100 + 1));
    CHECK(tutti_process_set_create(t, members, 2, &pair) == TUTTI_OK);
    if (rank % 2 == 0 && rank < 3) {
        options.process_set = pair;
        fill(tensor, 0);
        CHECK(tutti_allreduce(t, "pair", tensor, tensor, COUNT, TUTTI_FLOAT32,
                      TUTTI_MAX, &options) == TUTTI_OK);
        CHECK(gpusim_read(host, (uint64_t)(uintptr_t)tensor, sizeof host));
        CHECK(host[0] == 2);
    }
    CHECK(tutti_process_set_destroy(t, pair) == TUTTI_OK);
    CHECK(stats_of(t).device_hierarchical == before);
}

int main(int count, char **arguments)
{
    float *tensors[TENSORS];
    tutti_stats stats;
    bool steps;
    tutti *t;

    CHECK(MPI_Init(&count, &arguments) == MPI_SUCCESS);
    CHECK(count == 4);
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS);
    steps = strcmp(arguments[3], "0") != 0;
    t = start("/proc/self/exe", arguments);
    for (int i = 0; i < TENSORS; i++) {
        void *memory = NULL;

        CHECK(tutti_alloc(t, sizeof(float) * COUNT, TUTTI_DEVICE, &memory) == TUTTI_OK);
        tensors[i] = memory;
    }
    train(t, tensors);
    stats = stats_of(t);
    CHECK(stats.device_batches > 0 && stats.device_staged == 0);
    CHECK(stats.device_hierarchical == (steps ? stats.device_batches : 0));
    CHECK(stats.planned > 0);
    CHECK(stats.device_packed == 0);
    stay_flat(t, tensors[0]);
    CHECK(tutti_finalize(t) == TUTTI_OK);
    CHECK(gpusim_reports() == 0);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    return 0;
}
