/*
 * The pieces of a script, moved by kernels: one launch each way.
 *
 * Few pieces travel as parameters of the launch. Many lie in a table on the device, which is
 * kept: a batch that comes again, as those of a trainer do, is known by its pieces, and costs
 * no copy. Without memory for a table, or as long as the one to be dropped is in use, there
 * are several launches instead.
 */
#ifndef TUTTI_OPS_GPU_PACKING_H
#define TUTTI_OPS_GPU_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/gpu/gpu.h"
#include "ops/gpu/kernels/kernels.h"
#include "ops/gpu/pieces.h"
#include "ops/gpu/script.h"
#include "ops/op.h"

/** Tables that are kept, and memory for all of them: 10,000 tensors need 400 KB. */
#define PACKING_TABLES 64
#define PACKING_BYTES ((size_t)16 << 20)

/** A table on the device. */
struct packing_table {
    uint64_t hash; /* of its pieces                                            */
    uint64_t used; /* when it was used last; 0: there is none here             */
    size_t piece_count; /* of the plan                                          */
    cu_pointer memory; /* the table, within that of all                        */
    size_t offset; /* of it there                                           */
    void *image; /* the same, pinned: compared with, copied from; owned      */
    struct device_event *copied; /* after the copy; NULL: it is known to be there  */
};

/** Of one backend. Zeroed but for `gpu`: nothing. */
struct packing {
    struct gpu *gpu; /* borrowed */
    struct op_device_counts *counts; /* borrowed; NULL: nobody reads them            */
    struct kernel_target target; /* of packing_open()                            */
    size_t pieces_max; /* that travel as parameters                            */
    struct pack_plan plan; /* of the launch in work; its memory is kept           */
    union pack_args args; /* likewise                                            */
    uint64_t uses; /* of tables, so far                                        */
    struct packing_table tables[PACKING_TABLES]; /* see there                    */
    void *memory; /* of all tables; owned; NULL: not needed yet                  */
    struct pieces pieces; /* of it                                               */
};

/** What is launched. */
struct packing_work {
    const struct script_pieces *pieces; /* borrowed */
    const struct gpu_form *form; /* borrowed */
    enum pack_direction direction; /* gathers or scatters */
    cu_pointer slab; /* where in_slab is; 0: nowhere                              */
    cu_stream stream; /* of the GPU, or the caller's                          */
    bool is_captured; /* in a graph, which would outlive tables                */
};

void packing_open(
        struct packing *packing, struct gpu *gpu, struct op_device_counts *counts);
/** The context is current, and no kernel runs that uses a table. */
void packing_close(struct packing *packing);

/**
 * Launches what moves the pieces; none: nothing. The context is current.
 * Errors: TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM.
 */
TUTTI_MUST_USE tutti_status packing_run(
        struct packing *packing, const struct packing_work *work);

#endif
