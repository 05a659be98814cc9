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

size_t script_align(size_t end)
{
    return size_align(end, SCRIPT_ALIGNMENT);
}

/* True where not all ranks can give NCCL a large run as it lies, or all of them one in the slab. */
static bool differs(const struct script_view *view, size_t run)
{
    return view->batch->runs[run].spot == OP_SPOT_MIXED ||
            (view->batch->collective == TUTTI_REDUCE && view->form->before != 1.0);
}

struct script_segment script_next(const struct script_view *view, size_t first,
        size_t (*bytes)(const struct script_view *view, size_t run))
{
    struct script_segment segment = { .first = first, .end = first + 1 };

    if (!view->kernels || bytes(view, first) >= SCRIPT_ALONE_BYTES) {
        segment.packs = view->registers && differs(view, first);
        return segment;
    }
    segment.packs = view->registers;
    while (segment.end < view->batch->run_count &&
            bytes(view, segment.end) < SCRIPT_ALONE_BYTES) {
        segment.end++;
    }
    return segment;
}

struct script_place script_slab(struct script *script, size_t bytes)
{
    const struct script_place place = { .at = script->slab_bytes, .in_slab = true };

    script->slab_bytes = script_align(script->slab_bytes + bytes);
    return place;
}

struct script_place script_at(const void *memory, size_t offset)
{
    return (struct script_place){ .at = (uint64_t)(uintptr_t)memory + offset };
}

struct script_place script_behind(struct script_place place, size_t bytes)
{
    return (struct script_place){ .at = place.at + bytes, .in_slab = place.in_slab };
}

void script_span_add(struct script_span *span, const struct script_view *view,
        const void *memory, size_t bytes, size_t offset)
{
    const uint64_t address = (uint64_t)(uintptr_t)memory;

    if (bytes == 0 || span->broken) {
        return;
    }
    if (!span->begun) {
        span->begun = true;
        span->base = address - offset;
        span->end = address;
        span->broken = address < offset;
    }
    if (address != span->base + offset || address < span->end) {
        span->broken = true;
        return;
    }
    if (address > span->end &&
            !view->is_padding(view->user, span->end, address - span->end)) {
        span->broken = true;
    }
    span->end = address + bytes;
}

void script_span_end(
        struct script_span *span, const struct script_view *view, size_t offset)
{
    if (script_span_holds(span) && span->end < span->base + offset &&
            !view->is_padding(view->user, span->end, span->base + offset - span->end)) {
        span->broken = true;
    }
}

bool script_span_holds(const struct script_span *span)
{
    return span->begun && !span->broken;
}

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

void script_gather(struct script *script, const void *tensor,
        struct script_place packed, size_t count)
{
    add_piece(script, &script->gathers,
            &(struct script_piece){ .tensor = (uint64_t)(uintptr_t)tensor,
                    .packed = packed,
                    .count = count });
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
