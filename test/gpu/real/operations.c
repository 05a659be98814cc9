/*
 * Which way every operation on device memory goes, for every type: the table below. Each is done
 * with one tensor, with several that are packed, and with several that lie side by side in tutti's
 * memory; every bit of the results is compared, and the counters must say that it went the way of
 * the table and no other. docs/gpu.md ("NCCL or staging") says the same in words: change
 * both.
 *
 * Over the simulator some are repeated, and done while a rank has joined.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/gpu/real/suite.h"
#include "test/suite/flight.h"

enum {
    TENSORS = 3,
    RANKS_MAX = 64,
    UNIT = 8, /* bytes of an element of the largest type, and of every row */
    TIMES = 4, /* twice by name, and then by number */
    FLOAT_MOST = 3, /* of the contents, see pattern_set_exact() */
    FLOAT16_MAX = 65504
};

/** Where tensors lie. */
enum placing {
    SINGLE, /* one tensor, input and output apart                              */
    FUSED, /* several, anywhere; in place where that can be                    */
    ARENA, /* several, neighbours of tutti_alloc(); likewise                   */
    PLACINGS
};

static const char *const placings[] = { "single", "fused", "arena" };

/* -------------------------------------------------------------------- the table */

/*
 *     .   NCCL takes the elements as they are
 *     +   likewise, and a kernel goes over the result
 *     k   they travel as another type: always packed by kernels
 *     s   staged: through host memory
 *     h   as k, or not: what gpu_half_sums=half makes of an average of float16
 *     -   refused: TUTTI_ERR_UNSUPPORTED
 */
/* clang-format off */
enum { COLUMN = 6 };
static const struct {
    tutti_reduce_op op;
    const char *ways; /* of each type */
} reduced[] = {
    /*                uint  int   uint  int   uint  int   uint  int   float bfl.  float float bool  float8 float8
                      8     8     16    16    32    32    64    64    16    16    32    64          e4m3  e5m2 */
    { TUTTI_SUM,     ".     .     k     k     .     .     .     .     k     k     .     .     -     -     -" },
    { TUTTI_AVERAGE, "k     k     k     k     k     k     +     +     k     k     +     +     -     -     -" },
    { TUTTI_MIN,     ".     .     k     k     .     .     .     .     .     .     .     .     k     -     -" },
    { TUTTI_MAX,     ".     .     k     k     .     .     .     .     .     .     .     .     k     -     -" },
    { TUTTI_PRODUCT, ".     .     k     k     .     .     .     .     k     k     .     .     -     -     -" },
};

/** What is done, of any type; without reduction all travel as bytes. */
static const struct kind {
    const char *name;
    tutti_collective collective;
    enum operation_form form;
    bool is_uneven; /* parts of FORM_EQUAL that are not quite equal   */
    /* Which batches of "." are copied by kernels to a slab, and from there: of a single tensor, fused
       ones, in the arena. a: on all ranks, r: on the root, o: on the others, -: nowhere */
    const char *packs, *unpacks;
} kinds[] = {
    { "allreduce",            TUTTI_ALLREDUCE,     FORM_EQUAL,   false, "-a-", "-a-" },
    { "reduce",               TUTTI_REDUCE,        FORM_EQUAL,   false, "-a-", "-r-" },
    { "reducescatter",        TUTTI_REDUCESCATTER, FORM_EQUAL,   false, "-aa", "-a-" },
    { "reducescatter uneven", TUTTI_REDUCESCATTER, FORM_EQUAL,   true,  "-aa", "-a-" },
    { "reducescatter listed", TUTTI_REDUCESCATTER, FORM_LISTED,  false, "-aa", "-a-" },
    { "broadcast",            TUTTI_BROADCAST,     FORM_EQUAL,   false, "-r-", "-o-" },
    { "allgather",            TUTTI_ALLGATHER,     FORM_EQUAL,   false, "-a-", "-aa" },
    { "allgather listed",     TUTTI_ALLGATHER,     FORM_LISTED,  false, "-a-", "-aa" },
    { "allgather unknown",    TUTTI_ALLGATHER,     FORM_UNKNOWN, false, "-a-", "-aa" },
    { "alltoall",             TUTTI_ALLTOALL,      FORM_EQUAL,   false, "---", "---" },
    { "alltoall listed",      TUTTI_ALLTOALL,      FORM_LISTED,  false, "---", "---" },
    { "alltoall unknown",     TUTTI_ALLTOALL,      FORM_UNKNOWN, false, "---", "---" },
    { "gather",               TUTTI_GATHER,        FORM_EQUAL,   false, "---", "---" },
    { "gather listed",        TUTTI_GATHER,        FORM_LISTED,  false, "---", "---" },
    { "scatter",              TUTTI_SCATTER,       FORM_EQUAL,   false, "---", "---" },
    { "scatter listed",       TUTTI_SCATTER,       FORM_LISTED,  false, "---", "---" },
};
/* clang-format on */

enum {
    KINDS = sizeof kinds / sizeof *kinds
};

/** A kind in one placing, and what is tried of it now. Parts have the same bytes for all types. */
struct trial {
    struct suite *s;
    const struct kind *kind;
    enum placing placing;
    int tensors;
    void *owned[2 * TENSORS]; /* memory of inputs and outputs; NULL: none */
    struct flight flights[TENSORS]; /* their data on a boundary, or not */
    struct operation operations[TENSORS];
    char way;
    char what[80];
    bool absent[RANKS_MAX];
    int world[RANKS_MAX]; /* whose contents are used */
    struct crew crew;
    int iteration;
};

static bool reduces(const struct kind *kind)
{
    return kind->collective == TUTTI_ALLREDUCE || kind->collective == TUTTI_REDUCE ||
            kind->collective == TUTTI_REDUCESCATTER;
}

/* Nobody gives or gets nothing: that is another way, and has tests of its own. */
static bool has_empty_part(const struct operation *o, int size)
{
    for (int i = 0; i < size * size; i++) {
        if (operation_part_rows(o, size, i / size, i % size) == 0) {
            return true;
        }
    }
    return false;
}

static struct operation operation_of(const struct suite *s, const struct kind *kind,
        int tensor, tutti_dtype dtype, tutti_reduce_op op)
{
    /* Units of a tensor or rows of a part; at most, where parts are listed. */
    static const int64_t counts[TENSORS] = { 36, 300, 12 };
    const int64_t elements = (int64_t)(UNIT / tutti_dtype_size(dtype));
    struct operation o = { .collective = kind->collective,
        .pattern = { .dtype = dtype, .op = op, .salt = (uint32_t)tensor },
        .scales = { 1, 1 },
        .root = s->c.size - 1,
        .count = counts[tensor],
        .row_count = 1,
        .form = kind->form };

    if (!operation_has_rows(&o)) {
        o.count *= elements;
        return o;
    }
    o.row_count = elements;
    o.owns_output = kind->form == FORM_UNKNOWN;
    if (kind->collective == TUTTI_REDUCESCATTER && kind->form == FORM_EQUAL) {
        o.count = o.count * s->c.size + (kind->is_uneven ? 1 : 0);
    }
    while (kind->form != FORM_EQUAL && has_empty_part(&o, s->c.size)) {
        o.pattern.salt += TENSORS;
    }
    return o;
}

/* True when this rank is the root, or there is none. */
static bool has_output(const struct suite *s, const struct kind *kind)
{
    return (kind->collective != TUTTI_REDUCE && kind->collective != TUTTI_GATHER) ||
            s->c.rank == s->c.size - 1;
}

/* ----------------------------------------------------------------------- memory */

static void *take(struct trial *trial, size_t bytes, size_t shift, void **owned)
{
    const size_t apart = trial->placing == FUSED ? 8 * (2 * shift + 1) : 0;

    if (bytes == 0) {
        return NULL;
    }
    if (trial->placing == ARENA) {
        EXPECT_OK(&trial->s->c, tutti_alloc(trial->s->t, bytes, TUTTI_DEVICE, owned));
    } else {
        *owned = device_memory(&trial->s->rig, bytes + 2 * apart);
    }
    return (unsigned char *)*owned + apart;
}

static bool is_in_place(const struct trial *trial)
{
    const tutti_collective collective = trial->kind->collective;

    return collective == TUTTI_BROADCAST ||
            (trial->placing != SINGLE &&
                    (collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCE));
}

static void trial_init(struct trial *trial, struct suite *s, const struct kind *kind,
        enum placing placing)
{
    *trial = (struct trial){ .s = s,
        .kind = kind,
        .placing = placing,
        .tensors = placing == SINGLE ? 1 : TENSORS,
        .crew = { .set = TUTTI_WORLD,
                .world = trial->world,
                .size = s->c.size,
                .index = s->c.rank,
                .absent = trial->absent } };
    for (int i = 0; i < 2 * trial->tensors;
            i++) { /* all inputs lie before the outputs */
        const int tensor = i % trial->tensors;
        const bool is_output = i >= trial->tensors;
        const struct operation o =
                operation_of(s, kind, tensor, TUTTI_UINT8, TUTTI_SUM);
        struct flight *f = &trial->flights[tensor];

        f->operation = &trial->operations[tensor];
        f->crew = &trial->crew;
        if (!is_output) {
            f->input.data = take(trial, operation_input_bytes(&o, s->c.size, s->c.rank),
                    (size_t)tensor, &trial->owned[i]);
        } else if (is_in_place(trial)) {
            f->output.data = has_output(s, kind) ? f->input.data : NULL;
        } else if (!o.owns_output) {
            f->output.data =
                    take(trial, operation_output_bytes(&o, s->c.size, s->c.rank),
                            (size_t)tensor + 1, &trial->owned[i]);
        }
    }
}

static void trial_fini(struct trial *trial)
{
    for (int i = 0; i < 2 * TENSORS; i++) {
        if (trial->placing == ARENA) {
            EXPECT_OK(&trial->s->c, tutti_free(trial->s->t, trial->owned[i]));
        } else if (trial->owned[i] != NULL) {
            device_drop(&trial->s->rig, trial->owned[i]);
        }
    }
}

/* --------------------------------------------------------------------- contents */

/* Other contents in each iteration: those of other ranks. */
static void fill(struct trial *trial)
{
    const struct suite *s = trial->s;

    trial->iteration++;
    for (int r = 0; r < s->c.size; r++) {
        trial->world[r] = trial->iteration * s->c.size + r;
    }
    for (int i = 0; i < trial->tensors; i++) {
        const struct operation *o = &trial->operations[i];
        const size_t in = operation_input_bytes(o, s->c.size, s->c.rank);
        const size_t out = operation_output_bytes(o, s->c.size, s->c.rank);
        unsigned char *data = must_alloc(in + out, 1);

        if (trial->flights[i].output.data != NULL && out > 0) {
            memset(data, 0xa5, out);
            device_upload(&s->rig, trial->flights[i].output.data, data, out);
        }
        if (in > 0) {
            operation_fill(o, trial->world[s->c.rank], data, in);
            device_upload(&s->rig, trial->flights[i].input.data, data, in);
        }
        free(data);
    }
}

static void check_tensor(struct trial *trial, struct flight *f)
{
    const struct operation *o = f->operation;
    struct suite *s = trial->s;
    const size_t bytes = operation_output_bytes(o, s->c.size, s->c.rank);
    unsigned char *wanted = must_alloc(bytes, 1);
    unsigned char *got = must_alloc(bytes, 1);
    void *owned = NULL;

    if (o->owns_output) {
        EXPECT_OK(&s->c,
                tutti_request_take_output(
                        s->t, &f->request, &owned, NULL, TUTTI_FOREVER));
    }
    if (bytes > 0) {
        operation_expect(o, &trial->crew, NULL, wanted);
        device_download(&s->rig, got, o->owns_output ? owned : f->output.data, bytes);
        EXPECT(&s->c,
                reference_equal(o->pattern.dtype, wanted, got,
                        bytes / tutti_dtype_size(o->pattern.dtype)));
    }
    EXPECT_OK(&s->c, tutti_free(s->t, owned));
    free(wanted);
    free(got);
}

/* -------------------------------------------------------------------- the ways */

static tutti_stats stats_of(struct suite *s)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(&s->c, tutti_stats_get(s->t, &stats));
    return stats;
}

static bool applies(const struct suite *s, char when)
{
    const bool is_root = s->c.rank == s->c.size - 1;

    return !s->bare && (when == 'a' || when == (is_root ? 'r' : 'o'));
}

/* What is packed, and how many kernels there are; staged as many batches as it likes. */
static void check_way(
        const struct trial *trial, const tutti_stats *was, const tutti_stats *is)
{
#define GREW(counter) (is->counter - was->counter)
    struct suite *s = trial->s;
    const char to = trial->kind->packs[trial->placing];
    const char from = trial->kind->unpacks[trial->placing];
    const bool nccl = trial->way != 's';
    const bool casts = trial->way == 'k';
    const bool is_packed = casts || (!s->bare && (to != '-' || from != '-'));
    const bool packs = casts || applies(s, to);
    const bool unpacks =
            (trial->way != '.' && has_output(s, trial->kind)) || applies(s, from);

    EXPECT(&s->c, GREW(batches) >= 1);
    EXPECT(&s->c, GREW(batches) <= (nccl ? 1 : (uint64_t)trial->tensors));
    EXPECT(&s->c, GREW(device_batches) == GREW(batches));
    EXPECT(&s->c, GREW(device_staged) == (nccl ? 0 : GREW(batches)));
    if (nccl && s->rig.config.gpu_register) { /* more is packed, all of an allreduce */
        EXPECT(&s->c,
                trial->kind->collective != TUTTI_ALLREDUCE || GREW(device_packed) == 1);
    } else if (trial->way != 'h') { /* scaled before the sum, which might overflow */
        EXPECT(&s->c, GREW(device_packed) == (nccl && is_packed));
        EXPECT(&s->c,
                GREW(device_in_place) == (nccl && !is_packed && trial->tensors > 1));
        EXPECT(&s->c, GREW(device_launches) == (nccl ? (uint64_t)packs + unpacks : 0));
    }
#undef GREW
}

static tutti_status submit(struct trial *trial)
{
    struct suite *s = trial->s;
    tutti_status status = tutti_group_begin(s->t);
    tutti_status ended;

    for (int i = 0; i < trial->tensors && status == TUTTI_OK; i++) {
        char name[96];

        (void)snprintf(name, sizeof name, "%s, %d", trial->what, i);
        status = flight_submit(s->t, &trial->flights[i], name);
    }
    ended = tutti_group_end(s->t);
    return status != TUTTI_OK ? status : ended;
}

/* Once; true when it was announced by number. */
static bool go_once(struct trial *trial)
{
    struct suite *s = trial->s;
    tutti_stats before;
    tutti_stats after;
    bool good;

    fill(trial);
    before = stats_of(s);
    good = EXPECT_OK(&s->c, submit(trial));
    for (int i = 0; i < trial->tensors && good; i++) {
        good = EXPECT_OK(
                &s->c, tutti_wait(s->t, &trial->flights[i].request, TUTTI_FOREVER));
    }
    after = stats_of(s);
    for (int i = 0; i < trial->tensors && good; i++) {
        check_tensor(trial, &trial->flights[i]);
    }
    check_way(trial, &before, &after);
    return after.announced_by_bit - before.announced_by_bit == (uint64_t)trial->tensors;
}

static void refuse(struct trial *trial, tutti_dtype dtype)
{
    struct suite *s = trial->s;
    const tutti_stats before = stats_of(s);

    EXPECT_STATUS(&s->c, TUTTI_ERR_UNSUPPORTED, submit(trial));
    EXPECT(&s->c, stats_of(s).submitted == before.submitted);
    EXPECT(&s->c, strstr(tutti_last_error(), tutti_dtype_name(dtype)) != NULL);
}

/* ---------------------------------------------------------------- the whole table */

/* The way of a reduction or a move in this job, which may lack what it takes. */
static char way_of(
        const struct suite *s, const struct kind *kind, size_t row, tutti_dtype dtype)
{
    const bool is_half = dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16;
    char way = reduces(kind) ? reduced[row].ways[COLUMN * (int)dtype] : '.';

    if (way == '-') {
        return way;
    }
    if (way == 'k' && is_half &&
            s->rig.config.gpu_half_sums == CONFIG_GPU_HALF_SUMS_HALF) {
        way = reduced[row].op != TUTTI_AVERAGE ? '.'
                : dtype == TUTTI_FLOAT16       ? 'h'
                                               : '+';
    }
    return s->staged || (s->bare && way != '.') ? 's' : way;
}

static void set_operation(
        struct trial *trial, tutti_dtype dtype, size_t row, struct scales scales)
{
    trial->way = way_of(trial->s, trial->kind, row, dtype);
    if (trial->way == 'h') { /* sums are too large for the type, unlike the average */
        scales.pre = trial->s->c.size;
        while (2 * FLOAT_MOST * scales.pre * scales.post <= FLOAT16_MAX) {
            scales.pre *= 2;
        }
    }
    (void)snprintf(trial->what, sizeof trial->what, "%s %s %s, %s, %g",
            trial->kind->name, tutti_reduce_name(reduced[row].op),
            tutti_dtype_name(dtype), placings[trial->placing], scales.pre);
    checks_step(&trial->s->c, trial->what);
    for (int i = 0; i < trial->tensors; i++) {
        trial->operations[i] =
                operation_of(trial->s, trial->kind, i, dtype, reduced[row].op);
        trial->operations[i].scales = scales;
    }
}

/* Bytes are bytes, and lists are lists: few types will do. */
static bool is_wanted(const struct kind *kind, tutti_dtype dtype)
{
    return (reduces(kind) && kind->form == FORM_EQUAL && !kind->is_uneven) ||
            dtype == TUTTI_INT16 || dtype == TUTTI_INT64 || dtype == TUTTI_FLOAT32 ||
            dtype == TUTTI_BOOL || dtype == TUTTI_FLOAT8_E5M2;
}

static void try_type(struct trial *trial, tutti_dtype dtype, size_t row)
{
    const bool is_common = dtype == TUTTI_FLOAT32 || (dtype == TUTTI_INT16 && row == 0);
    const int times = trial->s->rig.simulated && is_common && row <= 1 ? TIMES : 1;

    set_operation(trial, dtype, row, (struct scales){ 1, 1 });
    if (trial->way == '-') {
        refuse(trial, dtype);
        return;
    }
    for (int i = 0; i < times; i++) {
        EXPECT(&trial->s->c, go_once(trial) == (i >= 2));
    }
    if (reduces(trial->kind) && trial->placing == FUSED && dtype_is_real(dtype)) {
        set_operation(trial, dtype, row, (struct scales){ 2, 0.25 });
        trial->way = trial->s->bare ? 's' : trial->way;
        (void)go_once(trial);
    }
}

static void try_kind(struct trial *trial)
{
    const size_t rows = reduces(trial->kind) ? sizeof reduced / sizeof *reduced : 1;

    for (size_t row = 0; row < rows; row++) {
        for (int dtype = TUTTI_UINT8; dtype <= TUTTI_FLOAT8_E5M2; dtype++) {
            if (is_wanted(trial->kind, (tutti_dtype)dtype)) {
                try_type(trial, (tutti_dtype)dtype, row);
            }
        }
    }
}

/* While a rank has joined, which is also the one that orders all launches. */
static void try_joined(struct suite *s, struct trial *trials)
{
    for (size_t k = 0; k < KINDS && reduces(&kinds[k]) && s->c.rank != 0; k++) {
        trials[k].absent[0] = true;
        set_operation(&trials[k], TUTTI_FLOAT32, 1, (struct scales){ 1, 1 });
        trials[k].way = 's';
        (void)go_once(&trials[k]);
    }
    EXPECT_OK(&s->c, tutti_join(s->t, NULL, NULL));
}

void suite_operations(struct suite *s)
{
    static struct trial trials[PLACINGS][KINDS];

    if (!EXPECT(&s->c, s->c.size <= RANKS_MAX)) {
        return;
    }
    /* Before anything is freed, also by the library: neighbours are so where there are no holes. */
    for (size_t i = 0; i < (size_t)PLACINGS * KINDS; i++) {
        trial_init(&trials[i / KINDS][i % KINDS], s, &kinds[i % KINDS],
                (enum placing)(i / KINDS));
    }
    for (size_t i = 0; i < (size_t)PLACINGS * KINDS; i++) {
        try_kind(&trials[i / KINDS][i % KINDS]);
    }
    if (s->rig.simulated && s->c.size > 1) {
        try_joined(s, trials[ARENA]);
    }
    for (size_t i = 0; i < (size_t)PLACINGS * KINDS; i++) {
        trial_fini(&trials[i / KINDS][i % KINDS]);
    }
    checks_step(&s->c, NULL);
}
