/*
 * Every operation of every type in three places: one tensor alone, several anywhere (which
 * are packed), and several side by side in tutti's memory (reduced in place).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu/real/suite.h"
#include "test/suite/operation.h"
#include "test/suite/reference.h"

#define TENSORS 3
#define RANKS_MAX 64
/* Tensors side by side are multiples of this long. */
#define BOUNDARY 256

enum placing {
    SINGLE,
    ANYWHERE,
    ARENA,
    PLACINGS
};

static const char *const placings[] = { "single", "fused", "arena" };

/** What is tried. */
struct trial {
    struct suite *s;
    enum placing placing;
    struct operation operations[TENSORS];
    struct flight flights[TENSORS]; /* of device memory                          */
    unsigned char *block; /* of device memory, in which tensors lie; owned       */
    size_t tensors;
    int ranks[RANKS_MAX];
    struct crew crew;
};

/* Small whole numbers, other ones on each rank: sums are exact in all types. */
static void fill(const struct operation *o, int rank, unsigned char *to, size_t bytes)
{
    const tutti_dtype dtype = o->pattern.dtype;
    const size_t element = tutti_dtype_size(dtype);

    for (size_t e = 0; e < bytes / element; e++) {
        const int64_t small =
                (int64_t)((e + 3 * (size_t)o->pattern.salt) % 5) - 2 + rank % 4;
        const int64_t value = dtype == TUTTI_BOOL ? small > 0 : small;

        if (dtype_is_real(dtype)) {
            reference_store_real(dtype, (double)value, to + e * element);
        } else {
            memcpy(to + e * element, &value, element); /* little-endian */
        }
    }
}

/* Elements: rows where it has rows. In the arena a tensor ends on a boundary. */
static int64_t count_of(const struct trial *trial, const struct operation *o, size_t i)
{
    static const int64_t counts[TENSORS] = { 37, 300, 4 };
    const int64_t element = (int64_t)tutti_dtype_size(o->pattern.dtype);
    const int64_t aligned = BOUNDARY / element * (1 + (int64_t)i % 2);

    return trial->placing == ARENA ? aligned : counts[i];
}

static size_t bytes_of(const struct trial *trial, size_t i)
{
    const struct operation *o = &trial->operations[i];
    const size_t in = operation_input_bytes(o, trial->crew.size, trial->crew.index);
    const size_t out = operation_output_bytes(o, trial->crew.size, trial->crew.index);

    return in > out ? in : out;
}

static bool in_place(const struct operation *o)
{
    return o->collective == TUTTI_BROADCAST || o->collective == TUTTI_ALLREDUCE;
}

/* Input and output of a tensor; only some are in place. */
static void place(struct trial *trial, size_t i, size_t *at)
{
    const bool anywhere = trial->placing == ANYWHERE;
    const size_t gap =
            anywhere ? 24 + tutti_dtype_size(trial->operations[i].pattern.dtype) : 0;
    const size_t bytes = (bytes_of(trial, i) + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
    struct flight *f = &trial->flights[i];

    *f = (struct flight){ .operation = &trial->operations[i], .crew = &trial->crew };
    f->input.data = trial->block + *at + gap;
    *at += bytes + (anywhere ? BOUNDARY : 0);
    f->output.data = f->input.data;
    if (!in_place(f->operation)) {
        f->output.data = trial->block + *at + gap;
        *at += bytes + (anywhere ? BOUNDARY : 0);
    }
}

static size_t room_of(const struct trial *trial)
{
    size_t bytes = BOUNDARY;

    for (size_t i = 0; i < trial->tensors; i++) {
        bytes += 2 * (bytes_of(trial, i) + 2 * (size_t)BOUNDARY);
    }
    return bytes;
}

static void allocate(struct trial *trial)
{
    const size_t bytes = room_of(trial);
    void *memory = NULL;
    size_t at = 0;

    if (trial->placing == ARENA) {
        (void)SUITE_EXPECT(trial->s,
                tutti_alloc(trial->s->t, bytes, TUTTI_DEVICE, &memory) == TUTTI_OK);
    } else {
        memory = device_memory(&trial->s->rig, bytes);
    }
    trial->block = memory;
    for (size_t i = 0; i < trial->tensors; i++) {
        place(trial, i, &at);
    }
}

static void upload(const struct trial *trial)
{
    for (size_t i = 0; i < trial->tensors; i++) {
        const struct operation *o = &trial->operations[i];
        const size_t bytes =
                operation_input_bytes(o, trial->crew.size, trial->crew.index);
        unsigned char *input = must_alloc(bytes, 1);

        fill(o, trial->s->rank, input, bytes);
        if (bytes > 0) {
            device_upload(&trial->s->rig, trial->flights[i].input.data, input, bytes);
        }
        free(input);
    }
}

static void check_tensor(const struct trial *trial, size_t i)
{
    const struct operation *o = &trial->operations[i];
    const struct crew *crew = &trial->crew;
    const size_t bytes = operation_output_bytes(o, crew->size, crew->index);
    unsigned char *wanted = must_alloc(bytes, 1);
    unsigned char *got = must_alloc(bytes, 1);
    void *inputs[RANKS_MAX];

    for (int r = 0; r < crew->size; r++) {
        const size_t input_bytes = operation_input_bytes(o, crew->size, r);

        inputs[r] = must_alloc(input_bytes, 1);
        fill(o, r, inputs[r], input_bytes);
    }
    operation_expect(o, crew, (const void *const *)inputs, wanted);
    if (bytes > 0) {
        device_download(&trial->s->rig, got, trial->flights[i].output.data, bytes);
    }
    (void)SUITE_EXPECT(trial->s,
            reference_equal(o->pattern.dtype, wanted, got,
                    bytes / tutti_dtype_size(o->pattern.dtype)));
    for (int r = 0; r < crew->size; r++) {
        free(inputs[r]);
    }
    free(wanted);
    free(got);
}

/* ----------------------------------------------------------------------------- paths */

/* True where the table in docs/gpu.md says so for every GPU that has the kernels. */
static bool is_staged(const struct trial *trial)
{
    const tutti_collective collective = trial->operations[0].collective;

    return trial->s->staged || collective == TUTTI_GATHER ||
            collective == TUTTI_SCATTER;
}

/* Allreduces that travel as another type. */
static bool is_cast(const struct pattern *p)
{
    const bool selects = p->op == TUTTI_MIN || p->op == TUTTI_MAX;
    const bool half = p->dtype == TUTTI_FLOAT16 || p->dtype == TUTTI_BFLOAT16;
    const bool is_16 = p->dtype == TUTTI_INT16 || p->dtype == TUTTI_UINT16;

    return p->dtype == TUTTI_BOOL || is_16 || (half && !selects) ||
            (!dtype_is_real(p->dtype) && p->op == TUTTI_AVERAGE &&
                    tutti_dtype_size(p->dtype) < 8);
}

static void check_path(
        const struct trial *trial, const tutti_stats *before, const tutti_stats *after)
{
    const struct operation *o = &trial->operations[0];
    const uint64_t packed = after->device_packed - before->device_packed;
    const uint64_t in_place_batches = after->device_in_place - before->device_in_place;
    const uint64_t staged = after->device_staged - before->device_staged;
    const bool packs = is_cast(&o->pattern) || trial->placing == ANYWHERE;

    (void)SUITE_EXPECT(trial->s, after->device_batches > before->device_batches);
    if (is_staged(trial)) {
        (void)SUITE_EXPECT(trial->s, staged > 0 && packed + in_place_batches == 0);
        return;
    }
    (void)SUITE_EXPECT(trial->s, staged == 0);
    if (o->collective == TUTTI_ALLREDUCE) {
        (void)SUITE_EXPECT(trial->s, (packed > 0) == packs);
        (void)SUITE_EXPECT(trial->s,
                (in_place_batches > 0) == (!packs && trial->placing == ARENA));
    }
}

/* ---------------------------------------------------------------------------- trials */

static tutti_stats stats_of(struct suite *s)
{
    tutti_stats stats = { .size = sizeof stats };

    (void)SUITE_EXPECT(s, tutti_stats_get(s->t, &stats) == TUTTI_OK);
    return stats;
}

static void submit_all(struct trial *trial)
{
    static unsigned number;
    char name[32];

    number++;
    (void)SUITE_EXPECT(trial->s, tutti_group_begin(trial->s->t) == TUTTI_OK);
    for (size_t i = 0; i < trial->tensors; i++) {
        (void)snprintf(name, sizeof name, "%u.%zu", number % 8, i);
        (void)SUITE_EXPECT(trial->s,
                flight_submit(trial->s->t, &trial->flights[i], name) == TUTTI_OK);
    }
    (void)SUITE_EXPECT(trial->s, tutti_group_end(trial->s->t) == TUTTI_OK);
}

static void run(struct trial *trial)
{
    struct suite *s = trial->s;
    const tutti_stats before = stats_of(s);
    tutti_stats after;
    bool good = true;

    allocate(trial);
    upload(trial);
    submit_all(trial);
    for (size_t i = 0; i < trial->tensors; i++) {
        good = SUITE_EXPECT(s,
                       tutti_wait(s->t, &trial->flights[i].request, TUTTI_FOREVER) ==
                               TUTTI_OK) &&
                good;
    }
    after = stats_of(s);
    for (size_t i = 0; i < trial->tensors && good; i++) {
        check_tensor(trial, i);
    }
    check_path(trial, &before, &after);
    if (trial->placing == ARENA) {
        (void)SUITE_EXPECT(s, tutti_free(s->t, trial->block) == TUTTI_OK);
    } else {
        device_drop(&s->rig, trial->block);
    }
}

/* What is wrong is said and counted; all ranks go on. */
static void try_kind(
        struct suite *s, const struct operation *kind, enum placing placing)
{
    static struct trial trial;
    char text[160];
    char what[256];

    trial = (struct trial){
        .s = s, .placing = placing, .tensors = placing == SINGLE ? 1 : TENSORS
    };
    for (int r = 0; r < s->size; r++) {
        trial.ranks[r] = r;
    }
    trial.crew = (struct crew){
        .set = TUTTI_WORLD, .world = trial.ranks, .size = s->size, .index = s->rank
    };
    for (size_t i = 0; i < trial.tensors; i++) {
        trial.operations[i] = *kind;
        trial.operations[i].count = count_of(&trial, kind, i);
        trial.operations[i].pattern.salt = (uint32_t)i;
    }
    operation_describe(kind, text, sizeof text);
    (void)snprintf(what, sizeof what, "%s, %s, scale %g", text, placings[placing],
            kind->scales.pre);
    s->what = what;
    run(&trial);
    s->what = "operations";
}

static void try_everywhere(struct suite *s, const struct operation *kind)
{
    for (int placing = SINGLE; placing < PLACINGS; placing++) {
        try_kind(s, kind, (enum placing)placing);
    }
}

static struct operation kind_of(
        const struct suite *s, int collective, int dtype, int op)
{
    return (struct operation){ .collective = (tutti_collective)collective,
        .pattern = { .dtype = (tutti_dtype)dtype, .op = (tutti_reduce_op)op },
        .scales = { 1, 1 },
        .root = s->size - 1,
        .row_count = 1 };
}

/* A way to move it, or a reduction that its type has. */
static bool is_there(const struct operation *kind)
{
    return operation_reduces(kind)
            ? reference_accepts(kind->pattern.dtype, kind->pattern.op)
            : kind->pattern.op == TUTTI_SUM;
}

static void try_kinds(struct suite *s, tutti_collective collective, int dtype)
{
    for (int op = TUTTI_SUM; op <= TUTTI_PRODUCT; op++) {
        struct operation kind = kind_of(s, (int)collective, dtype, op);

        if (!is_there(&kind)) {
            continue;
        }
        try_everywhere(s, &kind);
        if (operation_reduces(&kind) && dtype_is_real(kind.pattern.dtype)) {
            kind.scales = (struct scales){ 2, 0.25 };
            try_kind(s, &kind, ANYWHERE);
        }
    }
}

void suite_operations(struct suite *s)
{
    static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
        TUTTI_REDUCESCATTER, TUTTI_BROADCAST, TUTTI_ALLGATHER, TUTTI_ALLTOALL,
        TUTTI_GATHER, TUTTI_SCATTER };

    if (!SUITE_EXPECT(s, s->size <= RANKS_MAX)) {
        return;
    }
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++) {
        for (int dtype = TUTTI_UINT8; dtype <= TUTTI_FLOAT8_E5M2; dtype++) {
            try_kinds(s, collectives[i], dtype);
        }
    }
}
