/*
 * Calls that are refused: each says why and changes nothing, so that the same name can be
 * used right after.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/suite.h"

/** A call that must be refused; what is not given is as in a good one. */
struct bad_call {
    const char *what;
    tutti_status want; /* 0: TUTTI_ERR_INVALID                            */
    int64_t count; /* default 4                                       */
    tutti_dtype dtype; /* default float32, as TUTTI_UINT8 is not used     */
    tutti_reduce_op op;
    double prescale; /* 0: 1                                            */
    double postscale; /* likewise                                        */
    tutti_process_set set;
    int ndim;
    int64_t dims[2];
    bool no_input;
    bool no_output;
    bool no_dims; /* ndim without dims                               */
    int shift; /* output = input + shift bytes; 0: in place       */
};

#define AS_BYTES ((int64_t)1 << 62)

static const struct bad_call bad_calls[] = {
    { "negative count", .count = -1 },
    { "count whose bytes overflow", .count = AS_BYTES },
    { "largest count", .count = INT64_MAX },
    { "unknown dtype", .dtype = (tutti_dtype)15 },
    { "dtype below all", .dtype = (tutti_dtype)-1 },
    { "unknown reduction", .op = (tutti_reduce_op)6 },
    { "reduction below all", .op = (tutti_reduce_op)-1 },
    { "input NULL", .no_input = true },
    { "output NULL", .no_output = true },
    { "output overlaps input by a byte", .shift = 15 },
    { "output one byte behind input", .shift = 1 },
    { "output before input", .shift = -4 },
    { "shape of another count", .ndim = 2, .dims = { 2, 3 } },
    { "negative dimension", .ndim = 2, .dims = { -2, -2 } },
    { "shape that overflows", .ndim = 2, .dims = { INT64_MAX, 3 } },
    { "17 dimensions", .ndim = 17 },
    { "-1 dimensions", .ndim = -1 },
    { "dims NULL", .ndim = 1, .no_dims = true },
    { "prescale NaN", .prescale = (double)NAN },
    { "postscale infinite", .postscale = (double)INFINITY },
    { "prescale of integers", TUTTI_ERR_UNSUPPORTED, .dtype = TUTTI_INT32,
            .prescale = 0.5 },
    { "postscale of integers", TUTTI_ERR_UNSUPPORTED, .dtype = TUTTI_INT64,
            .postscale = 2 },
    { "scaling of bool", TUTTI_ERR_UNSUPPORTED, .dtype = TUTTI_BOOL, .op = TUTTI_MAX,
            .prescale = 2 },
    { "sum of bool", TUTTI_ERR_UNSUPPORTED, .dtype = TUTTI_BOOL },
    { "average of bool", TUTTI_ERR_UNSUPPORTED, .dtype = TUTTI_BOOL,
            .op = TUTTI_AVERAGE },
    { "product of bool", TUTTI_ERR_UNSUPPORTED, .dtype = TUTTI_BOOL,
            .op = TUTTI_PRODUCT },
    { "sum of float8_e4m3", TUTTI_ERR_UNSUPPORTED, .dtype = TUTTI_FLOAT8_E4M3 },
    { "maximum of float8_e5m2", TUTTI_ERR_UNSUPPORTED, .dtype = TUTTI_FLOAT8_E5M2,
            .op = TUTTI_MAX },
    { "unknown process set", .set = 123456 },
};

static tutti_status call(tutti *t, const struct bad_call *bad)
{
    char memory[64] = { 0 };
    tutti_options options;
    tutti_request request = 77;
    tutti_status status;

    tutti_options_default(&options);
    options.process_set = bad->set;
    options.ndim = bad->ndim;
    options.dims = bad->no_dims ? NULL : bad->dims;
    options.prescale = bad->prescale < 0 || bad->prescale > 0 || isnan(bad->prescale)
            ? bad->prescale
            : 1;
    options.postscale = bad->postscale < 0 || bad->postscale > 0 ? bad->postscale : 1;
    status = tutti_allreduce_async(t, "refused", bad->no_input ? NULL : memory + 16,
            bad->no_output ? NULL : memory + 16 + bad->shift,
            bad->count != 0 ? bad->count : 4,
            bad->dtype != TUTTI_UINT8 ? bad->dtype : TUTTI_FLOAT32, bad->op, &options,
            &request);
    return request == 77 ? status : TUTTI_ERR_INTERNAL;
}

static void bad_arguments(tutti *t, struct checks *c)
{
    checks_step(c, "arguments");
    for (size_t i = 0; i < sizeof bad_calls / sizeof *bad_calls; i++) {
        const struct bad_call *bad = &bad_calls[i];

        checks_refused(c, bad->what,
                bad->want != TUTTI_OK ? bad->want : TUTTI_ERR_INVALID, call(t, bad));
    }
}

static tutti_status named(tutti *t, const char *name)
{
    float value = 1;
    tutti_request request = TUTTI_REQUEST_NULL;

    return tutti_allreduce_async(
            t, name, &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL, &request);
}

static void bad_names(tutti *t, struct checks *c)
{
    char name[TUTTI_NAME_MAX + 2];
    float value = 1;

    checks_step(c, "names");
    checks_refused(c, "name NULL", TUTTI_ERR_INVALID, named(t, NULL));
    checks_refused(c, "name empty", TUTTI_ERR_INVALID, named(t, ""));
    checks_refused(c, "name with a newline", TUTTI_ERR_INVALID, named(t, "a\nb"));
    checks_refused(c, "name with DEL", TUTTI_ERR_INVALID, named(t, "\x7f"));
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    checks_refused(c, "name of 256 bytes", TUTTI_ERR_INVALID, named(t, name));
    name[TUTTI_NAME_MAX] = '\0';
    EXPECT_OK(c,
            tutti_allreduce(
                    t, name, &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
    EXPECT_OK(c,
            tutti_allreduce(t, "größe / 大きさ", &value, &value, 1, TUTTI_FLOAT32,
                    TUTTI_SUM, NULL));
}

static void bad_options(tutti *t, struct checks *c)
{
    tutti_options options = { 0 };
    tutti_request request = TUTTI_REQUEST_NULL;
    float value = 1;

    checks_step(c, "options and pointers");
    checks_refused(c, "options of size 0", TUTTI_ERR_INVALID,
            tutti_allreduce(t, "refused", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                    &options));
    options.size = 8;
    checks_refused(c, "options of size 8", TUTTI_ERR_INVALID,
            tutti_barrier(t, "refused", &options));
    tutti_options_default(&options);
    options.step = -2;
    checks_refused(
            c, "step -2", TUTTI_ERR_INVALID, tutti_barrier(t, "refused", &options));
    checks_refused(c, "request NULL, no callback", TUTTI_ERR_INVALID,
            tutti_barrier_async(t, "refused", NULL, NULL));
    checks_refused(c, "context NULL", TUTTI_ERR_INVALID,
            tutti_barrier_async(NULL, "refused", NULL, &request));
    checks_refused(c, "context NULL, blocking", TUTTI_ERR_INVALID,
            tutti_allreduce(NULL, "refused", &value, &value, 1, TUTTI_FLOAT32,
                    TUTTI_SUM, NULL));
    checks_refused(c, "broadcast from root -1", TUTTI_ERR_INVALID,
            tutti_broadcast(t, "refused", &value, 1, TUTTI_FLOAT32, -1, NULL));
    checks_refused(c, "broadcast from root = size", TUTTI_ERR_INVALID,
            tutti_broadcast(t, "refused", &value, 1, TUTTI_FLOAT32, c->size, NULL));
    checks_refused(c, "broadcast of NULL", TUTTI_ERR_INVALID,
            tutti_broadcast(t, "refused", NULL, 1, TUTTI_FLOAT32, 0, NULL));
    checks_refused(
            c, "tutti_abort without text", TUTTI_ERR_INVALID, tutti_abort(t, NULL));
    checks_refused(c, "statistics of size 0", TUTTI_ERR_INVALID,
            tutti_stats_get(t, &(tutti_stats){ 0 }));
    checks_refused(
            c, "statistics into NULL", TUTTI_ERR_INVALID, tutti_stats_get(t, NULL));
    checks_refused(c, "a timeline without a directory", TUTTI_ERR_INVALID,
            tutti_timeline_start(t, NULL));
    if (c->size > 1) { /* one rank alone records nothing */
        checks_refused(c, "a timeline in a file that is there", TUTTI_ERR_SYSTEM,
                tutti_timeline_start(t, "/dev/null"));
    }
}

/* Options and statistics of an older, shorter struct, and of a longer one to come. */
static void other_sizes(tutti *t, struct checks *c)
{
    struct {
        tutti_options known;
        char later[64];
    } longer = { 0 };
    struct {
        tutti_stats known;
        uint64_t later;
    } stats = { .later = 77 };

    checks_step(c, "sizes of structs");
    tutti_options_default(&longer.known);
    longer.known.size = sizeof longer;
    EXPECT_OK(c, tutti_barrier(t, "longer options", &longer.known));
    /* A program that does not know of steps. */
    longer.known.size = offsetof(tutti_options, step);
    longer.known.step = -2;
    EXPECT_OK(c, tutti_barrier(t, "shorter options", &longer.known));
    stats.known.size = sizeof stats;
    EXPECT_OK(c, tutti_stats_get(t, &stats.known));
    EXPECT(c, stats.later == 77 && stats.known.size == sizeof stats);
    stats.known = (tutti_stats){ .size = offsetof(tutti_stats, failed), .failed = 55 };
    EXPECT_OK(c, tutti_stats_get(t, &stats.known));
    EXPECT(c, stats.known.completed > 0 && stats.known.failed == 55);
}

static void duplicate_name(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1 && c->size > 1;
    tutti_request requests[3] = { 0 };
    float values[3] = { 1, 1, 1 };

    checks_step(c, "duplicate");
    if (!late) {
        EXPECT_OK(c,
                tutti_allreduce_async(t, "twice", &values[0], &values[0], 1,
                        TUTTI_FLOAT32, TUTTI_SUM, NULL, &requests[0]));
    }
    if (!late && c->size > 1) {
        /* In flight for certain: the last rank has not submitted. */
        checks_refused(c, "name in flight", TUTTI_ERR_DUPLICATE,
                tutti_allreduce_async(t, "twice", &values[1], &values[1], 1,
                        TUTTI_FLOAT32, TUTTI_SUM, NULL, &requests[1]));
        EXPECT(c, requests[1] == TUTTI_REQUEST_NULL);
        EXPECT_OK(c,
                tutti_broadcast_async(t, "twice", &values[1], 1, TUTTI_FLOAT32, 0, NULL,
                        &requests[1]));
        EXPECT_OK(c, tutti_barrier_async(t, "twice", NULL, &requests[2]));
    }
    job_meet(c);
    if (late) {
        EXPECT_OK(c, tutti_barrier_async(t, "twice", NULL, &requests[2]));
        EXPECT_OK(c,
                tutti_broadcast_async(t, "twice", &values[1], 1, TUTTI_FLOAT32, 0, NULL,
                        &requests[1]));
        EXPECT_OK(c,
                tutti_allreduce_async(t, "twice", &values[0], &values[0], 1,
                        TUTTI_FLOAT32, TUTTI_SUM, NULL, &requests[0]));
    }
    EXPECT_OK(c, tutti_wait_all(t, 3, requests, TUTTI_FOREVER, NULL));
    EXPECT(c, values[0] == (float)c->size);
}

static void bad_configuration(struct checks *c)
{
    tutti_config *config = NULL;
    tutti *t = NULL;
    tutti *local[2] = { NULL };
    const char *text = NULL;

    checks_step(c, "configuration");
    EXPECT_OK(c, tutti_config_create(&config));
    checks_refused(c, "unknown parameter", TUTTI_ERR_CONFIG,
            tutti_config_set(config, "fusion_byte", "1"));
    checks_refused(c, "value that is no number", TUTTI_ERR_CONFIG,
            tutti_config_set(config, "inflight", "many"));
    checks_refused(c, "value outside its range", TUTTI_ERR_CONFIG,
            tutti_config_set(config, "inflight", "9"));
    checks_refused(c, "unknown choice", TUTTI_ERR_CONFIG,
            tutti_config_set(config, "backend", "magic"));
    checks_refused(c, "value NULL", TUTTI_ERR_INVALID,
            tutti_config_set(config, "inflight", NULL));
    checks_refused(c, "reading an unknown parameter", TUTTI_ERR_CONFIG,
            tutti_config_get(config, "speed", &text));
    checks_refused(c, "describing GPUs nowhere", TUTTI_ERR_INVALID,
            tutti_gpu_describe(config, NULL, 1));
    checks_refused(c, "describing GPUs in no bytes", TUTTI_ERR_INVALID,
            tutti_gpu_describe(config, (char[1]){ "" }, 0));
    EXPECT_OK(c, tutti_config_set(config, "inflight", "3"));
    EXPECT_OK(c,
            tutti_config_set(
                    config, "kernels", tutti_has_feature("neon") ? "avx2" : "neon"));
    /* Not for the list of errors, which is the same on all processors. */
    EXPECT_STATUS(c, TUTTI_ERR_CONFIG, tutti_init_local(2, local, config));
    EXPECT_OK(c, tutti_config_get(config, "inflight", &text));
    EXPECT(c, strcmp(text, "3") == 0);
    tutti_config_destroy(config);
    checks_refused(c, "tutti_init_local of no ranks", TUTTI_ERR_INVALID,
            tutti_init_local(0, &t, NULL));
    checks_refused(c, "tutti_init_local into NULL", TUTTI_ERR_INVALID,
            tutti_init_local(2, NULL, NULL));
    checks_refused(
            c, "tutti_init into NULL", TUTTI_ERR_INVALID, tutti_init(NULL, NULL));
    EXPECT(c, t == NULL);
}

void suite_refusals(tutti *t, struct checks *c)
{
    tutti_stats before = { .size = sizeof before };
    tutti_stats after = { .size = sizeof after };
    float values[4] = { 1, 2, 3, 4 };

    EXPECT_OK(c, tutti_stats_get(t, &before));
    bad_arguments(t, c);
    bad_options(t, c);
    EXPECT_OK(c, tutti_stats_get(t, &after));
    EXPECT(c, before.submitted == after.submitted && before.failed == after.failed);
    /* The name that was refused so often works. */
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "refused", values, values, 4, TUTTI_FLOAT32, TUTTI_SUM, NULL));
    EXPECT(c, values[3] == (float)(4 * c->size));
    EXPECT_OK(c, tutti_broadcast(t, "refused", values, 1, TUTTI_FLOAT32, 0, NULL));
    EXPECT_OK(c, tutti_barrier(t, "refused", NULL));
    bad_names(t, c);
    other_sizes(t, c);
    duplicate_name(t, c);
    bad_configuration(c);
}
