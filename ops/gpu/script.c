#include "ops/gpu/script.h"

#include "base/error.h"
#include "base/mem.h"

void script_reset(struct script *script)
{
    script->gathers.count = 0;
    script->call_count = 0;
    script->scatters.count = 0;
    script->slab_bytes = 0;
    script->failed = false;
}

void script_fini(struct script *script)
{
    mem_free(script->gathers.pieces);
    mem_free(script->calls);
    mem_free(script->scatters.pieces);
    *script = (struct script){ 0 };
}

tutti_status script_status(const struct script *script)
{
    return script->failed ? error_set(TUTTI_ERR_NO_MEMORY,
                                    "out of memory for a batch of tensors on the GPU")
                          : TUTTI_OK;
}

/* ----------------------------------------------------------------------- lists */

static void add_piece(struct script *script, struct script_pieces *list,
        const struct script_piece *piece)
{
    if (piece->count == 0 || script->failed) {
        return;
    }
    if (!mem_grow(&list->pieces, &list->capacity, list->count + 1,
                sizeof *list->pieces)) {
        script->failed = true;
        return;
    }
    list->pieces[list->count++] = *piece;
}

void script_scatter(struct script *script, const void *tensor,
        struct script_place packed, size_t count)
{
    add_piece(script, &script->scatters,
            &(struct script_piece){ .tensor = (uint64_t)(uintptr_t)tensor,
                    .packed = packed,
                    .count = count });
}

void script_call(struct script *script, const struct script_call *call)
{
    if (call->count == 0 || script->failed) {
        return;
    }
    if (!mem_grow(&script->calls, &script->call_capacity, script->call_count + 1,
                sizeof *script->calls)) {
        script->failed = true;
        return;
    }
    script->calls[script->call_count++] = *call;
}

struct script_place script_slab(struct script *script, size_t bytes)
{
    const struct script_place place = { .at = script->slab_bytes, .in_slab = true };

    script->slab_bytes = size_align(script->slab_bytes + bytes, SCRIPT_ALIGNMENT);
    return place;
}

struct script_place script_behind(struct script_place place, size_t bytes)
{
    return (struct script_place){ .at = place.at + bytes, .in_slab = place.in_slab };
}

/* -------------------------------------------------------------------- segments */

/* How large a run is, on all ranks. */
static size_t run_bytes(const struct script_view *view, size_t run)
{
    const struct op_run *of = &view->batch->runs[run];
    size_t bytes = of->count * tutti_dtype_size(view->form->wire);

    if (view->batch->collective == TUTTI_ALLGATHER) {
        bytes = 0;
        for (int m = 0; m < view->batch->set->size; m++) {
            bytes += of->recvs[m].bytes;
        }
    }
    return bytes;
}

/* True where not all ranks can give NCCL a large run as it lies, or all of them one in the slab. */
static bool differs(const struct script_view *view, size_t run)
{
    return view->batch->runs[run].spot == OP_SPOT_MIXED ||
            (view->batch->collective == TUTTI_REDUCE && view->form->before != 1.0);
}

bool script_next(struct script_segment *segment)
{
    const struct script_view *view = segment->view;
    const size_t first = segment->end;

    if (first == view->batch->run_count) {
        return false;
    }
    segment->first = first;
    segment->end++;
    segment->packs = view->registers;
    if (!view->kernels || run_bytes(view, first) >= SCRIPT_ALONE_BYTES) {
        segment->packs = view->registers && differs(view, first);
        return true;
    }
    while (segment->end < view->batch->run_count &&
            run_bytes(view, segment->end) < SCRIPT_ALONE_BYTES) {
        segment->end++;
    }
    return true;
}

/** The next run of a member's layout. Begins zeroed. */
struct walk {
    size_t seen; /* runs so far                                              */
    uint64_t address; /* of the run, on the side                             */
    size_t count; /* elements of it                                          */
    size_t begin, end; /* of it in the layout                                */
};

static bool walk_on(const struct script_segment *segment, enum script_side side,
        int member, struct walk *walk)
{
    const struct op_batch *batch = segment->view->batch;
    const struct op_run *run = &batch->runs[segment->first + walk->seen];
    const bool is_input = side == SCRIPT_INPUT;

    if (segment->first + walk->seen == segment->end) {
        return false;
    }
    walk->seen++;
    walk->address = (uint64_t)(uintptr_t)(is_input ? run->input : run->output);
    walk->count = run->count;
    if (batch->collective == TUTTI_REDUCESCATTER) {
        walk->address += is_input ? run->sends[member].offset : 0;
        walk->count = run->sends[member].bytes / tutti_dtype_size(batch->dtype);
    } else if (batch->collective == TUTTI_ALLGATHER) {
        walk->address +=
                is_input ? run->sends[member].offset : run->recvs[member].offset;
        walk->count = run->recvs[member].bytes;
    }
    walk->begin = size_align(walk->end, SCRIPT_ALIGNMENT);
    walk->end = walk->begin + walk->count * tutti_dtype_size(segment->view->form->wire);
    return true;
}

struct script_part script_part_of(const struct script_segment *segment, int member)
{
    struct walk walk = { 0 };

    while (walk_on(segment, SCRIPT_INPUT, member, &walk)) {
    }
    return (struct script_part){ .first = member, .count = 1, .bytes = walk.end };
}

struct script_part script_own(const struct script_part *part, int member)
{
    return (struct script_part){ .first = member, .count = 1, .bytes = part->bytes };
}

bool script_part_of_all(const struct script_segment *segment, struct script_part *part)
{
    const bool has_gaps = segment->end > segment->first + 1;

    *part = script_part_of(segment, 0);
    part->count = segment->view->batch->set->size;
    for (int m = 1; m < part->count; m++) {
        if (script_part_of(segment, m).bytes != part->bytes) {
            return false;
        }
    }
    part->bytes = size_align(part->bytes, has_gaps ? SCRIPT_ALIGNMENT : 1);
    return true;
}

/* ------------------------------------------------------------------ in one place */

/** Ranges that were followed as far as they lie as a layout says. Begins zeroed. */
struct span {
    uint64_t base; /* address that offset 0 of the layout has              */
    uint64_t end; /* of the range before                                   */
    bool begun; /* there is a base */
    bool broken; /* a range lay elsewhere */
};

/* True when up to there is nothing of others. */
static bool is_free(
        const struct span *span, const struct script_view *view, uint64_t to)
{
    return to == span->end || view->is_padding(view->user, span->end, to - span->end);
}

static void span_add(struct span *span, const struct script_view *view,
        const struct walk *walk, size_t offset)
{
    const uint64_t address = walk->address;

    if (walk->count == 0 || span->broken) {
        return;
    }
    if (!span->begun) {
        span->begun = true;
        span->base = address - offset;
        span->end = address;
        span->broken = address < offset;
    }
    if (address != span->base + offset || address < span->end ||
            !is_free(span, view, address)) {
        span->broken = true;
    }
    span->end = address + walk->count * tutti_dtype_size(view->form->dtype);
}

/* A layout may end with empty runs, which begin on a boundary, too. */
bool script_lies(const struct script_segment *segment, enum script_side side,
        const struct script_part *part, struct script_place *place)
{
    const struct script_view *view = segment->view;
    const uint64_t bytes = (uint64_t)part->count * part->bytes;
    struct span span = { .broken = segment->packs || view->form->casts };

    for (int m = 0; m < part->count && !span.broken; m++) {
        const size_t offset = (size_t)m * part->bytes;
        struct walk walk = { 0 };

        while (walk_on(segment, side, part->first + m, &walk)) {
            span_add(&span, view, &walk, offset + walk.begin);
        }
    }
    if (!span.begun || span.broken ||
            (span.end < span.base + bytes &&
                    !is_free(&span, view, span.base + bytes))) {
        return false;
    }
    *place = (struct script_place){ .at = span.base };
    return true;
}

static void move(const struct script_segment *segment, enum script_side side,
        const struct script_part *part, struct script_place place)
{
    struct script *script = segment->script;

    for (int m = 0; m < part->count; m++) {
        const size_t offset = (size_t)m * part->bytes;
        struct walk walk = { 0 };

        while (walk_on(segment, side, part->first + m, &walk)) {
            add_piece(script,
                    side == SCRIPT_INPUT ? &script->gathers : &script->scatters,
                    &(struct script_piece){ .tensor = walk.address,
                            .packed = script_behind(place, offset + walk.begin),
                            .count = walk.count });
        }
    }
}

void script_pack(const struct script_segment *segment, const struct script_part *part,
        struct script_place to)
{
    move(segment, SCRIPT_INPUT, part, to);
}

void script_unpack(const struct script_segment *segment, const struct script_part *part,
        struct script_place from)
{
    move(segment, SCRIPT_OUTPUT, part, from);
}
