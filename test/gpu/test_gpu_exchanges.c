/*
 * Broadcasts, allgathers and alltoalls of the GPU backend over the simulated GPU: equal and
 * unequal parts, empty ones, one tensor and several, side by side and anywhere and one way on
 * every other rank, in place and not. Every byte says whose it is.
 *
 *     test_gpu_exchanges RANKS NCCL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "test/gpu/backend.h"

#define TENSORS 3
#define BYTES_MAX 4096

struct kind {
    tutti_collective collective;
    size_t tensors;
    bool anywhere;
    bool mixed; /* rank 0 as it says, rank 1 the other way, and so on */
    bool in_place;
    bool equal;
};

/* A tensor of a rank, and where its parts go and come from. */
struct exchange {
    struct op_set set;
    struct op_run runs[TENSORS];
    struct op_part sends[TENSORS][BACKEND_RANKS_MAX], recvs[TENSORS][BACKEND_RANKS_MAX];
    size_t input_bytes[TENSORS], output_bytes[TENSORS];
    unsigned char *inputs[TENSORS], *outputs[TENSORS];
};

/* Byte i of what rank `from` gives to `to`. */
static unsigned char byte_of(int from, int to, size_t tensor, size_t i)
{
    return (unsigned char)(7 * from + 31 * to + 101 * (int)tensor + (int)(i % 251));
}

/* What `from` gives to `to`: on all ranks, also of others. */
static size_t bytes_of(const struct kind *kind, size_t tensor, int from, int to)
{
    const size_t usual = 40 + 100 * tensor;

    switch ((int)kind->collective) {
    case TUTTI_BROADCAST:
        return usual;
    case TUTTI_ALLGATHER:
        return kind->equal ? usual : (size_t)from * (usual + 3);
    default:
        return kind->equal ? usual
                           : (size_t)((from + 2 * to + (int)tensor) % 3) * usual;
    }
}

static void lay_out(const struct backend_rank *r, const struct kind *kind, size_t t,
        struct exchange *x)
{
    for (int m = 0; m < r->world->size; m++) {
        x->sends[t][m].bytes = bytes_of(kind, t, r->rank, m);
        x->recvs[t][m].bytes = bytes_of(kind, t, m, r->rank);
        x->recvs[t][m].offset = x->output_bytes[t];
        x->output_bytes[t] += x->recvs[t][m].bytes;
        if (kind->collective == TUTTI_ALLTOALL) {
            x->sends[t][m].offset = x->input_bytes[t];
            x->input_bytes[t] += x->sends[t][m].bytes;
        }
    }
    if (kind->collective != TUTTI_ALLTOALL) {
        x->input_bytes[t] = bytes_of(kind, t, r->rank, 0);
    }
    if (kind->collective == TUTTI_BROADCAST) {
        x->output_bytes[t] = x->input_bytes[t];
    }
}

static bool is_anywhere(const struct backend_rank *r, const struct kind *kind)
{
    return kind->anywhere != (kind->mixed && r->rank % 2 == 1);
}

static unsigned char *place(
        struct backend_rank *r, const struct kind *kind, size_t tensor, size_t bytes)
{
    return is_anywhere(r, kind)
            ? (unsigned char *)backend_alloc(r, bytes + 1000) + 5 + 3 * tensor
            : backend_alloc(r, bytes + 1);
}

/* Memory: in place, the input is the rank's own part of the output. */
static void allocate(
        struct backend_rank *r, const struct kind *kind, struct exchange *x)
{
    for (size_t t = 0; t < kind->tensors; t++) {
        x->outputs[t] = place(r, kind, t, x->output_bytes[t]);
    }
    for (size_t t = 0; t < kind->tensors; t++) {
        if (!kind->in_place || kind->collective == TUTTI_ALLTOALL) {
            x->inputs[t] = place(r, kind, t, x->input_bytes[t]);
        } else if (kind->collective == TUTTI_BROADCAST) {
            x->inputs[t] = x->outputs[t];
        } else {
            x->inputs[t] = x->outputs[t] + x->recvs[t][r->rank].offset;
        }
    }
}

static void write_inputs(
        struct backend_rank *r, const struct kind *kind, const struct exchange *x)
{
    for (size_t t = 0; t < kind->tensors; t++) {
        unsigned char host[BYTES_MAX];

        if (kind->collective == TUTTI_ALLTOALL) {
            for (int m = 0; m < r->world->size; m++) {
                for (size_t i = 0; i < x->sends[t][m].bytes; i++) {
                    host[x->sends[t][m].offset + i] = byte_of(r->rank, m, t, i);
                }
            }
        } else {
            for (size_t i = 0; i < x->input_bytes[t]; i++) {
                host[i] = byte_of(r->rank, 0, t, i);
            }
        }
        backend_write(r, x->inputs[t], host, x->input_bytes[t]);
    }
}

static struct op_batch batch_of(
        struct backend_rank *r, const struct kind *kind, struct exchange *x)
{
    struct op_batch batch = { .set = &x->set,
        .collective = kind->collective,
        .dtype = TUTTI_UINT8,
        .root = r->world->size - 1,
        .runs = x->runs,
        .run_count = kind->tensors,
        .space = OP_DEVICE,
        .sizes_known = true };

    x->set = backend_set(r);
    for (size_t t = 0; t < kind->tensors; t++) {
        x->runs[t] = (struct op_run){ .input = x->inputs[t], .output = x->outputs[t] };
        if (kind->collective == TUTTI_BROADCAST) {
            x->runs[t].count = x->input_bytes[t];
            batch.count += x->runs[t].count;
        } else {
            x->runs[t].sends = x->sends[t];
            x->runs[t].recvs = x->recvs[t];
        }
    }
    return batch;
}

static void check_outputs(
        struct backend_rank *r, const struct kind *kind, const struct exchange *x)
{
    const int root = r->world->size - 1;

    for (size_t t = 0; t < kind->tensors; t++) {
        unsigned char host[BYTES_MAX];

        backend_read(r, host, x->outputs[t], x->output_bytes[t]);
        if (kind->collective == TUTTI_BROADCAST) {
            for (size_t i = 0; i < x->output_bytes[t]; i++) {
                CHECK(host[i] == byte_of(root, 0, t, i));
            }
            continue;
        }
        for (int m = 0; m < r->world->size; m++) {
            const int to = kind->collective == TUTTI_ALLTOALL ? r->rank : 0;

            for (size_t i = 0; i < x->recvs[t][m].bytes; i++) {
                CHECK(host[x->recvs[t][m].offset + i] == byte_of(m, to, t, i));
            }
        }
    }
}

static void run_kind(struct backend_rank *r, const struct kind *kind)
{
    struct exchange x = { .set = { .id = 0 } };
    struct op_batch batch;

    for (size_t t = 0; t < kind->tensors; t++) {
        lay_out(r, kind, t, &x);
    }
    allocate(r, kind, &x);
    write_inputs(r, kind, &x);
    batch = batch_of(r, kind, &x);
    r->counts.packed = 0;
    backend_do(r, &batch);
    check_outputs(r, kind, &x);
    if (kind->tensors == 1 || kind->collective == TUTTI_ALLTOALL) {
        CHECK(r->counts.packed == 0);
    } else if (is_anywhere(r, kind) && r->world->size > 1) {
        CHECK(r->counts.packed == 1);
    }
}

/* Sizes that nobody knows, and what goes to a root alone, are for others. */
static void decline(struct backend_rank *r)
{
    struct op_set set = backend_set(r);
    struct op_batch batch = { .set = &set,
        .collective = TUTTI_ALLGATHER,
        .dtype = TUTTI_UINT8,
        .space = OP_DEVICE };

    CHECK(!op_gpu.accepts(r->state, &batch));
    batch.sizes_known = true;
    CHECK(op_gpu.accepts(r->state, &batch));
    set.partial = true;
    CHECK(!op_gpu.accepts(r->state, &batch));
    set.partial = false;
    batch.collective = TUTTI_GATHER;
    CHECK(!op_gpu.accepts(r->state, &batch));
    batch.collective = TUTTI_SCATTER;
    CHECK(!op_gpu.accepts(r->state, &batch));
}

static void body(struct backend_rank *r)
{
    static const tutti_collective collectives[] = { TUTTI_BROADCAST, TUTTI_ALLGATHER,
        TUTTI_ALLTOALL };
    const struct op_set set = backend_set(r);

    decline(r);
    backend_meet(r, &set, true);
    for (unsigned i = 0; i < 3u * 32u; i++) {
        const struct kind kind = { .collective = collectives[i / 32],
            .tensors = (i & 1) != 0 ? TENSORS : 1,
            .anywhere = (i & 2) != 0,
            .in_place = (i & 4) != 0,
            .equal = (i & 8) != 0,
            .mixed = (i & 16) != 0 };

        run_kind(r, &kind);
    }
}

int main(int argc, char **argv)
{
    static struct backend_world world = { .body = body };
    int64_t size = 0;

    if (argc != 3 || !text_to_int64(argv[1], &size)) {
        return 2;
    }
    world.size = (int)size;
    backend_library(&world, argv[0], argv[2]);
    backend_run(&world);
    return 0;
}
