/*
 * Which way every operation on device memory goes, for every type: the table below. Each is done
 * with one tensor, with several that are packed, and with several that lie side by side in tutti's
 * memory; every bit of the results is compared, and the counters must say that it went the way of
 * the table and no other. docs/gpu.md ("NCCL or staging") says the same in words: change
 * both.
 *
 * Over the simulator some are repeated, and done while a rank has joined.
 */
#include <mpi.h>
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
    TIMES = 4 /* twice by name, and then by number */
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
static const struct {
    tutti_reduce_op op;
    const char *ways; /* of each type */
} reduced[] = {
    /*                uint  int uint int uint int uint int float bfloat float float bool float8 float8
                         8    8  16   16  32   32  64   64   16     16    32    64       e4m3   e5m2 */
    { TUTTI_SUM,     ".    .   k    k   .    .   .    .    k      k     .     .    -     -      -  " },
    { TUTTI_AVERAGE, "k    k   k    k   k    k   +    +    k      k     +     +    -     -      -  " },
    { TUTTI_MIN,     ".    .   k    k   .    .   .    .    .      .     .     .    k     -      -  " },
    { TUTTI_MAX,     ".    .   k    k   .    .   .    .    .      .     .     .    k     -      -  " },
    { TUTTI_PRODUCT, ".    .   k    k   .    .   .    .    k      k     .     .    -     -      -  " },
};

/** What is done, of any type. */
static const struct kind {
    const char *name;
    tutti_collective collective;
    enum operation_form form;
    const char *way; /* of bytes, for all types; NULL: a reduction's */
    bool is_uneven; /* parts of FORM_EQUAL that are not quite equal   */
} kinds[] = {
    { "allreduce",            TUTTI_ALLREDUCE,     FORM_EQUAL,   NULL, false },
    { "reduce",               TUTTI_REDUCE,        FORM_EQUAL,   NULL, false },
    { "reducescatter",        TUTTI_REDUCESCATTER, FORM_EQUAL,   NULL, false },
    { "reducescatter uneven", TUTTI_REDUCESCATTER, FORM_EQUAL,   NULL, true  },
    { "reducescatter listed", TUTTI_REDUCESCATTER, FORM_LISTED,  NULL, false },
    { "broadcast",            TUTTI_BROADCAST,     FORM_EQUAL,   ".",  false },
    { "allgather",            TUTTI_ALLGATHER,     FORM_EQUAL,   ".",  false },
    { "allgather listed",     TUTTI_ALLGATHER,     FORM_LISTED,  ".",  false },
    { "allgather unknown",    TUTTI_ALLGATHER,     FORM_UNKNOWN, ".",  false },
    { "alltoall",             TUTTI_ALLTOALL,      FORM_EQUAL,   ".",  false },
    { "alltoall listed",      TUTTI_ALLTOALL,      FORM_LISTED,  ".",  false },
    { "alltoall unknown",     TUTTI_ALLTOALL,      FORM_UNKNOWN, ".",  false },
    { "gather",               TUTTI_GATHER,        FORM_EQUAL,   ".",  false },
    { "gather listed",        TUTTI_GATHER,        FORM_LISTED,  ".",  false },
    { "scatter",              TUTTI_SCATTER,       FORM_EQUAL,   ".",  false },
    { "scatter listed",       TUTTI_SCATTER,       FORM_LISTED,  ".",  false },
};

/* Which batches of "." are copied by kernels, and where: to a slab, and from there. */
static const struct {
    tutti_collective collective;
    const char *packs[PLACINGS]; /* single, fused, arena: inputs are packed */
    const char *unpacks[PLACINGS]; /* outputs are unpacked                   */
} copied[] = {
    { TUTTI_ALLREDUCE,     { "never", "always", "never"  }, { "never", "always",  "never"  } },
    { TUTTI_REDUCE,        { "never", "always", "never"  }, { "never", "root",    "never"  } },
    { TUTTI_REDUCESCATTER, { "never", "always", "always" }, { "never", "always",  "never"  } },
    { TUTTI_BROADCAST,     { "never", "root",   "never"  }, { "never", "others",  "never"  } },
    { TUTTI_ALLGATHER,     { "never", "always", "never"  }, { "never", "always",  "always" } },
    { TUTTI_ALLTOALL,      { "never", "never",  "never"  }, { "never", "never",   "never"  } },
    { TUTTI_GATHER,        { "never", "never",  "never"  }, { "never", "never",   "never"  } },
    { TUTTI_SCATTER,       { "never", "never",  "never"  }, { "never", "never",   "never"  } },
};
/* clang-format on */

enum {
    KINDS = sizeof kinds / sizeof *kinds
};

/** A rank's memory for a kind and a placing; parts have the same bytes for all types. */
struct place {
    unsigned char *inputs[TENSORS]; /* on a boundary, or not; NULL: none */
    unsigned char *outputs[TENSORS]; /* likewise */
    void *owned[2 * TENSORS];
    size_t owned_count;
};

/** What is tried. */
struct trial {
    struct suite *s;
    const struct kind *kind;
    enum placing placing;
    char way;
    struct place *place; /* borrowed */
    struct operation operations[TENSORS];
    struct flight flights[TENSORS];
    int tensors;
    bool absent[RANKS_MAX];
    struct crew crew;
    int world[RANKS_MAX]; /* whose contents are used */
    int iteration;
};

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
        .root = s->size - 1,
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
        o.count = o.count * s->size + (kind->is_uneven ? 1 : 0);
    }
    while (kind->form != FORM_EQUAL && has_empty_part(&o, s->size)) {
        o.pattern.salt += TENSORS;
    }
    return o;
}

/* True when this rank is the root, or there is none. */
static bool has_output(const struct suite *s, const struct kind *kind)
{
    return (kind->collective != TUTTI_REDUCE && kind->collective != TUTTI_GATHER) ||
            s->rank == s->size - 1;
}

/* ----------------------------------------------------------------------- memory */

static unsigned char *take(struct suite *s, enum placing placing, size_t bytes,
        size_t shift, struct place *place)
{
    const size_t apart = placing == FUSED ? 8 * (2 * shift + 1) : 0;
    void *memory = NULL;

    if (bytes == 0) {
        return NULL;
    }
    if (placing == ARENA) {
        (void)SUITE_EXPECT(
                s, tutti_alloc(s->t, bytes, TUTTI_DEVICE, &memory) == TUTTI_OK);
    } else {
        memory = device_memory(&s->rig, bytes + 2 * apart);
    }
    place->owned[place->owned_count++] = memory;
    return (unsigned char *)memory + apart;
}

static bool is_in_place(const struct kind *kind, enum placing placing)
{
    return kind->collective == TUTTI_BROADCAST ||
            (placing != SINGLE &&
                    (kind->collective == TUTTI_ALLREDUCE ||
                            kind->collective == TUTTI_REDUCE));
}

static void place_kind(struct suite *s, const struct kind *kind, enum placing placing,
        struct place *place)
{
    const int tensors = placing == SINGLE ? 1 : TENSORS;

    *place = (struct place){ .owned_count = 0 };
    for (int i = 0; i < tensors; i++) {
        const struct operation o = operation_of(s, kind, i, TUTTI_UINT8, TUTTI_SUM);
        const size_t in = operation_input_bytes(&o, s->size, s->rank);

        place->inputs[i] = take(s, placing, in, (size_t)i, place);
    }
    for (int i = 0; i < tensors && kind->form != FORM_UNKNOWN; i++) {
        const struct operation o = operation_of(s, kind, i, TUTTI_UINT8, TUTTI_SUM);
        const size_t out = operation_output_bytes(&o, s->size, s->rank);

        if (is_in_place(kind, placing)) {
            place->outputs[i] = has_output(s, kind) ? place->inputs[i] : NULL;
        } else {
            place->outputs[i] = take(s, placing, out, (size_t)i + 1, place);
        }
    }
}

static void drop_place(struct suite *s, enum placing placing, const struct place *place)
{
    for (size_t i = 0; i < place->owned_count; i++) {
        if (placing == ARENA) {
            (void)SUITE_EXPECT(s, tutti_free(s->t, place->owned[i]) == TUTTI_OK);
        } else {
            device_drop(&s->rig, place->owned[i]);
        }
    }
}

/* --------------------------------------------------------------------- contents */

/* Other contents in each iteration: those of other ranks. Whole floats, exact in any order. */
static void fill(struct trial *trial)
{
    const struct suite *s = trial->s;

    trial->iteration++;
    for (int r = 0; r < s->size; r++) {
        trial->world[r] = trial->iteration * s->size + r;
    }
    for (int i = 0; i < trial->tensors; i++) {
        const struct operation *o = &trial->operations[i];
        const size_t in = operation_input_bytes(o, s->size, s->rank);
        const size_t out = operation_output_bytes(o, s->size, s->rank);
        unsigned char *data = must_alloc(in + out, 1);

        if (trial->place->outputs[i] != NULL && out > 0) {
            memset(data, 0xa5, out);
            device_upload(&s->rig, trial->place->outputs[i], data, out);
        }
        if (in > 0) {
            operation_fill(o, trial->world[s->rank], data, in);
            device_upload(&s->rig, trial->place->inputs[i], data, in);
        }
        free(data);
    }
}

static void check_tensor(struct trial *trial, int i)
{
    const struct operation *o = &trial->operations[i];
    struct suite *s = trial->s;
    const size_t bytes = operation_output_bytes(o, s->size, s->rank);
    unsigned char *wanted = must_alloc(bytes, 1);
    unsigned char *got = must_alloc(bytes, 1);
    void *output = trial->place->outputs[i];
    void *owned = NULL;

    if (o->owns_output) {
        (void)SUITE_EXPECT(s,
                tutti_request_take_output(s->t, &trial->flights[i].request, &owned,
                        NULL, TUTTI_FOREVER) == TUTTI_OK);
        output = owned;
    }
    if (bytes > 0) {
        operation_expect(o, &trial->crew, NULL, wanted);
        device_download(&s->rig, got, output, bytes);
        (void)SUITE_EXPECT(s,
                reference_equal(o->pattern.dtype, wanted, got,
                        bytes / tutti_dtype_size(o->pattern.dtype)));
    }
    (void)SUITE_EXPECT(s, tutti_free(s->t, owned) == TUTTI_OK);
    free(wanted);
    free(got);
}

/* -------------------------------------------------------------------- the ways */

static tutti_stats stats_of(struct suite *s)
{
    tutti_stats stats = { .size = sizeof stats };

    (void)SUITE_EXPECT(s, tutti_stats_get(s->t, &stats) == TUTTI_OK);
    return stats;
}

static bool applies(const struct suite *s, const char *when)
{
    const bool is_root = s->rank == s->size - 1;

    return !s->bare &&
            (strcmp(when, "always") == 0 || (strcmp(when, "root") == 0 && is_root) ||
                    (strcmp(when, "others") == 0 && !is_root));
}

/* A batch through NCCL: what is packed, and how many kernels there are. */
static void check_nccl(
        const struct trial *trial, const tutti_stats *before, const tutti_stats *after)
{
    struct suite *s = trial->s;
    const bool is_allreduce = trial->kind->collective == TUTTI_ALLREDUCE;
    bool packs = trial->way == 'k';
    bool unpacks = trial->way != '.' && has_output(s, trial->kind);
    bool is_packed = trial->way == 'k';

    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        if (copied[i].collective == trial->kind->collective) {
            const char *to = copied[i].packs[trial->placing];
            const char *from = copied[i].unpacks[trial->placing];

            packs = packs || applies(s, to);
            unpacks = unpacks || applies(s, from);
            is_packed = is_packed ||
                    (!s->bare &&
                            (strcmp(to, "never") != 0 || strcmp(from, "never") != 0));
        }
    }
    (void)SUITE_EXPECT(s, after->batches - before->batches == 1);
    (void)SUITE_EXPECT(s, after->device_batches - before->device_batches == 1);
    (void)SUITE_EXPECT(s, after->device_staged == before->device_staged);
    if (s->rig.config.gpu_register) { /* then more is packed, and all of an allreduce */
        (void)SUITE_EXPECT(
                s, !is_allreduce || after->device_packed - before->device_packed == 1);
        return;
    }
    if (trial->way == 'h') { /* scaled before the sum, which might overflow */
        return;
    }
    (void)SUITE_EXPECT(s, after->device_packed - before->device_packed == is_packed);
    (void)SUITE_EXPECT(s,
            after->device_in_place - before->device_in_place ==
                    (!is_packed && trial->tensors > 1));
    (void)SUITE_EXPECT(s,
            after->device_launches - before->device_launches ==
                    (uint64_t)packs + (uint64_t)unpacks);
}

/* Through host memory: as many batches as it likes. */
static void check_staged(
        const struct trial *trial, const tutti_stats *before, const tutti_stats *after)
{
    struct suite *s = trial->s;
    const uint64_t batches = after->batches - before->batches;

    (void)SUITE_EXPECT(s, batches >= 1 && batches <= (uint64_t)trial->tensors);
    (void)SUITE_EXPECT(s, after->device_batches - before->device_batches == batches);
    (void)SUITE_EXPECT(s, after->device_staged - before->device_staged == batches);
    (void)SUITE_EXPECT(s, after->device_packed == before->device_packed);
    (void)SUITE_EXPECT(s, after->device_in_place == before->device_in_place);
    (void)SUITE_EXPECT(s, after->device_launches == before->device_launches);
}

static tutti_status submit(struct trial *trial)
{
    struct suite *s = trial->s;
    const bool groups = trial->tensors > 1;
    tutti_status status = groups ? tutti_group_begin(s->t) : TUTTI_OK;
    tutti_status ended = TUTTI_OK;

    for (int i = 0; i < trial->tensors && status == TUTTI_OK; i++) {
        char name[96];

        (void)snprintf(name, sizeof name, "%s %s %s, %s, %g, %d", trial->kind->name,
                tutti_reduce_name(trial->operations[i].pattern.op),
                tutti_dtype_name(trial->operations[i].pattern.dtype),
                placings[trial->placing], trial->operations[i].scales.pre, i);
        status = flight_submit(s->t, &trial->flights[i], name);
    }
    if (groups) {
        ended = tutti_group_end(s->t);
    }
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
    good = SUITE_EXPECT(s, submit(trial) == TUTTI_OK);
    for (int i = 0; i < trial->tensors && good; i++) {
        good = SUITE_EXPECT(s,
                tutti_wait(s->t, &trial->flights[i].request, TUTTI_FOREVER) ==
                        TUTTI_OK);
    }
    after = stats_of(s);
    for (int i = 0; i < trial->tensors && good; i++) {
        check_tensor(trial, i);
    }
    if (trial->way == 's') {
        check_staged(trial, &before, &after);
    } else {
        check_nccl(trial, &before, &after);
    }
    return after.announced_by_bit - before.announced_by_bit == (uint64_t)trial->tensors;
}

static void go_on(struct trial *trial)
{
    for (int i = 0; i < TIMES; i++) {
        (void)SUITE_EXPECT(trial->s, go_once(trial) == (i >= 2));
    }
}

static void refuse(struct trial *trial)
{
    struct suite *s = trial->s;
    const tutti_stats before = stats_of(s);

    (void)SUITE_EXPECT(s, submit(trial) == TUTTI_ERR_UNSUPPORTED);
    (void)SUITE_EXPECT(s, stats_of(s).submitted == before.submitted);
    (void)SUITE_EXPECT(s,
            strstr(tutti_last_error(),
                    tutti_dtype_name(trial->operations[0].pattern.dtype)) != NULL);
}

/* ---------------------------------------------------------------- the whole table */

/* The way of a reduction or a move in this job, which may lack what it takes. */
static char way_of(
        const struct suite *s, const struct kind *kind, size_t row, int dtype)
{
    const bool is_half = dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16;
    const char *ways = reduced[row].ways;
    char way = kind->way != NULL ? kind->way[0] : *ways;

    for (int d = 0; kind->way == NULL && d < dtype; d++) {
        ways += 1 + strspn(ways + 1, " ");
        way = *ways;
    }
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

static void make_trial(struct suite *s, const struct kind *kind, enum placing placing,
        struct place *place, struct trial *trial)
{
    *trial = (struct trial){ .s = s,
        .kind = kind,
        .placing = placing,
        .place = place,
        .tensors = placing == SINGLE ? 1 : TENSORS };
    trial->crew = (struct crew){ .set = TUTTI_WORLD,
        .world = trial->world,
        .size = s->size,
        .index = s->rank,
        .absent = trial->absent };
}

static void set_operation(
        struct trial *trial, tutti_dtype dtype, size_t row, struct scales scales)
{
    trial->way = way_of(trial->s, trial->kind, row, (int)dtype);
    if (trial->way == 'h') { /* is scaled before the sum, so by what is exact */
        scales.pre *= 2 * trial->s->size;
    }
    for (int i = 0; i < trial->tensors; i++) {
        struct flight *f = &trial->flights[i];

        trial->operations[i] =
                operation_of(trial->s, trial->kind, i, dtype, reduced[row].op);
        trial->operations[i].scales = scales;
        *f = (struct flight){ .operation = &trial->operations[i],
            .crew = &trial->crew };
        f->input.data = trial->place->inputs[i];
        f->output.data = trial->place->outputs[i];
    }
}

/* Bytes are bytes, and lists are lists: few types will do. */
static bool is_wanted(const struct kind *kind, int dtype)
{
    return (kind->way == NULL && kind->form == FORM_EQUAL && !kind->is_uneven) ||
            dtype == TUTTI_INT16 || dtype == TUTTI_INT64 || dtype == TUTTI_FLOAT32 ||
            dtype == TUTTI_BOOL || dtype == TUTTI_FLOAT8_E5M2;
}

static void try_type(struct trial *trial, int dtype, size_t row)
{
    static const struct scales none = { 1, 1 };
    const bool is_rare = dtype != TUTTI_FLOAT32 && (dtype != TUTTI_INT16 || row > 0);
    char what[128];

    set_operation(trial, (tutti_dtype)dtype, row, none);
    (void)snprintf(what, sizeof what, "%s %s of %s, %s", trial->kind->name,
            tutti_reduce_name(reduced[row].op), tutti_dtype_name((tutti_dtype)dtype),
            placings[trial->placing]);
    trial->s->what = what;
    if (trial->way == '-') {
        refuse(trial);
    } else if (!trial->s->rig.simulated || is_rare || row > 1) {
        (void)go_once(trial);
    } else {
        go_on(trial);
    }
    if (trial->kind->way == NULL && trial->placing == FUSED && trial->way != '-' &&
            dtype_is_real((tutti_dtype)dtype)) {
        set_operation(trial, (tutti_dtype)dtype, row, (struct scales){ 2, 0.25 });
        trial->way = trial->s->bare ? 's' : trial->way;
        (void)go_once(trial);
    }
    trial->s->what = "operations";
}

static void try_kind(struct suite *s, const struct kind *kind, enum placing placing,
        struct place *place)
{
    const size_t rows = kind->way == NULL ? sizeof reduced / sizeof *reduced : 1;
    struct trial trial;

    make_trial(s, kind, placing, place, &trial);
    for (size_t row = 0; row < rows; row++) {
        for (int dtype = TUTTI_UINT8; dtype <= TUTTI_FLOAT8_E5M2; dtype++) {
            if (is_wanted(kind, dtype)) {
                try_type(&trial, dtype, row);
            }
        }
    }
}

/* While a rank has joined, which is also the one that orders all launches. */
static void try_joined(struct suite *s, struct place *places)
{
    for (size_t k = 0; k < KINDS && kinds[k].way == NULL && s->rank != 0; k++) {
        struct trial trial;

        make_trial(s, &kinds[k], ARENA, &places[k], &trial);
        trial.absent[0] = true;
        set_operation(&trial, TUTTI_FLOAT32, 1, (struct scales){ 1, 1 });
        trial.way = 's';
        (void)go_once(&trial);
    }
    (void)SUITE_EXPECT(s, tutti_join(s->t, NULL, NULL) == TUTTI_OK);
}

/* Sums of float16 that are too large for the type, unlike the average: it is scaled before. */
static void try_large_average(struct suite *s)
{
    uint16_t values[64];
    uint16_t wanted;
    void *memory = device_memory(&s->rig, sizeof values);

    reference_store_real(TUTTI_FLOAT16, 60000, &wanted);
    for (size_t i = 0; i < 64; i++) {
        values[i] = wanted;
    }
    device_upload(&s->rig, memory, values, sizeof values);
    (void)SUITE_EXPECT(s,
            tutti_allreduce(s->t, "large average", memory, memory, 64, TUTTI_FLOAT16,
                    TUTTI_AVERAGE, NULL) == TUTTI_OK);
    device_download(&s->rig, values, memory, sizeof values);
    for (size_t i = 0; i < 64; i++) { /* but for what additions round */
        (void)SUITE_EXPECT(s, abs(values[i] - wanted) <= 2);
    }
    device_drop(&s->rig, memory);
}

void suite_operations(struct suite *s)
{
    static struct place places[PLACINGS][KINDS];

    if (!SUITE_EXPECT(s, s->size <= RANKS_MAX)) {
        return;
    }
    pattern_set_exact(true);
    /* Before anything is freed, also by the library: neighbours are so where there are no holes. */
    for (int placing = SINGLE; placing < PLACINGS; placing++) {
        for (size_t k = 0; k < KINDS; k++) {
            place_kind(s, &kinds[k], (enum placing)placing, &places[placing][k]);
        }
    }
    for (int placing = SINGLE; placing < PLACINGS; placing++) {
        for (size_t k = 0; k < KINDS; k++) {
            try_kind(s, &kinds[k], (enum placing)placing, &places[placing][k]);
        }
    }
    if (!s->staged && !s->bare) {
        try_large_average(s);
    }
    if (s->rig.simulated && s->size > 1) {
        try_joined(s, places[ARENA]);
    }
    for (int placing = SINGLE; placing < PLACINGS; placing++) {
        for (size_t k = 0; k < KINDS; k++) {
            drop_place(s, (enum placing)placing, &places[placing][k]);
        }
    }
}
