/*
 * The pieces of a stretch of memory.
 */
#include "ops/gpu/pieces.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

bool pieces_init(struct pieces *pieces, size_t bytes)
{
    *pieces = (struct pieces){ .count = 0 };
    if (!mem_grow(&pieces->list, &pieces->capacity, 1, sizeof *pieces->list)) {
        return false;
    }
    pieces->list[0] = (struct piece){ .bytes = bytes, .state = PIECE_FREE };
    pieces->count = 1;
    return true;
}

void pieces_fini(struct pieces *pieces)
{
    mem_free(pieces->list);
    *pieces = (struct pieces){ .count = 0 };
}

static struct piece *find_room(struct pieces *pieces, size_t bytes)
{
    for (size_t i = 0; i < pieces->count; i++) {
        struct piece *piece = &pieces->list[i];

        if (piece->state == PIECE_FREE && piece->bytes >= bytes) {
            return piece;
        }
    }
    return NULL;
}

bool pieces_take(struct pieces *pieces, size_t bytes, size_t *offset)
{
    const size_t size = size_align(size_max(bytes, 1), PIECE_ALIGNMENT);
    struct piece *piece;

    /* First, so that pointers into the list stay; the sum of a wrap-around is small. */
    if (size < bytes ||
            !mem_grow(&pieces->list, &pieces->capacity, pieces->count + 1,
                    sizeof *pieces->list)) {
        return false;
    }
    piece = find_room(pieces, size);
    if (piece == NULL) {
        return false;
    }
    if (piece->bytes > size) {
        const size_t behind = pieces->count - (size_t)(piece - pieces->list) - 1;

        memmove(piece + 2, piece + 1, behind * sizeof *piece);
        piece[1] = (struct piece){ .offset = piece->offset + size,
            .bytes = piece->bytes - size,
            .state = PIECE_FREE };
        pieces->count++;
        piece->bytes = size;
    }
    piece->asked = bytes;
    piece->state = PIECE_USED;
    *offset = piece->offset;
    return true;
}

struct piece *pieces_at(const struct pieces *pieces, size_t offset)
{
    size_t low = 0;
    size_t high = pieces->count;

    /* The last one that begins at or before it. */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (pieces->list[middle].offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &pieces->list[low];
}

void pieces_turn(struct pieces *pieces, enum piece_state from, enum piece_state to)
{
    size_t kept = 0;

    for (size_t i = 0; i < pieces->count; i++) {
        struct piece piece = pieces->list[i];
        struct piece *last = kept > 0 ? &pieces->list[kept - 1] : NULL;

        piece.state = piece.state == from ? to : piece.state;
        if (last != NULL && last->state == PIECE_FREE && piece.state == PIECE_FREE) {
            last->bytes += piece.bytes;
        } else {
            pieces->list[kept++] = piece;
        }
    }
    pieces->count = kept;
}
