#include "test/gpu/backend.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "test/gpusim/gpusim_test.h"

#define NAP_NS 20000

void backend_check(
        bool holds, int rank, const char *file, int line, const char *condition)
{
    if (!holds) {
        (void)fprintf(stderr, "%s:%d: rank %d: %s; last error: %s\n", file, line, rank,
                condition, tutti_last_error());
        _exit(1);
    }
}

void backend_barrier(struct backend_rank *r)
{
    (void)pthread_barrier_wait(&r->world->barrier);
}

struct op_set backend_set(const struct backend_rank *r)
{
    return (struct op_set){
        .rank = r->rank, .size = r->world->size, .world_ranks = r->world->ranks
    };
}

static tutti_status meet(
        struct backend_rank *r, const struct op_set *set, bool everyone)
{
    tutti_status status = TUTTI_AGAIN;

    if (r->rank == 0) {
        CHECK(op_gpu.token(r->state, r->world->token) == TUTTI_OK);
    }
    backend_barrier(r);
    while (status == TUTTI_AGAIN && (everyone || set->rank >= 0)) {
        bool moved = false;

        status = op_gpu.meet(r->state, set, r->world->token, everyone, &moved);
        if (status == TUTTI_AGAIN) {
            clock_sleep_ns(NAP_NS);
        }
    }
    return status;
}

void backend_meet(struct backend_rank *r, const struct op_set *set, bool everyone)
{
    const tutti_status status = meet(r, set, everyone);

    CHECK(status == TUTTI_OK || (status == TUTTI_AGAIN && set->rank < 0));
    backend_barrier(r);
}

void backend_meet_in_vain(struct backend_rank *r, const struct op_set *set)
{
    CHECK(meet(r, set, true) == TUTTI_ERR_SYSTEM);
}

/* Steps, until it is final. */
static tutti_status step_until(struct backend_rank *r, void *task)
{
    tutti_status status = TUTTI_AGAIN;

    r->naps = 0;
    while (status == TUTTI_AGAIN) {
        bool moved = false;

        status = op_gpu.step(r->state, task, &moved);
        if (status == TUTTI_AGAIN) {
            r->naps++;
            clock_sleep_ns(NAP_NS);
        }
    }
    return status;
}

tutti_status backend_try_issue(
        struct backend_rank *r, struct op_batch *batch, struct device_event **event)
{
    void *task = mem_calloc(1, op_gpu.task_bytes);
    tutti_status status;

    CHECK(task != NULL);
    *event = NULL;
    batch->issued = event;
    batch->sequence = r->sequence++;
    CHECK(op_gpu.accepts(r->state, batch));
    CHECK(op_gpu.start(r->state, task, batch) == TUTTI_OK);
    status = step_until(r, task);
    CHECK((status == TUTTI_OK) == (*event != NULL));
    mem_free(task);
    return status;
}

struct device_event *backend_issue(struct backend_rank *r, struct op_batch *batch)
{
    struct device_event *event;

    CHECK(backend_try_issue(r, batch, &event) == TUTTI_OK);
    CHECK(r->naps == 0); /* what a few polls of NCCL bring forward costs no nap */
    return event;
}

void backend_pass(struct backend_rank *r, struct device_event *event)
{
    tutti_status status = TUTTI_AGAIN;

    while (status == TUTTI_AGAIN) {
        status = r->device.passed(r->device.state, event);
        CHECK(op_gpu.watch(r->state) == TUTTI_OK);
        if (status == TUTTI_AGAIN) {
            clock_sleep_ns(NAP_NS);
        }
    }
    CHECK(status == TUTTI_OK);
    r->device.release(r->device.state, event);
}

void backend_do(struct backend_rank *r, struct op_batch *batch)
{
    backend_pass(r, backend_issue(r, batch));
}

void *backend_alloc(struct backend_rank *r, size_t bytes)
{
    void *memory = r->device.alloc(r->device.state, bytes);

    CHECK(memory != NULL);
    return memory;
}

void backend_write(struct backend_rank *r, void *to, const void *from, size_t bytes)
{
    CHECK(bytes == 0 || gpusim_write((uint64_t)(uintptr_t)to, from, bytes));
}

void backend_read(struct backend_rank *r, void *to, const void *from, size_t bytes)
{
    CHECK(bytes == 0 || gpusim_read(to, (uint64_t)(uintptr_t)from, bytes));
}

static void wake_nobody(void *user, int world_rank)
{
    (void)user;
    (void)world_rank;
}

static void keep_line(void *user, tutti_log_level level, int rank, const char *line)
{
    struct backend_rank *r = user;
    const size_t len = strlen(r->lines);

    (void)level;
    (void)rank;
    (void)snprintf(r->lines + len, sizeof r->lines - len, "%s\n", line);
}

static void open_rank(struct backend_rank *r)
{
    const struct backend_world *world = r->world;
    const struct gpu_seat seat = { .rank = r->rank, .local_rank = r->rank };

    CHECK(config_init(&r->config) == TUTTI_OK);
    for (int i = 0; world->parameters[i][0] != NULL; i++) {
        CHECK(config_set(&r->config, world->parameters[i][0], world->parameters[i][1],
                      "test") == TUTTI_OK);
    }
    r->log = (struct log){
        .callback = keep_line, .user = r, .level = TUTTI_LOG_WARN, .rank = r->rank
    };
    CHECK(gpu_open(&r->config, &r->log, &seat, &r->gpu) == TUTTI_OK);
    CHECK(r->gpu != NULL);
    CHECK(r->gpu->nccl != NULL);
    r->device = gpu_device(r->gpu);
    r->env = (struct op_env){ .config = &r->config,
        .log = &r->log,
        .world_rank = r->rank,
        .world_size = world->size,
        .native = r->gpu,
        .wake = wake_nobody,
        .counts = &r->counts };
    CHECK(op_gpu.open(&r->env, &r->state) == TUTTI_OK);
}

static void *run_rank(void *user)
{
    struct backend_rank *r = user;

    open_rank(r);
    backend_barrier(r);
    r->world->body(r);
    backend_barrier(r);
    op_gpu.close(r->state);
    gpu_close(r->gpu);
    config_fini(&r->config);
    return NULL;
}

void backend_set_parameter(
        struct backend_world *world, const char *name, const char *value)
{
    int at = 0;

    while (at + 1 < BACKEND_PARAMETERS && world->parameters[at][0] != NULL) {
        at++;
    }
    world->parameters[at][0] = name;
    world->parameters[at][1] = value;
}

void backend_library(struct backend_world *world, const char *program, const char *nccl)
{
    backend_set_parameter(world, "cuda_library", GPUSIM_CUDA);
    backend_set_parameter(world, "nccl_library", nccl);
    backend_set_parameter(world, "gpu_kernels", program);
}

void backend_run(struct backend_world *world)
{
    (void)pthread_barrier_init(&world->barrier, NULL, (unsigned)world->size);
    for (int i = 0; i < world->size; i++) {
        struct backend_rank *r = &world->all[i];

        world->ranks[i] = i;
        *r = (struct backend_rank){ .world = world, .rank = i };
    }
    for (int i = 0; i < world->size; i++) {
        struct backend_rank *r = &world->all[i];

        CHECK(pthread_create(&r->thread, NULL, run_rank, r) == 0);
    }
    for (int i = 0; i < world->size; i++) {
        (void)pthread_join(world->all[i].thread, NULL);
    }
    (void)pthread_barrier_destroy(&world->barrier);
}
