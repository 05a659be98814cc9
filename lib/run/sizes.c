#include "run/sizes.h"

#include "base/error.h"
#include "base/mem.h"
#include "run/batch.h"
#include "run/context.h"

/* The parts of one side of the question: what it has for each member. */
static void list_parts(struct op_part *parts, int members, size_t bytes)
{
    for (int m = 0; m < members; m++) {
        parts[m] = (struct op_part){ .offset = (size_t)m * bytes, .bytes = bytes };
    }
}

tutti_status sizes_ask(struct batch *batch)
{
    struct batch_sizes *sizes = &batch->sizes;
    const struct op_set *set = batch->op.set;
    const size_t runs = batch->operation_count;
    const size_t entries = (size_t)set->size * runs;
    struct op_part *parts = batch_parts(batch, 2 * (size_t)set->size);

    if (parts == NULL ||
            !mem_grow(&sizes->table, &sizes->capacity, 2 * entries,
                    sizeof *sizes->table)) {
        return error_set(
                TUTTI_ERR_NO_MEMORY, "no memory for the sizes of %zu tensors", runs);
    }
    for (size_t e = 0; e < entries; e++) {
        sizes->table[e] = batch->runs[e % runs].sends[e / runs].bytes;
    }
    list_parts(parts, set->size, runs * sizeof *sizes->table);
    list_parts(parts + set->size, set->size, runs * sizeof *sizes->table);
    sizes->run = (struct op_run){ .input = sizes->table,
        .output = sizes->table + entries,
        .sends = parts,
        .recvs = parts + set->size };
    sizes->op = batch->op;
    sizes->are_asked = true;
    batch->op = (struct op_batch){ .set = set,
        .sequence = sizes->op.sequence,
        .collective = TUTTI_ALLTOALL,
        .dtype = TUTTI_UINT8,
        .divisor = 1,
        .prescale = 1,
        .postscale = 1,
        .runs = &sizes->run,
        .space = OP_HOST,
        .sizes_known = true,
        .owner = batch };
    return TUTTI_OK;
}

void sizes_take(struct batch *batch)
{
    struct batch_sizes *sizes = &batch->sizes;
    const size_t runs = batch->operation_count;
    const uint64_t *got = sizes->run.output;

    batch->op = sizes->op;
    batch->op.sizes_known = true;
    sizes->are_asked = false;
    for (int m = 0; m < batch->op.set->size; m++) {
        for (size_t i = 0; i < runs; i++) {
            batch->runs[i].recvs[m].bytes = *got++;
        }
    }
}

bool sizes_are_awaited(const struct tutti *t)
{
    const struct batch *batch = t->dispatcher.running;

    while (batch != NULL && !batch->sizes.are_asked) {
        batch = batch->next;
    }
    return batch != NULL;
}
