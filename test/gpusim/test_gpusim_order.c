/*
 * The happens-before check.
 *
 * Random programs of streams, events and synchronisations: a second, slower rule says which
 * operations are ordered: each keeps the set of all that happened before it. The simulator
 * must report a race exactly when two operations on the same bytes are in neither's set.
 *
 * Then kinds of order that these programs do not have, and what is said of a race.
 */
#include <stdio.h>
#include <stdlib.h>

#include "test/gpusim/gpu.h"

enum {
    STREAMS = 4,
    BUFFERS = 6,
    BUFFER_BYTES = 64,
    OPS_MAX = 3000,
    WORDS = (OPS_MAX + 63) / 64
};

struct set {
    uint64_t words[WORDS];
};

struct step {
    struct set before; /* operations ordered before this one; itself included */
    int to, from; /* buffers; from -1: a fill */
    uint64_t at, bytes; /* the same part of both    */
};

struct program {
    uint64_t seed;
    uint64_t draws;
    unsigned careful; /* of 100 edges that are needed, so many are made */
    int count;
    struct step steps[OPS_MAX];
    struct set
            streams[STREAMS]; /* what is ordered before the stream's next operation */
    struct set events[STREAMS]; /* one event per stream */
    struct set host;
    void *stream[STREAMS];
    void *event[STREAMS];
    uint64_t buffers[BUFFERS];
};

static unsigned draw(struct program *program, unsigned below)
{
    return (unsigned)(gpusim_seeded(program->seed, ++program->draws) % below);
}

static void set_join(struct set *into, const struct set *from)
{
    for (size_t i = 0; i < WORDS; i++) {
        into->words[i] |= from->words[i];
    }
}

static bool set_has(const struct set *set, int index)
{
    return (set->words[index / 64] >> (index % 64) & 1) != 0;
}

static bool touches(const struct step *step, int buffer, bool writes)
{
    return step->to == buffer || (!writes && step->from == buffer);
}

static bool steps_conflict(const struct step *a, const struct step *b)
{
    bool meet = a->at < b->at + b->bytes && b->at < a->at + a->bytes;

    return meet &&
            (touches(b, a->to, false) || (a->from >= 0 && touches(b, a->from, true)));
}

/* Makes an edge from the stream of an earlier operation to the next one of `stream`. */
static void make_edge(struct program *program, int from, int stream)
{
    switch (draw(program, 3)) {
    case 0:
        assert_int_equal(cuEventRecord(program->event[from], program->stream[from]), 0);
        assert_int_equal(
                cuStreamWaitEvent(program->stream[stream], program->event[from], 0), 0);
        program->events[from] = program->streams[from];
        set_join(&program->streams[stream], &program->events[from]);
        break;
    case 1:
        assert_int_equal(cuStreamSynchronize(program->stream[from]), 0);
        set_join(&program->host, &program->streams[from]);
        break;
    default:
        assert_int_equal(cuEventRecord(program->event[from], program->stream[from]), 0);
        assert_int_equal(cuEventSynchronize(program->event[from]), 0);
        program->events[from] = program->streams[from];
        set_join(&program->host, &program->events[from]);
        break;
    }
}

/* Orders the step after those it conflicts with; an edge now and then is left out. */
static void order_step(struct program *program, const struct step *step,
        const int *stream_of, int stream)
{
    for (int i = program->count - 1; i >= 0; i--) {
        const struct step *earlier = &program->steps[i];

        if (!steps_conflict(step, earlier) || set_has(&program->streams[stream], i) ||
                set_has(&program->host, i)) {
            continue;
        }
        if (draw(program, 100) < program->careful) {
            make_edge(program, stream_of[i], stream);
        }
    }
}

/* Whether a conflict stayed without order after all edges of the step were made. */
static bool step_races(const struct program *program, const struct step *step)
{
    for (int i = 0; i < program->count; i++) {
        if (steps_conflict(step, &program->steps[i]) && !set_has(&step->before, i)) {
            return true;
        }
    }
    return false;
}

static void submit_step(struct program *program, const struct step *step, int stream)
{
    if (step->from < 0) {
        assert_int_equal(cuMemsetD8Async(program->buffers[step->to] + step->at, 1,
                                 step->bytes, program->stream[stream]),
                0);
    } else {
        assert_int_equal(cuMemcpyDtoDAsync_v2(program->buffers[step->to] + step->at,
                                 program->buffers[step->from] + step->at, step->bytes,
                                 program->stream[stream]),
                0);
    }
}

/* True when the program has a race. */
static bool run_steps(struct program *program, int count)
{
    int stream_of[OPS_MAX];
    bool races = false;

    while (program->count < count) {
        struct step *step = &program->steps[program->count];
        int stream = (int)draw(program, STREAMS);

        *step = (struct step){
            .to = (int)draw(program, BUFFERS),
            .from = (int)draw(program, BUFFERS + 3) - 3,
            .at = draw(program, BUFFER_BYTES),
        };
        step->from = step->from < 0 || step->from == step->to ? -1 : step->from;
        step->bytes = 1 + draw(program, BUFFER_BYTES - (unsigned)step->at);
        order_step(program, step, stream_of, stream);
        set_join(&program->streams[stream], &program->host);
        program->streams[stream].words[program->count / 64] |= (uint64_t)1
                << (program->count % 64);
        step->before = program->streams[stream];
        races = step_races(program, step) || races;
        submit_step(program, step, stream);
        stream_of[program->count++] = stream;
    }
    return races;
}

static void program_open(struct program *program)
{
    gpu_open(0);
    for (int i = 0; i < STREAMS; i++) {
        program->stream[i] = gpu_stream();
        program->event[i] = gpu_event();
    }
    for (int i = 0; i < BUFFERS; i++) {
        program->buffers[i] = gpu_alloc(BUFFER_BYTES);
        assert_true(gpusim_fill(program->buffers[i], 0, BUFFER_BYTES));
    }
}

static void program_close(struct program *program)
{
    for (int i = 0; i < BUFFERS; i++) {
        assert_int_equal(cuMemFree_v2(program->buffers[i]), 0);
    }
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(cuEventDestroy_v2(program->event[i]), 0);
        assert_int_equal(cuStreamDestroy_v2(program->stream[i]), 0);
    }
    gpu_close(0);
}

/* True when it raced; that it was reported is checked here. */
static bool run_program(uint64_t seed, unsigned careful, int count)
{
    struct program *program = calloc(1, sizeof *program);
    bool races, found;

    program->seed = seed;
    program->careful = careful;
    program_open(program);
    races = run_steps(program, count);
    assert_int_equal(cuCtxSynchronize(), 0);
    found = gpusim_take_reports(NULL, 0) > 0;
    if (found != races) {
        fail_msg("seed %llu: race %s", (unsigned long long)seed,
                found ? "reported, and there is none" : "missed");
    }
    program_close(program);
    free(program);
    return races;
}

UNIT_TEST(test_a_race_is_reported_exactly_when_there_is_one)
{
    int racy = 0, programs = 150;

    for (int seed = 0; seed < programs; seed++) {
        racy += run_program((uint64_t)seed, seed % 2 == 0 ? 99 : 90, 40) ? 1 : 0;
    }
    assert_in_range(racy, programs / 10, programs - programs / 10);
}

UNIT_TEST(test_a_long_correct_program_has_no_alarm)
{
    assert_false(run_program(1000, 100, OPS_MAX));
}

/* ------------------------------------------------------------------------------ other */

enum {
    BYTES = 4096
};

/* Two streams and two buffers of device 0. */
static struct {
    void *first, *second;
    uint64_t a, b;
} bench;

static int begin(void **state)
{
    (void)state;
    gpu_open(0);
    bench.first = gpu_stream();
    bench.second = gpu_stream();
    bench.a = gpu_alloc(BYTES);
    bench.b = gpu_alloc(BYTES);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuMemFree_v2(bench.a), 0);
    assert_int_equal(cuMemFree_v2(bench.b), 0);
    assert_int_equal(cuStreamDestroy_v2(bench.first), 0);
    assert_int_equal(cuStreamDestroy_v2(bench.second), 0);
    gpu_close(0);
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, begin, end)

static void fill(uint64_t to, size_t bytes, void *stream)
{
    assert_int_equal(cuMemsetD8Async(to, 1, bytes, stream), 0);
}

static void copy(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    assert_int_equal(cuMemcpyDtoDAsync_v2(to, from, bytes, stream), 0);
}

/* Ends the work, and says how many races it had; the first must name both parties. */
static void expect_races(long races, const char *newer, const char *older)
{
    char text[512];

    gpusim_settle();
    assert_int_equal(gpusim_take_reports(text, sizeof text), races);
    if (races > 0) {
        assert_non_null(strstr(text, newer));
        assert_non_null(strstr(text, older));
    }
}

/* Whichever comes first: the access is late or early, it is a race in both cases. */
TEST(test_the_host_must_wait_before_it_reads)
{
    char bytes[BYTES];

    fill(bench.a, BYTES, bench.first);
    assert_true(gpusim_read(bytes, bench.a, BYTES));
    expect_races(1, "gpusim_read", "cuMemsetD8Async");
    assert_int_equal(cuStreamSynchronize(bench.first), 0);
    assert_true(gpusim_read(bytes, bench.a, BYTES));
    gpusim_hold(bench.first);
    fill(bench.a, BYTES, bench.first);
    assert_true(gpusim_read(bytes, bench.a, BYTES));
    gpusim_release(bench.first);
    expect_races(1, "cuMemsetD8Async", "gpusim_read");
}

/* The driver may wait when memory is freed, but does not promise it. */
TEST(test_freeing_what_is_in_use_is_found)
{
    const uint64_t pointer = gpu_alloc(BYTES);

    copy(bench.b, pointer, BYTES, bench.first);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    expect_races(1, "cuMemFree", "cuMemcpyDtoDAsync_v2");
}

TEST(test_the_default_stream_orders_implicitly)
{
    void *blocking;

    assert_int_equal(cuStreamCreateWithPriority(&blocking, 0, 0), 0);
    fill(bench.a, BYTES, blocking);
    fill(bench.a, BYTES, NULL);
    fill(bench.a, BYTES, blocking);
    expect_races(0, "", "");
    fill(bench.a, BYTES, bench.first);
    expect_races(1, "cuMemsetD8Async", "cuMemsetD8Async");
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
}
