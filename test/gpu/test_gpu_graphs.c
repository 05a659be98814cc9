/*
 * Operations in CUDA graphs: steps that are captured once and launched often, each time with
 * other data; and what cannot be in a graph.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test/gpu/ends.h"

enum {
    REPLAYS = 10,
    MANY = 1100, /* tensors, more than a launch takes as parameters */
    LARGE = (8 << 20) / 4 + 5, /* elements, that no batch packs */
    BYTES_MAX = 4 * LARGE
};

/* A tensor of a step. What it gets is the same in all elements but for i % 4 in the input. */
struct tensor {
    const char *name;
    int64_t count; /* of the input */
    tutti_collective collective;
    tutti_dtype dtype;
};

static const struct tensor tensors[] = {
    { "a", 300, TUTTI_ALLREDUCE, TUTTI_FLOAT32 },
    { "b", 77, TUTTI_ALLREDUCE, TUTTI_FLOAT32 },
    { "half", 500, TUTTI_ALLREDUCE, TUTTI_FLOAT16 }, /* the average */
    { "large", LARGE, TUTTI_ALLREDUCE, TUTTI_FLOAT32 },
    { "all", 40, TUTTI_ALLGATHER, TUTTI_FLOAT32 },
    { "part", 60, TUTTI_REDUCESCATTER, TUTTI_FLOAT32 },
    { "from 1", 33, TUTTI_BROADCAST, TUTTI_FLOAT32 },
};
#define TENSORS (sizeof tensors / sizeof *tensors)

/* A rank's step; the graph copies `given` to the inputs, and the outputs to `got`. */
struct step {
    char *input[TENSORS], *output[TENSORS]; /* device */
    char *given[TENSORS], *got[TENSORS]; /* pinned */
    void *side; /* a stream */
    float *beside; /* device memory that is in no graph */
    void *graph, *exec;
};

/* -------------------------------------------------------------------------- values */

static float value(int rank, int step, size_t tensor, int64_t i)
{
    return (float)(6 * ((rank + 1) * (step + 1) + (int)tensor + (int)(i % 4)));
}

static float expected(const struct ends_rank *r, int step, size_t tensor, int64_t i)
{
    const struct tensor *what = &tensors[tensor];
    float sum = 0;

    if (what->collective == TUTTI_ALLGATHER) {
        return value((int)(i / what->count), step, tensor, i % what->count);
    }
    if (what->collective == TUTTI_BROADCAST) {
        return value(1, step, tensor, i);
    }
    if (what->collective == TUTTI_REDUCESCATTER) {
        i += r->rank * what->count / r->size;
    }
    for (int rank = 0; rank < r->size; rank++) {
        sum += value(rank, step, tensor, i);
    }
    return what->dtype == TUTTI_FLOAT16 ? sum / (float)r->size : sum;
}

static size_t width(size_t tensor)
{
    return tensors[tensor].dtype == TUTTI_FLOAT16 ? 2 : 4;
}

static int64_t output_count(const struct ends_rank *r, size_t tensor)
{
    const int64_t count = tensors[tensor].count;

    return tensors[tensor].collective == TUTTI_ALLGATHER        ? count * r->size
            : tensors[tensor].collective == TUTTI_REDUCESCATTER ? count / r->size
                                                                : count;
}

/* A positive number, which float16 has. */
static void put(char *to, size_t tensor, int64_t i, float number)
{
    int exponent;
    const float part = frexpf(number, &exponent);
    const uint16_t half =
            (uint16_t)((exponent + 14) << 10 | ((int)ldexpf(part, 11) & 1023));

    if (width(tensor) == 2) {
        memcpy(to + 2 * i, &half, 2);
    } else {
        memcpy(to + 4 * i, &number, 4);
    }
}

static void give(struct step *s, int rank, int step)
{
    for (size_t t = 0; t < TENSORS; t++) {
        for (int64_t i = 0; i < tensors[t].count; i++) {
            put(s->given[t], t, i, value(rank, step, t, i));
        }
    }
}

/* The first of the tensors. */
static void check(struct ends_rank *r, const struct step *s, int step, size_t count)
{
    char bits[4];

    for (size_t t = 0; t < count; t++) {
        for (int64_t i = 0; i < output_count(r, t); i++) {
            put(bits, t, 0, expected(r, step, t, i));
            CHECK(memcmp(s->got[t] + i * (int64_t)width(t), bits, width(t)) == 0);
        }
    }
}

/* --------------------------------------------------------------------------- steps */

static void step_init(struct ends_rank *r, struct step *s)
{
    for (size_t t = 0; t < TENSORS; t++) {
        const int64_t most = tensors[t].count * r->size;

        s->input[t] = (char *)ends_alloc(r, most);
        s->output[t] = (char *)ends_alloc(r, most);
        s->given[t] = (char *)ends_pinned(r, most);
        s->got[t] = (char *)ends_pinned(r, most);
    }
    s->beside = ends_alloc(r, 200);
    CHECK(cuStreamCreate(&s->side, 1) == CUDA_SUCCESS);
    ends_whole_sum(r, "warm up");
}

static void graph_end(struct ends_rank *r, struct step *s)
{
    CHECK(cuGraphExecDestroy(s->exec) == CUDA_SUCCESS);
    CHECK(cuGraphDestroy(s->graph) == CUDA_SUCCESS);
}

static void step_fini(struct ends_rank *r, struct step *s)
{
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    graph_end(r, s);
    ends_free(r, s->beside);
    CHECK(cuStreamDestroy_v2(s->side) == CUDA_SUCCESS);
    for (size_t t = 0; t < TENSORS; t++) {
        ends_free(r, (float *)s->input[t]);
        ends_free(r, (float *)s->output[t]);
        ends_unpin(r, (float *)s->given[t]);
        ends_unpin(r, (float *)s->got[t]);
    }
}

/* Of global mode, the strictest: no other thread of the process may wait or allocate meanwhile. */
static void begin(struct ends_rank *r, void *stream)
{
    ends_meet(r);
    CHECK(cuStreamBeginCapture_v2(stream, 0) == CUDA_SUCCESS);
}

static void end(struct ends_rank *r, struct step *s)
{
    CHECK(cuStreamEndCapture(r->stream, &s->graph) == CUDA_SUCCESS);
    ends_meet(r);
    CHECK(cuGraphInstantiateWithFlags(&s->exec, s->graph, 0) == CUDA_SUCCESS);
}

static tutti_request submit(struct ends_rank *r, struct step *s, size_t t, void *stream)
{
    const struct tensor *what = &tensors[t];
    const tutti_options options = ends_on(stream);
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status;

    switch ((int)what->collective) {
    case TUTTI_ALLGATHER:
        status = tutti_allgather_async(r->t, what->name, s->input[t], s->output[t],
                what->count, 1, NULL, what->dtype, &options, &request);
        break;
    case TUTTI_REDUCESCATTER:
        status = tutti_reducescatter_async(r->t, what->name, s->input[t], s->output[t],
                what->count, 1, NULL, what->dtype, TUTTI_SUM, &options, &request);
        break;
    case TUTTI_BROADCAST:
        status = tutti_broadcast_async(r->t, what->name, s->input[t], what->count,
                what->dtype, 1, &options, &request);
        break;
    default:
        status = tutti_allreduce_async(r->t, what->name, s->input[t], s->output[t],
                what->count, what->dtype,
                what->dtype == TUTTI_FLOAT16 ? TUTTI_AVERAGE : TUTTI_SUM, &options,
                &request);
        break;
    }
    CHECK(status == TUTTI_OK);
    return request;
}

static void load(struct ends_rank *r, struct step *s, size_t t, void *stream)
{
    CHECK(cuMemcpyHtoDAsync_v2((uint64_t)(uintptr_t)s->input[t], s->given[t],
                  (size_t)tensors[t].count * width(t), stream) == CUDA_SUCCESS);
}

static void save(struct ends_rank *r, struct step *s, size_t t, void *stream)
{
    const bool in_place = tensors[t].collective == TUTTI_BROADCAST;

    CHECK(cuMemcpyDtoHAsync_v2(s->got[t],
                  (uint64_t)(uintptr_t)(in_place ? s->input[t] : s->output[t]),
                  (size_t)output_count(r, t) * width(t), stream) == CUDA_SUCCESS);
}

/* Two sums on the other stream, which are packed. */
static void submit_beside(struct ends_rank *r, const struct step *s,
        tutti_process_set set, tutti_request requests[2])
{
    tutti_options options = ends_on(s->side);

    options.process_set = set;
    ends_fill(r, s->beside, 1, 200, s->side);
    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        float *tensor = s->beside + (ptrdiff_t)100 * i;

        CHECK(tutti_allreduce_async(r->t, i == 0 ? "p" : "q", tensor, tensor, 99,
                      TUTTI_FLOAT32, TUTTI_SUM, &options, &requests[i]) == TUTTI_OK);
    }
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
}

/* Outside of the graph: nothing orders it before or behind the launches. */
static void sum_beside(struct ends_rank *r, const struct step *s)
{
    tutti_request requests[2];

    submit_beside(r, s, TUTTI_WORLD, requests);
    CHECK(tutti_wait_stream_all(r->t, 2, requests, s->side, ENDS_PATIENCE, NULL) ==
            TUTTI_OK);
}

/* With other collectives of the same set before and after launches. */
static void replay(struct ends_rank *r, struct step *s)
{
    for (int step = 0; step < REPLAYS; step++) {
        give(s, r->rank, step);
        sum_beside(r, s);
        CHECK(cuGraphLaunch(s->exec, r->stream) == CUDA_SUCCESS);
        if (step % 3 == 0) {
            ends_whole_sum(r, "between");
        }
        CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
        check(r, s, step, TENSORS);
    }
}

/* A whole step of one stream. The names are those of earlier uncaptured steps, too. */
static void run_step(struct ends_rank *r)
{
    tutti_request requests[TENSORS];
    struct step s;

    step_init(r, &s);
    for (int step = 0; step < 4; step++) { /* 3: in the graph */
        give(&s, r->rank, step);
        if (step == 3) {
            begin(r, r->stream);
        }
        for (size_t t = 0; t < TENSORS; t++) {
            load(r, &s, t, r->stream);
            requests[t] = submit(r, &s, t, r->stream);
        }
        CHECK(tutti_wait_stream_all(r->t, TENSORS, requests, r->stream, ENDS_PATIENCE,
                      NULL) == TUTTI_OK);
        for (size_t t = 0; t < TENSORS; t++) {
            save(r, &s, t, r->stream);
        }
        if (step < 3) {
            CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
            check(r, &s, step, TENSORS);
        }
    }
    end(r, &s);
    replay(r, &s);
    step_fini(r, &s);
}

/*
 * Tensors of two streams, in one batch, which other streams wait for; and of two process sets.
 * A wait draws no stream in: the capture forks and joins with events of its own.
 */
static void run_streams(struct ends_rank *r)
{
    const int members[] = { 0, 1 };
    tutti_process_set pair = TUTTI_WORLD;
    tutti_request one, two, others[2] = { TUTTI_REQUEST_NULL };
    void *event = NULL;
    struct step s;

    step_init(r, &s);
    CHECK(tutti_process_set_create(r->t, members, 2, &pair) == TUTTI_OK);
    CHECK(cuEventCreate(&event, 2) == CUDA_SUCCESS);
    begin(r, r->stream);
    CHECK(cuEventRecord(event, r->stream) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(s.side, event, 0) == CUDA_SUCCESS);
    load(r, &s, 0, r->stream);
    one = submit(r, &s, 0, r->stream);
    load(r, &s, 1, s.side);
    two = submit(r, &s, 1, s.side);
    if (r->rank < 2) {
        submit_beside(r, &s, pair, others);
    }
    CHECK(tutti_wait_stream(r->t, &two, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    save(r, &s, 1, r->stream);
    CHECK(tutti_wait_stream_all(r->t, 2, others, r->stream, ENDS_PATIENCE, NULL) ==
            TUTTI_OK);
    ends_take(r, (float *)s.got[4], s.beside, 99, r->stream);
    CHECK(tutti_wait_stream(r->t, &one, s.side, ENDS_PATIENCE) == TUTTI_OK);
    save(r, &s, 0, s.side);
    CHECK(cuEventRecord(event, s.side) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(r->stream, event, 0) == CUDA_SUCCESS);
    end(r, &s);
    for (int step = 0; step < REPLAYS; step++) {
        give(&s, r->rank, step);
        CHECK(cuGraphLaunch(s.exec, r->stream) == CUDA_SUCCESS);
        CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
        check(r, &s, step, 2);
        if (r->rank < 2) {
            ends_expect(r, (float *)s.got[4], 2, 99);
        }
    }
    CHECK(cuEventDestroy_v2(event) == CUDA_SUCCESS);
    step_fini(r, &s);
}

/* Sums of every second float, so that none lies beside another, in a group. */
static void capture_many(
        struct ends_rank *r, struct step *graph, float *memory, float *seen, int more)
{
    tutti_request requests[MANY] = { TUTTI_REQUEST_NULL };
    char name[16];

    begin(r, r->stream);
    ends_fill(r, memory, (float)(r->rank + 1 + more), 2 * MANY, r->stream);
    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    for (int i = 0; i < MANY; i++) {
        float *tensor = memory + (ptrdiff_t)2 * i;

        (void)snprintf(name, sizeof name, "%d", i);
        requests[i] = ends_sum(r, name, tensor, tensor, 1, r->stream);
    }
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
    CHECK(tutti_wait_stream_all(r->t, MANY, requests, r->stream, ENDS_PATIENCE, NULL) ==
            TUTTI_OK);
    ends_take(r, seen, memory, MANY, r->stream);
    end(r, graph);
}

/*
 * More tensors than a kernel takes. Two graphs are launched in turn; the memory of graphs that are
 * gone is used again.
 */
static void run_many(struct ends_rank *r)
{
    float *memory = ends_alloc(r, (int64_t)2 * MANY);
    float *seen = ends_pinned(r, MANY);
    struct gpusim_live live;
    struct step graphs[2];

    step_init(r, &graphs[0]);
    capture_many(r, &graphs[0], memory, seen, 0);
    capture_many(r, &graphs[1], memory, seen, 1);
    for (int step = 0; step < REPLAYS; step++) {
        const int g = step % 2;

        sum_beside(r, &graphs[0]);
        CHECK(cuGraphLaunch(graphs[g].exec, r->stream) == CUDA_SUCCESS);
        CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
        for (int i = 0; i < MANY; i++) {
            ends_expect(r, seen + i,
                    i % 2 == 0 ? ends_total(r) + (float)(g * r->size)
                               : (float)(r->rank + 1 + g),
                    1);
        }
    }
    ends_meet(r);
    live = gpusim_live();
    for (int i = 0; i < 3; i++) {
        graph_end(r, &graphs[0]);
        capture_many(r, &graphs[0], memory, seen, 0);
    }
    CHECK(gpusim_live().device_bytes == live.device_bytes);
    ends_meet(r);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    graph_end(r, &graphs[1]);
    ends_unpin(r, seen);
    ends_free(r, memory);
    step_fini(r, &graphs[0]);
}

/* ------------------------------------------------------------------------ refusals */

static void expect_refused(struct ends_rank *r, tutti_status status, const char *words)
{
    CHECK(status == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), words) != NULL);
}

/* What cannot be in a graph, or is waited for in a wrong way; the capture outlives all of it. */
static void run_refused(struct ends_rank *r)
{
    tutti_options options = ends_on(r->stream);
    tutti_request eager, captured, other;
    struct step s;

    step_init(r, &s);
    gpusim_hold(s.side); /* so that it is not over before the capture is */
    eager = ends_sum(r, "eager", s.beside, s.beside, 10, s.side);
    begin(r, r->stream);
    load(r, &s, 0, r->stream);
    captured = submit(r, &s, 0, r->stream);
    expect_refused(r,
            tutti_allreduce_async(r->t, "host", s.given[0], s.given[0], 10,
                    TUTTI_FLOAT32, TUTTI_SUM, &options, &other),
            "host memory");
    expect_refused(r, tutti_wait_stream(r->t, &captured, s.side, TUTTI_FOREVER),
            "is not being captured in it");
    CHECK(tutti_wait_stream(r->t, &captured, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    save(r, &s, 0, r->stream);
    CHECK(tutti_gather_async(r->t, "gather", s.input[1], s.output[1], 10, 1, NULL,
                  TUTTI_FLOAT32, 0, &options, &other) == TUTTI_OK);
    CHECK(tutti_wait_stream(r->t, &other, r->stream, ENDS_PATIENCE) ==
            TUTTI_ERR_UNSUPPORTED);
    CHECK(strstr(tutti_last_error(), "it needs the host") != NULL);
    expect_refused(r, tutti_wait_stream(r->t, &eager, r->stream, ENDS_PATIENCE),
            "was submitted outside of it");
    /* A call that blocks is over when it is in the graph. */
    load(r, &s, 1, r->stream);
    CHECK(tutti_allreduce(r->t, "blocks", s.input[1], s.output[1], tensors[1].count,
                  TUTTI_FLOAT32, TUTTI_SUM, &options) == TUTTI_OK);
    save(r, &s, 1, r->stream);
    end(r, &s);
    gpusim_release(s.side);
    CHECK(tutti_wait(r->t, &eager, ENDS_PATIENCE) == TUTTI_OK);
    give(&s, r->rank, 0);
    CHECK(cuGraphLaunch(s.exec, r->stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    check(r, &s, 0, 2);
    step_fini(r, &s);
}

/* Rank 1 does not capture what the others do: all are told, and can go on. */
static void run_disagreed(struct ends_rank *r)
{
    struct step s;
    tutti_request request;

    step_init(r, &s);
    for (int use = 0; use < 2; use++) { /* announced by name, and by number */
        for (int step = 0; step < 4 * use; step++) {
            request = submit(r, &s, 0, r->stream);
            CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) ==
                    TUTTI_OK);
        }
        ends_meet(r);
        CHECK(r->rank == 1 || cuStreamBeginCapture_v2(r->stream, 0) == CUDA_SUCCESS);
        request = submit(r, &s, 0, r->stream);
        CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) ==
                TUTTI_ERR_MISMATCH);
        CHECK(strstr(tutti_last_error(), "rank 1 gave device memory") != NULL);
        if (r->rank != 1) {
            CHECK(cuStreamEndCapture(r->stream, &s.graph) == CUDA_SUCCESS);
            CHECK(cuGraphDestroy(s.graph) == CUDA_SUCCESS);
        }
        ends_meet(r);
    }
    begin(r, r->stream);
    request = submit(r, &s, 0, r->stream);
    CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    end(r, &s);
    step_fini(r, &s);
}

/* The capture ends before its operation is in the graph, where that of other ranks may be. */
static void run_unwaited(struct ends_rank *r)
{
    struct step s;
    tutti_request request;

    step_init(r, &s);
    begin(r, r->stream);
    request = submit(r, &s, 0, r->stream);
    end(r, &s);
    CHECK(tutti_wait(r->t, &request, ENDS_PATIENCE) == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(strstr(tutti_last_error(), "has ended, or was made invalid, before") != NULL);
    step_fini(r, &s);
}

/* Rank 1 fails while the others run its graph: their context says so, and their kernels leave. */
static void run_death(struct ends_rank *r)
{
    const tutti_options options = ends_on(r->stream);
    struct step s;
    tutti_request request;

    step_init(r, &s);
    begin(r, r->stream);
    request = submit(r, &s, 0, r->stream);
    CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    end(r, &s);
    if (r->rank == 1) {
        gpusim_fail_device(r->device, CUDA_ILLEGAL_ADDRESS);
        CHECK(tutti_allreduce_async(r->t, "a", s.input[0], s.output[0], 1,
                      TUTTI_FLOAT32, TUTTI_SUM, &options,
                      &request) == TUTTI_ERR_CONTEXT_FAILED);
    } else {
        CHECK(cuGraphLaunch(s.exec, r->stream) == CUDA_SUCCESS);
    }
    graph_end(r, &s); /* which ends when its launch does */
    CHECK(tutti_barrier(r->t, "x", NULL) == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(strstr(tutti_last_error(), "rank 1 has lost GPU") != NULL);
    CHECK(r->rank == 1 || cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
}

static void *pass_time(void *rank)
{
    struct ends_rank *r = rank;

    ends_pass_time(r, "they are left behind");
    CHECK(ends_was_logged(r->job, "destroy graphs and their executables before"));
    return NULL;
}

/* A graph is not destroyed, for which NCCL would wait for ever at the end. */
static void run_left(struct ends_rank *r)
{
    static struct step s[ENDS_RANKS_MAX];
    tutti_request request;
    pthread_t thread;

    step_init(r, &s[r->rank]);
    begin(r, r->stream);
    request = submit(r, &s[r->rank], 0, r->stream);
    CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    end(r, &s[r->rank]);
    CHECK(pthread_create(&thread, NULL, pass_time, r) == 0);
    CHECK(pthread_detach(thread) == 0);
}

const struct ends_case cases_graphs[] = {
    { .name = "step", .body = run_step, .parameters = "issue=caller" },
    { .name = "streams", .body = run_streams, .parameters = "issue=caller" },
    { .name = "many", .body = run_many, .parameters = "issue=caller" },
    { .name = "refused", .body = run_refused, .parameters = "issue=caller" },
    { .name = "disagreed", .body = run_disagreed, .parameters = "issue=caller" },
    { .name = "unwaited",
            .body = run_unwaited,
            .parameters = "issue=caller",
            .finalize = TUTTI_ERR_CONTEXT_FAILED },
    { .name = "death",
            .body = run_death,
            .parameters = "issue=caller",
            .finalize = TUTTI_ERR_CONTEXT_FAILED,
            .is_lost = true },
    { .name = "left", .body = run_left, .parameters = "issue=caller", .is_lost = true },
    { .name = NULL },
};
