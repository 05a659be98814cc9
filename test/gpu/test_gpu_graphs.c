/*
 * Operations in CUDA graphs: steps that are captured once and launched often, each time with
 * other data; and what cannot be in a graph.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/operation.h"
#include "test/batch/reference.h"
#include "test/gpu/ends.h"

enum {
    REPLAYS = 10,
    LARGE = (8 << 20) / 4 + 5 /* elements, that no batch packs */
};

#define TENSOR(what, type, reduction, elements) \
    .collective = (what), \
    .pattern = { .dtype = (type), .op = (reduction), .salt = (uint32_t)(elements) }, \
    .scales = { 1, 1 }, .count = (elements), .row_count = 1

/* Of a step; on each rank and in each launch they have other contents. */
static const struct operation tensors[] = {
    { TENSOR(TUTTI_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, 300) },
    { TENSOR(TUTTI_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, 77) },
    { TENSOR(TUTTI_ALLREDUCE, TUTTI_INT16, TUTTI_AVERAGE, 500) },
    { TENSOR(TUTTI_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, LARGE) },
    { TENSOR(TUTTI_ALLGATHER, TUTTI_FLOAT32, TUTTI_SUM, 40) },
    { TENSOR(TUTTI_REDUCESCATTER, TUTTI_FLOAT32, TUTTI_SUM, 60) },
    { TENSOR(TUTTI_BROADCAST, TUTTI_FLOAT32, TUTTI_SUM, 33), .root = 1 },
};
#define TENSORS (sizeof tensors / sizeof *tensors)

/* A rank's step; the graph copies `given` to the inputs, and the outputs to `got`. */
struct step {
    char *input[TENSORS], *output[TENSORS]; /* device; of a broadcast the same */
    char *given[TENSORS], *got[TENSORS]; /* pinned */
    void *side; /* a stream */
    float *beside; /* device memory that is in no graph */
    void *graph, *exec;
};

/* -------------------------------------------------------------------------- values */

static size_t input_bytes(const struct ends_rank *r, size_t tensor)
{
    return operation_input_bytes(&tensors[tensor], r->size, r->rank);
}

static size_t output_bytes(const struct ends_rank *r, size_t tensor)
{
    return operation_output_bytes(&tensors[tensor], r->size, r->rank);
}

static void give(struct ends_rank *r, struct step *s, int step)
{
    for (size_t t = 0; t < TENSORS; t++) {
        operation_fill(
                &tensors[t], r->rank + r->size * step, s->given[t], input_bytes(r, t));
    }
}

/* The first of the tensors. */
static void check(struct ends_rank *r, const struct step *s, int step, size_t count)
{
    int world[ENDS_RANKS_MAX];
    const struct crew crew = { .world = world, .size = r->size, .index = r->rank };

    for (int i = 0; i < r->size; i++) {
        world[i] = i + r->size * step;
    }
    reference_set_folds(true);
    for (size_t t = 0; t < count; t++) {
        void *expected = must_alloc(output_bytes(r, t), 1);

        operation_expect(&tensors[t], &crew, NULL, expected);
        CHECK(memcmp(s->got[t], expected, output_bytes(r, t)) == 0);
        free(expected);
    }
}

/* --------------------------------------------------------------------------- steps */

static void step_init(struct ends_rank *r, struct step *s)
{
    for (size_t t = 0; t < TENSORS; t++) {
        const int64_t most = tensors[t].count * r->size;

        s->input[t] = (char *)ends_alloc(r, most);
        s->output[t] = tensors[t].collective == TUTTI_BROADCAST
                ? s->input[t]
                : (char *)ends_alloc(r, most);
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
    CHECK(cuStreamDestroy_v2(s->side) == CUDA_SUCCESS);
}

/* Of global mode, the strictest: no other thread of the process may wait or allocate meanwhile. */
static void begin(struct ends_rank *r)
{
    ends_meet(r);
    CHECK(cuStreamBeginCapture_v2(r->stream, 0) == CUDA_SUCCESS);
}

static void end(struct ends_rank *r, struct step *s)
{
    CHECK(cuStreamEndCapture(r->stream, &s->graph) == CUDA_SUCCESS);
    ends_meet(r);
    CHECK(cuGraphInstantiateWithFlags(&s->exec, s->graph, 0) == CUDA_SUCCESS);
}

static tutti_request submit(struct ends_rank *r, struct step *s, size_t t, void *stream)
{
    const struct operation *o = &tensors[t];
    const tutti_dtype dtype = o->pattern.dtype;
    const tutti_options options = ends_on(stream);
    char *const input = s->input[t];
    char *const output = s->output[t];
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status;
    char name[16];

    (void)snprintf(name, sizeof name, "tensor %zu", t);
    switch ((int)o->collective) {
    case TUTTI_ALLGATHER:
        status = tutti_allgather_async(r->t, name, input, output, o->count, 1, NULL,
                dtype, &options, &request);
        break;
    case TUTTI_REDUCESCATTER:
        status = tutti_reducescatter_async(r->t, name, input, output, o->count, 1, NULL,
                dtype, o->pattern.op, &options, &request);
        break;
    case TUTTI_BROADCAST:
        status = tutti_broadcast_async(
                r->t, name, input, o->count, dtype, o->root, &options, &request);
        break;
    default:
        status = tutti_allreduce_async(r->t, name, input, output, o->count, dtype,
                o->pattern.op, &options, &request);
        break;
    }
    CHECK(status == TUTTI_OK);
    return request;
}

/* A graph of the first tensor alone. */
static void capture_one(struct ends_rank *r, struct step *s)
{
    tutti_request request;

    begin(r);
    request = submit(r, s, 0, r->stream);
    CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    end(r, s);
}

static void load(struct ends_rank *r, struct step *s, size_t t, void *stream)
{
    CHECK(cuMemcpyHtoDAsync_v2((uint64_t)(uintptr_t)s->input[t], s->given[t],
                  input_bytes(r, t), stream) == CUDA_SUCCESS);
}

static void save(struct ends_rank *r, struct step *s, size_t t, void *stream)
{
    CHECK(cuMemcpyDtoHAsync_v2(s->got[t], (uint64_t)(uintptr_t)s->output[t],
                  output_bytes(r, t), stream) == CUDA_SUCCESS);
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
        give(r, s, step);
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
        give(r, &s, step);
        if (step == 3) {
            begin(r);
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
    begin(r);
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
        give(r, &s, step);
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

static void capture_many(struct ends_rank *r, struct step *graph, float *block,
        float *seen, int left_out)
{
    begin(r);
    ends_sum_many(r, block, left_out, r->stream);
    ends_take(r, seen, block, ENDS_MANY_FLOATS, r->stream);
    end(r, graph);
}

/*
 * More tensors than a kernel takes. Two graphs are launched in turn; the memory of graphs that are
 * gone is used again.
 */
static void run_many(struct ends_rank *r)
{
    float *block = ends_alloc(r, ENDS_MANY_FLOATS);
    float *seen = ends_pinned(r, ENDS_MANY_FLOATS);
    struct gpusim_live live;
    struct step graphs[2];

    step_init(r, &graphs[0]);
    capture_many(r, &graphs[0], block, seen, 0);
    capture_many(r, &graphs[1], block, seen, 1);
    for (int step = 0; step < REPLAYS; step++) {
        const int g = step % 2;

        sum_beside(r, &graphs[0]);
        CHECK(cuGraphLaunch(graphs[g].exec, r->stream) == CUDA_SUCCESS);
        CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
        ends_expect_many(r, seen, g);
    }
    ends_meet(r);
    live = gpusim_live();
    for (int i = 0; i < 3; i++) {
        graph_end(r, &graphs[0]);
        capture_many(r, &graphs[0], block, seen, 0);
    }
    CHECK(gpusim_live().device_bytes == live.device_bytes);
    ends_meet(r);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    graph_end(r, &graphs[1]);
    step_fini(r, &graphs[0]);
}

/* ------------------------------------------------------------------------ refusals */

static void expect_refused(struct ends_rank *r, tutti_status status, const char *words)
{
    CHECK(status == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), words) != NULL);
}

/* What cannot be in a graph, or is waited for in a wrong way; the capture outlives all of it. */
static void run_outside(struct ends_rank *r)
{
    tutti_options options = ends_on(r->stream);
    tutti_request eager, captured, other;
    void *other_stream = NULL;
    struct step s;

    step_init(r, &s);
    gpusim_hold(s.side); /* so that it is not over before the capture is */
    eager = ends_sum(r, "eager", s.beside, s.beside, 10, s.side);
    begin(r);
    load(r, &s, 0, r->stream);
    captured = submit(r, &s, 0, r->stream);
    expect_refused(r,
            tutti_allreduce_async(r->t, "host", s.given[0], s.given[0], 10,
                    TUTTI_FLOAT32, TUTTI_SUM, &options, &other),
            "host memory");
    CHECK(cuStreamCreate(&other_stream, 1) == CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) { /* on a stream of no capture, and of another one */
        CHECK(i == 0 || cuStreamBeginCapture_v2(other_stream, 0) == CUDA_SUCCESS);
        expect_refused(r,
                tutti_wait_stream(r->t, &captured, other_stream, TUTTI_FOREVER),
                "is not being captured in it");
    }
    CHECK(cuStreamEndCapture(other_stream, &s.graph) == CUDA_SUCCESS);
    CHECK(cuGraphDestroy(s.graph) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy_v2(other_stream) == CUDA_SUCCESS);
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
    give(r, &s, 0);
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
    capture_one(r, &s);
    step_fini(r, &s);
}

/*
 * The capture ends before its operation is in the graph, where that of other ranks may be; or a
 * batch has operations of two captures.
 */
static void run_unwaited(struct ends_rank *r)
{
    const bool is_crossed = strcmp(r->job->what->name, "crossed") == 0;
    tutti_request requests[2] = { TUTTI_REQUEST_NULL };
    struct step s;

    step_init(r, &s);
    begin(r);
    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    requests[0] = submit(r, &s, 0, r->stream);
    if (is_crossed) {
        CHECK(cuStreamBeginCapture_v2(s.side, 0) == CUDA_SUCCESS);
        requests[1] = submit(r, &s, 1, s.side);
    }
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
    if (!is_crossed) {
        end(r, &s);
    }
    CHECK(tutti_wait(r->t, &requests[0], ENDS_PATIENCE) == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(strstr(tutti_last_error(),
                  is_crossed ? "was submitted in another capture"
                             : "has ended, or was made invalid, before") != NULL);
    if (is_crossed) { /* NCCL's aborts free memory, which may have made them invalid */
        (void)cuStreamEndCapture(s.side, &s.graph);
        (void)cuStreamEndCapture(r->stream, &s.graph);
        CHECK(cuStreamDestroy_v2(s.side) == CUDA_SUCCESS);
    } else {
        step_fini(r, &s);
    }
}

/* Rank 1 fails while the others run its graph: their context says so, and their kernels leave. */
static void run_death(struct ends_rank *r)
{
    const tutti_options options = ends_on(r->stream);
    struct step s;
    tutti_request request;

    step_init(r, &s);
    capture_one(r, &s);
    if (r->rank == 1) {
        gpusim_fail_device(r->device, CUDA_ILLEGAL_ADDRESS);
        CHECK(tutti_allreduce_async(r->t, "tensor 0", s.input[0], s.output[0], 1,
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

    step_init(r, &s[r->rank]);
    capture_one(r, &s[r->rank]);
    CHECK(pthread_create(&r->beside, NULL, pass_time, r) == 0);
    r->has_beside = true;
}

#define FAILED TUTTI_ERR_CONTEXT_FAILED

const struct ends_case cases_graphs[] = {
    { "step", run_step, "issue=caller", TUTTI_OK, false },
    { "streams", run_streams, "issue=caller", TUTTI_OK, false },
    { "many", run_many, "issue=caller", TUTTI_OK, false },
    { "outside", run_outside, "issue=caller", TUTTI_OK, false },
    { "disagreed", run_disagreed, "issue=caller", TUTTI_OK, false },
    { "unwaited", run_unwaited, "issue=caller", FAILED, false },
    { "crossed", run_unwaited, "issue=caller", FAILED, false },
    { "death", run_death, "issue=caller", FAILED, true },
    { "left", run_left, "issue=caller", TUTTI_OK, true },
    { .name = NULL },
};
