/*
 * The scripts of the GPU backend, carried out on host memory by a model of NCCL and of the
 * packing kernels: random batches of up to four ranks, whose tensors lie side by side on
 * some and anywhere on others. The calls must be the same on all ranks, the results right,
 * and nothing else in memory may change.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ops/gpu/script.h"
#include "test/unit/unit.h"

#define RANKS_MAX 4
#define RUNS_MAX 6
#define MEMORY_BYTES 65536
#define SLAB_BYTES 262144
#define FILLER 0x5a
#define SLAB_FILLER 0x33

/* Where the tensors of a rank lie. */
enum placing {
    SIDE_BY_SIDE, /* as tutti_alloc() gives memory: padded to 256 bytes             */
    ADJACENT, /* with nothing in between                                        */
    ANYWHERE /* with bytes of others in between                                */
};

struct rank {
    unsigned char *memory; /* its device memory                                     */
    unsigned char *expected; /* what it must be at the end                           */
    unsigned char
            *may_change; /* nonzero: bytes that nobody looks at                   */
    unsigned char *slab;
    size_t used;
    size_t padding[64][2]; /* [from, to) */
    size_t padding_count;
    struct op_set set;
    struct op_run runs[RUNS_MAX];
    struct op_part sends[RUNS_MAX][RANKS_MAX], recvs[RUNS_MAX][RANKS_MAX];
    struct op_batch batch;
    struct gpu_form form;
    struct script script;
};

struct job {
    struct rank ranks[RANKS_MAX];
    int size;
    bool kernels, in_place;
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_reduce_op op;
    double prescale, postscale;
    size_t runs;
    enum placing placing[RANKS_MAX];
    size_t counts[RUNS_MAX][RANKS_MAX]; /* elements; per member where it has parts  */
    size_t traffic[RUNS_MAX][RANKS_MAX][RANKS_MAX]; /* ALLTOALL: bytes from, to  */
    int root;
    int node_ranks; /* 0, or ranks on each node                              */
    bool alternates; /* ranks of a node are not neighbours                    */
    bool registers;
};

/* The ranks that a call joins, in NCCL's order. */
struct group {
    int ranks[RANKS_MAX];
    int size;
};

static unsigned seed;

static unsigned draw(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* ----------------------------------------------------------------------- values */

static double load(tutti_dtype dtype, const unsigned char *at)
{
    double value = 0;

#define LOAD(symbol, type) \
    case symbol: { \
        type x; \
        memcpy(&x, at, sizeof x); \
        value = (double)x; \
        break; \
    }
    switch ((int)dtype) {
        LOAD(TUTTI_UINT8, uint8_t)
        LOAD(TUTTI_INT16, int16_t)
        LOAD(TUTTI_INT32, int32_t)
        LOAD(TUTTI_INT64, int64_t)
        LOAD(TUTTI_UINT64, uint64_t)
        LOAD(TUTTI_FLOAT32, float)
    default:
        fail();
    }
#undef LOAD
    return value;
}

static void store(tutti_dtype dtype, unsigned char *at, double value)
{
#define STORE(symbol, type) \
    case symbol: { \
        const type x = (type)value; \
        memcpy(at, &x, sizeof x); \
        break; \
    }
    switch ((int)dtype) {
        STORE(TUTTI_UINT8, uint8_t)
        STORE(TUTTI_INT16, int16_t)
        STORE(TUTTI_INT32, int32_t)
        STORE(TUTTI_INT64, int64_t)
        STORE(TUTTI_UINT64, uint64_t)
        STORE(TUTTI_FLOAT32, float)
    default:
        fail();
    }
#undef STORE
}

static double combine(tutti_reduce_op op, double a, double b)
{
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVERAGE:
        return a + b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_PRODUCT:
        return a * b;
    }
    return 0;
}

/* --------------------------------------------------------------------- the model */

static bool is_padding(void *user, uint64_t address, size_t bytes)
{
    const struct rank *rank = user;
    const size_t from = address - (uint64_t)(uintptr_t)rank->memory;

    for (size_t i = 0; i < rank->padding_count; i++) {
        if (from >= rank->padding[i][0] && from + bytes <= rank->padding[i][1]) {
            return true;
        }
    }
    return false;
}

static unsigned char *at(const struct rank *rank, struct script_place place)
{
    return place.in_slab ? rank->slab + place.at
                         : (unsigned char *)(uintptr_t)place.at; // NOLINT
}

static void gather(const struct rank *rank)
{
    const size_t own = tutti_dtype_size(rank->form.dtype);
    const size_t wire = tutti_dtype_size(rank->form.wire);

    for (size_t i = 0; i < rank->script.gathers.count; i++) {
        const struct script_piece *piece = &rank->script.gathers.pieces[i];

        for (size_t e = 0; e < piece->count; e++) {
            const unsigned char *from =
                    (const unsigned char *)(uintptr_t)piece->tensor + e * own; // NOLINT

            store(rank->form.wire, at(rank, piece->packed) + e * wire,
                    load(rank->form.dtype, from) * rank->form.before);
        }
    }
}

static void scatter(const struct rank *rank)
{
    const size_t own = tutti_dtype_size(rank->form.dtype);
    const size_t wire = tutti_dtype_size(rank->form.wire);

    for (size_t i = 0; i < rank->script.scatters.count; i++) {
        const struct script_piece *piece = &rank->script.scatters.pieces[i];

        for (size_t e = 0; e < piece->count; e++) {
            unsigned char *to =
                    (unsigned char *)(uintptr_t)piece->tensor + e * own; // NOLINT

            store(rank->form.dtype, to,
                    load(rank->form.wire, at(rank, piece->packed) + e * wire) /
                            rank->form.divisor * rank->form.after);
        }
    }
}

static int node_of(const struct job *job, int r)
{
    return job->alternates ? r % (job->size / job->node_ranks) : r / job->node_ranks;
}

static int place_in_node(const struct job *job, int r)
{
    return job->alternates ? r / (job->size / job->node_ranks) : r % job->node_ranks;
}

/* The ranks that do a step together with a rank. */
static struct group group_of(const struct job *job, enum script_step step, int rank)
{
    struct group group = { .size = 0 };

    for (int r = 0; r < job->size; r++) {
        const bool is_in = step == SCRIPT_SET ||
                (step == SCRIPT_ACROSS
                                ? place_in_node(job, r) == place_in_node(job, rank)
                                : node_of(job, r) == node_of(job, rank));

        if (is_in) {
            group.ranks[group.size++] = r;
        }
    }
    return group;
}

/* Element e of the input that the ranks of a group give to a call. */
static double reduced(
        const struct job *job, const struct group *group, size_t call, size_t e)
{
    const struct gpu_form *form = &job->ranks[0].form;
    const size_t wire = tutti_dtype_size(form->wire);
    double value = 0;

    for (int i = 0; i < group->size; i++) {
        const struct rank *rank = &job->ranks[group->ranks[i]];
        const double x =
                load(form->wire, at(rank, rank->script.calls[call].input) + e * wire);

        value = i == 0 ? x : combine(job->op, value, x);
    }
    return value;
}

/* All elements to those that take them: NCCL reads all before it writes. */
static void deliver(struct job *job, const struct group *group, size_t call,
        size_t count, const bool takes[RANKS_MAX])
{
    const tutti_dtype dtype = job->ranks[0].form.wire;
    const size_t wire = tutti_dtype_size(dtype);
    unsigned char *results = mem_alloc(count * wire);

    for (size_t e = 0; e < count; e++) {
        store(dtype, results + e * wire, reduced(job, group, call, e));
    }
    for (int i = 0; i < group->size; i++) {
        const struct rank *rank = &job->ranks[group->ranks[i]];

        if (takes[group->ranks[i]]) {
            memcpy(at(rank, rank->script.calls[call].output), results, count * wire);
        }
    }
    mem_free(results);
}

/* To each rank of the group its part. */
static void deliver_parts(struct job *job, const struct group *group, size_t call)
{
    const tutti_dtype dtype = job->ranks[0].form.wire;
    const size_t wire = tutti_dtype_size(dtype);
    const size_t count = job->ranks[0].script.calls[call].count;
    unsigned char *parts = mem_alloc((size_t)group->size * count * wire);

    for (size_t e = 0; e < (size_t)group->size * count; e++) {
        store(dtype, parts + e * wire, reduced(job, group, call, e));
    }
    for (int i = 0; i < group->size; i++) {
        const struct rank *rank = &job->ranks[group->ranks[i]];

        memcpy(at(rank, rank->script.calls[call].output),
                parts + (size_t)i * count * wire, count * wire);
    }
    mem_free(parts);
}

/* From one, or from each, to all. Bytes, but behind a reduction. */
static void call_move(struct job *job, const struct group *group, size_t i)
{
    const struct script_call *call = &job->ranks[0].script.calls[i];
    const size_t bytes = call->count * tutti_dtype_size(job->ranks[0].form.wire);
    unsigned char *sent = mem_alloc((size_t)group->size * bytes);

    for (int m = 0; m < group->size; m++) {
        const struct rank *rank = &job->ranks[group->ranks[m]];

        memcpy(sent + (size_t)m * bytes, at(rank, rank->script.calls[i].input), bytes);
    }
    for (int m = 0; m < group->size; m++) {
        const struct rank *rank = &job->ranks[group->ranks[m]];
        unsigned char *to = at(rank, rank->script.calls[i].output);

        if (call->verb == SCRIPT_BROADCAST) {
            memcpy(to, sent + (size_t)call->peer * bytes, bytes);
        } else {
            memcpy(to, sent, (size_t)group->size * bytes);
        }
    }
    mem_free(sent);
}

static void call_group(struct job *job, const struct group *group, size_t i)
{
    const struct script_call *call = &job->ranks[0].script.calls[i];
    bool takes[RANKS_MAX] = { false };

    switch (call->verb) {
    case SCRIPT_ALL_REDUCE:
    case SCRIPT_REDUCE:
        for (int r = 0; r < job->size; r++) {
            takes[r] = call->verb == SCRIPT_ALL_REDUCE || r == call->peer;
        }
        deliver(job, group, i, call->count, takes);
        break;
    case SCRIPT_REDUCE_SCATTER:
        deliver_parts(job, group, i);
        break;
    case SCRIPT_BROADCAST:
    case SCRIPT_ALL_GATHER:
        call_move(job, group, i);
        break;
    case SCRIPT_SEND:
    case SCRIPT_RECV:
    case SCRIPT_COPY:
        fail();
    }
}

/* A step of all ranks, group by group: each has its first rank's turn. */
static void carry_out_step(struct job *job, enum script_step step)
{
    const struct script *script = &job->ranks[0].script;

    for (size_t i = 0; i < script->call_count; i++) {
        for (int r = 0; r < job->size && script->calls[i].step == step; r++) {
            const struct group group = group_of(job, step, r);

            if (group.ranks[0] == r) {
                call_group(job, &group, i);
            }
        }
    }
}

/* The k-th call of a kind to or from a rank; NULL: there are no more. */
static const struct script_call *find_call(
        const struct rank *rank, enum script_verb verb, int peer, size_t k)
{
    for (size_t i = 0; i < rank->script.call_count; i++) {
        const struct script_call *call = &rank->script.calls[i];

        if (call->verb == verb && call->peer == peer && k-- == 0) {
            return call;
        }
    }
    return NULL;
}

static void exchange_pair(struct job *job, int from, int to)
{
    for (size_t k = 0;; k++) {
        const struct script_call *send =
                find_call(&job->ranks[from], SCRIPT_SEND, to, k);
        const struct script_call *recv =
                find_call(&job->ranks[to], SCRIPT_RECV, from, k);

        assert_true((send == NULL) == (recv == NULL));
        if (send == NULL) {
            return;
        }
        assert_int_equal(send->count, recv->count);
        memcpy(at(&job->ranks[to], recv->output), at(&job->ranks[from], send->input),
                send->count);
    }
}

/* Copies come first; then in place what is sent is no longer where it was. */
static void carry_out_pairs(struct job *job)
{
    for (int a = 0; a < job->size; a++) {
        const struct rank *rank = &job->ranks[a];

        for (size_t i = 0; i < rank->script.call_count; i++) {
            const struct script_call *call = &rank->script.calls[i];

            if (call->verb == SCRIPT_COPY) {
                memcpy(at(rank, call->output), at(rank, call->input), call->count);
            }
        }
    }
    for (int a = 0; a < job->size; a++) {
        for (int b = 0; b < job->size; b++) {
            exchange_pair(job, a, b);
        }
    }
}

/* What is registered lies at one offset on all ranks; what one rank packs all do. */
static void check_places(const struct job *job, const struct script_call *call,
        const struct script_call *other)
{
    if (!job->registers) {
        return;
    }
    assert_int_equal(call->input.in_slab, other->input.in_slab);
    assert_int_equal(call->output.in_slab, other->output.in_slab);
    if (call->verb == SCRIPT_REDUCE_SCATTER || call->verb == SCRIPT_ALL_REDUCE) {
        assert_true(!call->input.in_slab || call->step == SCRIPT_ACROSS ||
                call->input.at == other->input.at);
    }
    if (call->verb == SCRIPT_ALL_GATHER) {
        assert_true(!call->output.in_slab || call->output.at == other->output.at);
    }
}

/* NCCL wants the same calls in the same order. */
static void check_calls(const struct job *job)
{
    const struct script *first = &job->ranks[0].script;

    for (int r = 1; r < job->size; r++) {
        const struct script *other = &job->ranks[r].script;

        assert_int_equal(other->call_count, first->call_count);
        for (size_t i = 0; i < first->call_count; i++) {
            assert_int_equal(other->calls[i].verb, first->calls[i].verb);
            assert_int_equal(other->calls[i].count, first->calls[i].count);
            assert_int_equal(other->calls[i].peer, first->calls[i].peer);
            assert_int_equal(other->calls[i].step, first->calls[i].step);
            check_places(job, &first->calls[i], &other->calls[i]);
        }
    }
}

static void carry_out(struct job *job)
{
    for (int r = 0; r < job->size; r++) {
        gather(&job->ranks[r]);
    }
    if (job->collective == TUTTI_ALLTOALL) {
        carry_out_pairs(job);
    } else {
        check_calls(job);
        for (int step = SCRIPT_SET; step < SCRIPT_STEPS; step++) {
            carry_out_step(job, (enum script_step)step);
        }
    }
    for (int r = 0; r < job->size; r++) {
        scatter(&job->ranks[r]);
    }
}

/* ----------------------------------------------------------------------- a batch */

/* Memory of a tensor. */
static size_t allocate(struct rank *rank, enum placing placing, size_t bytes)
{
    size_t offset = rank->used;

    if (placing == ANYWHERE) {
        offset += 8 * (size_t)draw(40);
    }
    rank->used = offset + bytes;
    if (placing == SIDE_BY_SIDE) {
        rank->used = size_align(rank->used, 256);
        rank->padding[rank->padding_count][0] = offset + bytes;
        rank->padding[rank->padding_count++][1] = rank->used;
        memset(rank->may_change + offset + bytes, 1, rank->used - offset - bytes);
    }
    assert_true(rank->used <= MEMORY_BYTES);
    return offset;
}

/* What rank r has at element e of a run, or what it sends to all. */
static double value_of(int r, size_t run, size_t e)
{
    return (double)((size_t)(r + 1) * (1 + e % 3) + run % 2);
}

static size_t total(const struct job *job, size_t run)
{
    size_t sum = 0;

    for (int m = 0; m < job->size; m++) {
        sum += job->counts[run][m];
    }
    return sum;
}

static double result_of(const struct job *job, size_t run, size_t e)
{
    double value = 0;

    for (int r = 0; r < job->size; r++) {
        const double x = value_of(r, run, e) * job->prescale;

        value = r == 0 ? x : combine(job->op, value, x);
    }
    if (job->op == TUTTI_AVERAGE) {
        value /= job->size;
        value = job->dtype == TUTTI_FLOAT32 ? value : (double)(int64_t)value;
    }
    return value * job->postscale;
}

static void fill(struct rank *rank, size_t offset, const struct job *job, int from,
        size_t run, size_t count)
{
    const size_t own = tutti_dtype_size(job->dtype);

    for (size_t e = 0; e < count; e++) {
        store(job->dtype, rank->memory + offset + e * own, value_of(from, run, e));
    }
}

static void expect(
        struct rank *rank, size_t offset, tutti_dtype dtype, size_t e, double value)
{
    store(dtype, rank->expected + offset + e * tutti_dtype_size(dtype), value);
}

/* The parts of a run, one behind the other; gives the bytes of all. */
static size_t place_parts(
        struct op_part *parts, int size, const size_t *elements, size_t element)
{
    size_t end = 0;

    for (int m = 0; m < size; m++) {
        parts[m] = (struct op_part){ .offset = end, .bytes = elements[m] * element };
        end += parts[m].bytes;
    }
    return end;
}

/* Inputs first: outputs side by side with them would be no test of anything. */
static size_t input_elements(const struct job *job, int r, size_t run)
{
    size_t sum = 0;

    switch ((int)job->collective) {
    case TUTTI_ALLGATHER:
        return job->counts[run][r];
    case TUTTI_REDUCESCATTER:
        return total(job, run);
    case TUTTI_ALLTOALL:
        for (int m = 0; m < job->size; m++) {
            sum += job->traffic[run][r][m];
        }
        return sum;
    default:
        return job->counts[run][0];
    }
}

static size_t output_elements(const struct job *job, int r, size_t run)
{
    size_t sum = 0;

    switch ((int)job->collective) {
    case TUTTI_ALLGATHER:
        return total(job, run);
    case TUTTI_REDUCESCATTER:
        return job->counts[run][r];
    case TUTTI_ALLTOALL:
        for (int m = 0; m < job->size; m++) {
            sum += job->traffic[run][m][r];
        }
        return sum;
    default:
        return job->counts[run][0];
    }
}

static bool is_simple(const struct job *job)
{
    return job->collective == TUTTI_ALLREDUCE || job->collective == TUTTI_REDUCE ||
            job->collective == TUTTI_BROADCAST;
}

static void make_memory(struct job *job, int r)
{
    const size_t own = tutti_dtype_size(job->dtype);
    struct rank *rank = &job->ranks[r];

    rank->memory = mem_alloc_aligned(MEMORY_BYTES);
    rank->expected = mem_alloc(MEMORY_BYTES);
    rank->may_change = mem_calloc(1, MEMORY_BYTES);
    rank->slab = mem_alloc_aligned(SLAB_BYTES);
    memset(rank->memory, FILLER + r, MEMORY_BYTES);
    memset(rank->slab, SLAB_FILLER, SLAB_BYTES);
    for (size_t i = 0; i < job->runs; i++) {
        const size_t offset =
                allocate(rank, job->placing[r], input_elements(job, r, i) * own);

        rank->runs[i].input = rank->memory + offset;
        rank->runs[i].count =
                op_is_exchange(job->collective) ? 0 : input_elements(job, r, i);
        fill(rank, offset, job, r, i, input_elements(job, r, i));
    }
    rank->used = size_align(rank->used, 256) + 256;
    for (size_t i = 0; i < job->runs; i++) {
        rank->runs[i].output =
                job->in_place && (is_simple(job) || job->collective == TUTTI_ALLTOALL)
                ? (void *)(uintptr_t)rank->runs[i].input // NOLINT
                : rank->memory +
                        allocate(rank, job->placing[r],
                                output_elements(job, r, i) * own);
    }
}

static void make_parts(struct job *job, int r)
{
    const size_t own = tutti_dtype_size(job->dtype);
    struct rank *rank = &job->ranks[r];

    for (size_t i = 0; i < job->runs; i++) {
        struct op_run *run = &rank->runs[i];
        size_t column[RANKS_MAX];

        if (is_simple(job)) {
            continue;
        }
        run->sends = rank->sends[i];
        run->recvs = job->collective == TUTTI_REDUCESCATTER ? NULL : rank->recvs[i];
        if (job->collective == TUTTI_ALLTOALL) {
            for (int m = 0; m < job->size; m++) {
                column[m] = job->traffic[i][m][r];
            }
            (void)place_parts(rank->sends[i], job->size, job->traffic[i][r], own);
            (void)place_parts(rank->recvs[i], job->size, column, own);
        } else if (job->collective == TUTTI_ALLGATHER) {
            (void)place_parts(rank->recvs[i], job->size, job->counts[i], own);
            for (int m = 0; m < job->size; m++) {
                rank->sends[i][m].bytes = job->counts[i][r] * own;
            }
        } else {
            (void)place_parts(rank->sends[i], job->size, job->counts[i], own);
        }
    }
}

/* What the outputs of a rank must have. */
static void expect_run(struct job *job, int r, size_t i)
{
    struct rank *rank = &job->ranks[r];
    const struct op_run *run = &rank->runs[i];
    const size_t to = (size_t)((unsigned char *)run->output - rank->memory);
    size_t first = 0;

    for (int m = 0; m < r; m++) {
        first += job->collective == TUTTI_REDUCESCATTER ? job->counts[i][m] : 0;
    }
    if (op_is_reduction(job->collective)) {
        for (size_t e = 0; e < output_elements(job, r, i); e++) {
            expect(rank, to, job->dtype, e, result_of(job, i, first + e));
        }
    } else if (job->collective == TUTTI_BROADCAST) {
        for (size_t e = 0; e < run->count; e++) {
            expect(rank, to, job->dtype, e, value_of(job->root, i, e));
        }
    } else {
        for (int m = 0; m < job->size; m++) {
            const struct op_part *recv = &rank->recvs[i][m];

            memcpy(rank->expected + to + recv->offset,
                    (const unsigned char *)job->ranks[m].runs[i].input +
                            job->ranks[m].sends[i][r].offset,
                    recv->bytes);
        }
    }
}

static void make_batch(struct job *job, int r)
{
    struct rank *rank = &job->ranks[r];

    rank->set = (struct op_set){ .rank = r, .size = job->size };
    rank->batch = (struct op_batch){ .set = &rank->set,
        .collective = job->collective,
        .dtype = job->dtype,
        .op = job->op,
        .divisor = job->size,
        .prescale = job->prescale,
        .postscale = job->postscale,
        .root = job->root,
        .runs = rank->runs,
        .run_count = job->runs,
        .space = OP_DEVICE,
        .sizes_known = true };
    if (job->collective == TUTTI_REDUCE && r != job->root) {
        for (size_t i = 0; i < job->runs; i++) {
            rank->runs[i].output = NULL;
        }
    }
    assert_true(gpu_form_of(&rank->batch, true, &rank->form));
}

static void write_script(struct job *job, int r)
{
    struct rank *rank = &job->ranks[r];
    const struct script_view view = { .batch = &rank->batch,
        .form = &rank->form,
        .kernels = job->kernels,
        .registers = job->registers,
        .node_ranks = job->node_ranks,
        .node_rank = job->node_ranks > 0 ? place_in_node(job, r) : 0,
        .is_padding = is_padding,
        .user = rank };

    assert_int_equal(op_is_reduction(job->collective)
                    ? script_reduction(&rank->script, &view)
                    : script_exchange(&rank->script, &view),
            TUTTI_OK);
    assert_true(rank->script.slab_bytes <= SLAB_BYTES);
}

static void free_job(struct job *job)
{
    for (int r = 0; r < job->size; r++) {
        struct rank *rank = &job->ranks[r];

        mem_free(rank->memory);
        mem_free(rank->expected);
        mem_free(rank->may_change);
        mem_free(rank->slab);
        script_fini(&rank->script);
    }
}

static void check_memory(const struct job *job)
{
    for (int r = 0; r < job->size; r++) {
        const struct rank *rank = &job->ranks[r];

        for (size_t i = 0; i < MEMORY_BYTES; i++) {
            if (rank->may_change[i] == 0 && rank->memory[i] != rank->expected[i]) {
                fail_msg(
                        "rank %d of %d: byte %zu of a %s of %zu runs of %s: %d, not %d",
                        r, job->size, i, tutti_collective_name(job->collective),
                        job->runs, tutti_dtype_name(job->dtype), rank->memory[i],
                        rank->expected[i]);
            }
        }
    }
}

/* Ready to be carried out. */
static void make_job(struct job *job)
{
    for (int r = 0; r < job->size; r++) {
        make_memory(job, r);
        make_parts(job, r);
    }
    for (int r = 0; r < job->size; r++) {
        make_batch(job, r);
        memcpy(job->ranks[r].expected, job->ranks[r].memory, MEMORY_BYTES);
        for (size_t i = 0; i < job->runs; i++) {
            if (job->ranks[r].runs[i].output != NULL) {
                expect_run(job, r, i);
            }
        }
        write_script(job, r);
    }
}

static void run_job(struct job *job)
{
    make_job(job);
    carry_out(job);
    check_memory(job);
    free_job(job);
}

/* ------------------------------------------------------------------------- tests */

static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
    TUTTI_REDUCESCATTER, TUTTI_BROADCAST, TUTTI_ALLGATHER, TUTTI_ALLTOALL };

static void draw_reduction(struct job *job)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_INT32, TUTTI_INT16,
        TUTTI_UINT8 };
    static const tutti_reduce_op ops[] = { TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MIN,
        TUTTI_MAX, TUTTI_PRODUCT };

    job->dtype = dtypes[draw(4)];
    job->op = ops[draw(5)];
    job->prescale = job->postscale = 1.0;
    if (job->dtype == TUTTI_FLOAT32 && draw(2) == 0) {
        job->prescale = draw(2) == 0 ? 2.0 : 1.0;
        job->postscale = draw(2) == 0 ? 0.5 : 1.0;
    }
}

static void draw_job(struct job *job)
{
    const unsigned same = draw(2);
    const bool whole = draw(3) == 0; /* runs end on boundaries, but for the last */

    *job = (struct job){ .size = 1 + (int)draw(RANKS_MAX),
        .kernels = true,
        .in_place = draw(2) == 0,
        .collective = collectives[draw(6)],
        .dtype = TUTTI_UINT8,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = 1 + draw(RUNS_MAX) };
    job->root = (int)draw((unsigned)job->size);
    job->registers = draw(4) == 0;
    if (job->size > 1 && draw(2) == 0) {
        job->node_ranks = job->size == 4 ? 2 : job->size;
        job->alternates = draw(2) == 0;
    }
    if (op_is_reduction(job->collective)) {
        draw_reduction(job);
    } else {
        job->kernels = draw(3) != 0;
    }
    for (int r = 0; r < job->size; r++) {
        job->placing[r] = (enum placing)draw(3);
    }
    for (size_t i = 0; i < job->runs; i++) {
        const unsigned limit = draw(3) == 0 ? 300 : 40;

        job->counts[i][0] = whole && i + 1 < job->runs ? 64 : draw(limit);
        if (draw(5) == 0) {
            job->counts[i][0] = 0;
        }
        for (int m = 0; m < job->size; m++) {
            if (m > 0) {
                job->counts[i][m] = same == 0 ? job->counts[i][0]
                        : draw(3) == 0        ? 0
                                              : draw(limit);
            }
            for (int k = 0; k < job->size; k++) {
                job->traffic[i][m][k] = job->in_place ? job->counts[i][0]
                        : draw(3) == 0                ? 0
                                                      : draw(limit);
            }
        }
    }
}

UNIT_TEST(test_random_batches)
{
    static struct job job;

    for (unsigned i = 0; i < 3000; i++) {
        seed = i;
        draw_job(&job);
        run_job(&job);
    }
}

/* Three runs of float32 on two ranks that lie so. */
static void make_three(
        struct job *job, enum placing placing, tutti_collective collective)
{
    *job = (struct job){ .size = 2,
        .kernels = true,
        .in_place = true,
        .collective = collective,
        .dtype = collective == TUTTI_BROADCAST ? TUTTI_UINT8 : TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = 3,
        .placing = { placing, placing },
        .counts = { { 10, 10 }, { 100, 100 }, { 7, 7 } } };
    make_job(job);
}

UNIT_TEST(test_side_by_side_is_one_call_and_no_copy)
{
    static struct job job;

    for (int i = 0; i < 2; i++) {
        make_three(&job, SIDE_BY_SIDE, i == 0 ? TUTTI_ALLREDUCE : TUTTI_BROADCAST);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(job.ranks[r].script.call_count, 1);
            assert_int_equal(job.ranks[r].script.gathers.count, 0);
            assert_int_equal(job.ranks[r].script.scatters.count, 0);
            assert_int_equal(job.ranks[r].script.slab_bytes, 0);
        }
        carry_out(&job);
        check_memory(&job);
        free_job(&job);
    }
}

UNIT_TEST(test_memory_of_others_is_not_touched)
{
    static struct job job;

    make_three(&job, ANYWHERE, TUTTI_ALLREDUCE);
    assert_int_equal(job.ranks[0].script.gathers.count, 3);
    assert_int_equal(job.ranks[0].script.scatters.count, 3);
    assert_int_equal(job.ranks[0].script.call_count, 1);
    free_job(&job);
}

/* Adjacent tensors are in one piece only where their sizes make a layout of that. */
UNIT_TEST(test_whole_boundaries_need_no_padding)
{
    static struct job job = { .size = 2,
        .kernels = true,
        .in_place = true,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = 2,
        .placing = { ADJACENT, ADJACENT },
        .counts = { { 64, 64 }, { 10, 10 } } };

    make_job(&job);
    assert_int_equal(job.ranks[0].script.slab_bytes, 0);
    assert_int_equal(job.ranks[0].script.call_count, 1);
    free_job(&job);
}

/* Where one rank's tensors lie side by side and the other's do not, both call the same. */
UNIT_TEST(test_ranks_may_differ)
{
    static struct job job;

    make_three(&job, SIDE_BY_SIDE, TUTTI_ALLREDUCE);
    free_job(&job);
    job = (struct job){ .size = 2,
        .kernels = true,
        .in_place = true,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_AVERAGE,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = 3,
        .placing = { SIDE_BY_SIDE, ANYWHERE },
        .counts = { { 10, 10 }, { 100, 100 }, { 7, 7 } } };
    make_job(&job);
    assert_int_equal(job.ranks[0].script.gathers.count, 0);
    assert_int_equal(job.ranks[0].script.scatters.count, 3); /* the average */
    assert_int_equal(job.ranks[0].script.slab_bytes, 0);
    assert_int_equal(job.ranks[1].script.gathers.count, 3);
    carry_out(&job);
    check_memory(&job);
    free_job(&job);
}

/* Four ranks on two nodes. */
static void make_nodes(struct job *job, enum placing placing, size_t count)
{
    *job = (struct job){ .size = 4,
        .kernels = true,
        .in_place = true,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = 2,
        .placing = { placing, placing, placing, placing },
        .counts = { { 64, 64, 64, 64 }, { count, count, count, count } },
        .node_ranks = 2 };
    make_job(job);
}

/* In the node, across, and in the node again; what lies right stays there. */
UNIT_TEST(test_nodes_are_three_calls)
{
    static const enum script_verb verbs[] = { SCRIPT_REDUCE_SCATTER, SCRIPT_ALL_REDUCE,
        SCRIPT_ALL_GATHER };
    static struct job job;
    const struct script *script = &job.ranks[3].script;

    make_nodes(&job, SIDE_BY_SIDE, 7);
    assert_int_equal(script->call_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(script->calls[i].verb, verbs[i]);
        assert_int_equal(script->calls[i].step, SCRIPT_NODE + i);
        assert_int_equal(script->calls[i].count, 36); /* half of 71, to 16 bytes */
    }
    assert_int_equal(script->slab_bytes, 0);
    assert_int_equal(script_step_from(script, SCRIPT_SET), SCRIPT_NODE);
    assert_int_equal(script_step_from(script, SCRIPT_ACROSS), SCRIPT_ACROSS);
    carry_out(&job);
    check_memory(&job);
    free_job(&job);
}

/* Without padding behind them tensors stay only where parts need none. */
UNIT_TEST(test_nodes_want_padding)
{
    static struct job job;

    make_nodes(&job, ADJACENT, 8);
    assert_int_equal(job.ranks[0].script.slab_bytes, 0);
    free_job(&job);
    make_nodes(&job, ADJACENT, 7);
    assert_int_equal(job.ranks[0].script.gathers.count, 2);
    assert_int_equal(job.ranks[0].script.scatters.count, 2);
    assert_true(job.ranks[0].script.slab_bytes >= 288);
    free_job(&job);
}

/* Memory that is registered is packed, also what lies side by side. */
UNIT_TEST(test_registered_is_packed)
{
    static struct job job;

    make_three(&job, SIDE_BY_SIDE, TUTTI_ALLREDUCE);
    free_job(&job);
    job.registers = true;
    for (int r = 0; r < job.size; r++) {
        job.ranks[r] = (struct rank){ .used = 0 };
    }
    make_job(&job);
    assert_int_equal(job.ranks[0].script.gathers.count, 3);
    assert_true(job.ranks[0].script.calls[0].input.in_slab);
    free_job(&job);
}

/* A large tensor is not copied for the sake of small ones. */
UNIT_TEST(test_large_runs_stand_alone)
{
    const size_t large = SCRIPT_ALONE_BYTES / sizeof(float);
    const struct op_set set = { .size = 2 };
    float *const memory = (float *)(uintptr_t)0x10000000; // NOLINT
    const struct op_run runs[] = { { .input = memory, .output = memory, .count = 3 },
        { .input = memory + 1000, .output = memory + 1000, .count = large },
        { .input = memory + 500, .output = memory + 500, .count = 3 } };
    const struct op_batch batch = { .set = &set,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .divisor = 2,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = runs,
        .run_count = 3 };
    struct rank rank = { .used = 0 };
    struct gpu_form form;
    struct script script = { 0 };
    const struct script_view view = { .batch = &batch,
        .form = &form,
        .kernels = true,
        .is_padding = is_padding,
        .user = &rank };

    assert_true(gpu_form_of(&batch, true, &form));
    assert_int_equal(script_reduction(&script, &view), TUTTI_OK);
    assert_int_equal(script.call_count, 3);
    assert_int_equal(script.gathers.count, 0);
    assert_int_equal(script.slab_bytes, 0);
    assert_int_equal(script.calls[1].count, large);
    script_fini(&script);
}

/*
 * By nodes a large tensor needs padding where its parts do: it is packed where there is
 * none, and by all ranks where slabs are registered.
 */
UNIT_TEST(test_large_runs_by_nodes)
{
    const size_t large = SCRIPT_ALONE_BYTES / sizeof(float);
    const struct op_set set = { .size = 6 };
    float *const memory = (float *)(uintptr_t)0x10000000; // NOLINT
    struct op_run run = { .input = memory, .output = memory, .count = large };
    const struct op_batch batch = { .set = &set,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .divisor = 6,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = &run,
        .run_count = 1 };
    struct rank rank = { .memory = (unsigned char *)memory,
        .padding = { { SCRIPT_ALONE_BYTES, SCRIPT_ALONE_BYTES + 256 } },
        .padding_count = 1 };
    struct gpu_form form;
    struct script script = { 0 };
    struct script_view view = { .batch = &batch,
        .form = &form,
        .kernels = true,
        .node_ranks = 3,
        .is_padding = is_padding,
        .user = &rank };

    assert_true(gpu_form_of(&batch, true, &form));
    for (int i = 0; i < 4; i++) {
        /* Padding; padding that does not count; none; none needed. */
        static const bool packs[] = { false, true, true, false };

        view.registers = i == 1 || i == 3;
        rank.padding_count = i < 2 ? 1 : 0;
        view.node_ranks = i == 3 ? 2 : 3;
        script_reset(&script);
        assert_int_equal(script_reduction(&script, &view), TUTTI_OK);
        assert_int_equal(script.call_count, 3);
        assert_int_equal(script.gathers.count, packs[i] ? 1 : 0);
        assert_int_equal(script.slab_bytes > 0, packs[i]);
    }
    script_fini(&script);
}

/* Each allocation fails once. */
UNIT_TEST(test_out_of_memory)
{
    const struct op_set set = { .size = 2 };
    unsigned char memory[64];
    const struct op_run runs[] = { { .input = memory, .output = memory, .count = 3 },
        { .input = memory + 32, .output = memory + 32, .count = 3 } };
    const struct op_batch batch = { .set = &set,
        .collective = TUTTI_BROADCAST,
        .dtype = TUTTI_UINT8,
        .runs = runs,
        .run_count = 2 };
    struct rank rank = { .memory = memory };
    struct gpu_form form;
    struct script script = { 0 };
    const struct script_view view = { .batch = &batch,
        .form = &form,
        .kernels = true,
        .is_padding = is_padding,
        .user = &rank };

    assert_true(gpu_form_of(&batch, true, &form));
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(script_exchange(&script, &view), TUTTI_ERR_NO_MEMORY);
        mem_fail_at(0);
        script_fini(&script);
    }
    assert_int_equal(script_exchange(&script, &view), TUTTI_OK);
    script_fini(&script);
}
