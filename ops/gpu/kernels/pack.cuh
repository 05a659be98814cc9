/*
 * Packing: the bodies of the kernels, as what one thread of one block does, so that nvcc
 * and a host compiler make the same of them. Threads do not depend on each other.
 *
 * What a block does with a chunk, for a destination that begins between two boundaries of
 * 16 bytes ('|'), and groups G of as many elements as make 16 bytes there:
 *
 *     destination   . |. . . .|. . . .|. . . .|. .
 *                   ^head     ^ groups         ^ tail
 *
 * Each thread takes every 256th group, several at a time: all loads of them are under way
 * before the first store. The source of a group lies where it lies: either on its own
 * boundaries, and is loaded in vectors; or not, and is then put together from the words of
 * 8 bytes on boundaries around it. A word that reaches beyond the end of the piece is not
 * read: such a group belongs to the tail. (One may begin before the piece: no memory is
 * allocated in less than such words.) Head and tail go element by element, and so does
 * everything where the destination is not even on boundaries of its elements.
 *
 * Source and destination may be the same memory where both sides have one type; otherwise
 * they must not overlap.
 */
#ifndef TUTTI_OPS_GPU_KERNELS_PACK_CUH
#define TUTTI_OPS_GPU_KERNELS_PACK_CUH

#include "ops/gpu/kernels/element.cuh"
#include "ops/gpu/kernels/kernels.h"

/* A store; a load of 8 bytes is one word. */
#define PACK_STORE_BYTES 16
#define PACK_WORD_BYTES 8

/* --------------------------------------------------------------------- what is done */

/*
 * An operation turns `count` elements into others; that number is a constant, and what is
 * equal for all elements and threads is asked once.
 */

/* Elements without arithmetic: bytes. */
struct pack_copy {
    typedef unsigned char in;
    typedef unsigned char out;

    KERNEL_MEMBER explicit pack_copy(const pack_header &)
    {
    }
    template <unsigned COUNT>
    KERNEL_MEMBER void apply(const unsigned char *from, unsigned char *to) const
    {
        memcpy(to, from, COUNT);
    }
};

/* Floats: out = cast(in / divisor * factor). A product with 1 changes nothing. */
template <class In, class Out> struct pack_convert {
    typedef In in;
    typedef Out out;
    typedef typename precision<In>::type value;

    value factor, divisor;
    bool divides;

    KERNEL_MEMBER explicit pack_convert(const pack_header &header)
        : factor((value)header.factor), divisor((value)header.divisor),
          divides((header.flags & PACK_DIVIDES) != 0)
    {
    }
    template <unsigned COUNT> KERNEL_MEMBER void apply(const In *from, Out *to) const
    {
        value x[COUNT];

        KERNEL_UNROLL
        for (unsigned i = 0; i < COUNT; i++) {
            x[i] = (value)widened(from[i]);
        }
        if (divides) {
            KERNEL_UNROLL
            for (unsigned i = 0; i < COUNT; i++) {
                x[i] = quotient_of(x[i], divisor);
            }
        }
        KERNEL_UNROLL
        for (unsigned i = 0; i < COUNT; i++) {
            narrow(product_of(x[i], factor), &to[i]);
        }
    }
};

/* ---------------------------------------------------------------------------- groups */

/* As many elements as make one store. */
template <class Op> struct pack_group {
    typedef typename Op::in in;
    typedef typename Op::out out;

    static const unsigned ELEMENTS = PACK_STORE_BYTES / sizeof(out);
    static const unsigned WORDS = ELEMENTS * sizeof(in) / PACK_WORD_BYTES;
    /* Groups of a thread under way at a time: at least 64 bytes. */
    static const unsigned AT_ONCE = WORDS <= 1 ? 8 : WORDS == 2 ? 4 : 2;

    uint64_t words[WORDS];

    /* From a boundary of 16 bytes, or of 8 where a group has no more. */
    KERNEL_MEMBER void load(const unsigned char *from)
    {
        if (WORDS == 1) {
            words[0] = load_once((const unsigned long long *)from);
        }
        KERNEL_UNROLL
        for (unsigned i = 0; i + 1 < WORDS; i += 2) {
            const vector16 vector = load_once((const vector16 *)(from + i * 8));

            words[i] = vector.x;
            words[i + 1] = vector.y;
        }
    }

    /* From anywhere. */
    KERNEL_MEMBER void gather(const unsigned char *from)
    {
        const unsigned over = (unsigned)((uintptr_t)from % PACK_WORD_BYTES);
        const uint64_t *around = (const uint64_t *)(from - over);

        KERNEL_UNROLL
        for (unsigned i = 0; i < WORDS; i++) {
            words[i] = around[i];
        }
        if (over != 0) {
            const uint64_t last = around[WORDS];

            KERNEL_UNROLL
            for (unsigned i = 0; i < WORDS; i++) {
                const uint64_t next = i + 1 < WORDS ? words[i + 1] : last;

                words[i] = words[i] >> (8 * over) | next << (64 - 8 * over);
            }
        }
    }

    KERNEL_MEMBER void store(unsigned char *to, const Op &op) const
    {
        in elements[ELEMENTS];
        union {
            vector16 vector;
            out elements[ELEMENTS];
        } result;

        memcpy(elements, words, sizeof elements);
        op.template apply<ELEMENTS>(elements, result.elements);
        *(vector16 *)to = result.vector;
    }
};

/* ---------------------------------------------------------------------------- chunks */

/* What a block does at a time, and who of its threads this is. */
struct pack_span {
    const unsigned char *from; /* the first element                            */
    unsigned char *to;
    uint32_t count; /* elements                                                */
    const unsigned char *end; /* of the source's piece: no word is read beyond     */
    uint32_t thread, threads;
};

/* Elements [first, end), one by one. */
template <class Op>
KERNEL_FN void pack_elements(
        const pack_span &span, const Op &op, uint32_t first, uint32_t end)
{
    typedef typename Op::in in;
    typedef typename Op::out out;

    for (uint32_t i = first + span.thread; i < end; i += span.threads) {
        const in element = load_element<in>(span.from + (size_t)i * sizeof(in));
        out result;

        op.template apply<1>(&element, &result);
        store_element(span.to + (size_t)i * sizeof(out), result);
    }
}

/* Some groups of a thread: group k, and the next ones at a distance, below `groups`. */
template <class Op>
KERNEL_FN void pack_load(pack_group<Op> *loaded, const unsigned char *from, uint32_t k,
        uint32_t apart, uint32_t groups)
{
    const uint32_t bytes = pack_group<Op>::WORDS * PACK_WORD_BYTES;
    const uint32_t boundary = bytes < 16 ? bytes : 16;

    if ((uintptr_t)from % boundary == 0) {
        KERNEL_UNROLL
        for (uint32_t u = 0; u < pack_group<Op>::AT_ONCE; u++) {
            if (k + u * apart < groups) {
                loaded[u].load(from + (size_t)(k + u * apart) * bytes);
            }
        }
    } else {
        KERNEL_UNROLL
        for (uint32_t u = 0; u < pack_group<Op>::AT_ONCE; u++) {
            if (k + u * apart < groups) {
                loaded[u].gather(from + (size_t)(k + u * apart) * bytes);
            }
        }
    }
}

/* All groups, the first of which begins with element `first`. */
template <class Op>
KERNEL_FN void pack_groups(
        const pack_span &span, const Op &op, uint32_t first, uint32_t groups)
{
    typedef pack_group<Op> group;
    const unsigned char *from = span.from + (size_t)first * sizeof(typename Op::in);
    unsigned char *to = span.to + (size_t)first * sizeof(typename Op::out);

    for (uint32_t k = span.thread; k < groups; k += group::AT_ONCE * span.threads) {
        group loaded[group::AT_ONCE];

        pack_load(loaded, from, k, span.threads, groups);
        KERNEL_UNROLL
        for (uint32_t u = 0; u < group::AT_ONCE; u++) {
            const uint32_t at = k + u * span.threads;

            if (at < groups) {
                loaded[u].store(to + (size_t)at * PACK_STORE_BYTES, op);
            }
        }
    }
}

/* Elements up to the first group, where the destination is on its boundary. */
template <class Op> KERNEL_FN uint32_t pack_head(const pack_span &span)
{
    const uint32_t out_bytes = sizeof(typename Op::out);
    const uint32_t over = (uint32_t)((uintptr_t)span.to % PACK_STORE_BYTES);
    const uint32_t head = over == 0 ? 0 : (PACK_STORE_BYTES - over) / out_bytes;

    if (over % out_bytes != 0) {
        return span.count; /* no element ever begins on a boundary */
    }
    return head < span.count ? head : span.count;
}

/* Whole groups from element `first` on of which all words are readable. */
template <class Op> KERNEL_FN uint32_t pack_whole(const pack_span &span, uint32_t first)
{
    const uint32_t groups = (span.count - first) / pack_group<Op>::ELEMENTS;
    const unsigned char *last = span.from +
            ((size_t)first + (size_t)groups * pack_group<Op>::ELEMENTS) *
                    sizeof(typename Op::in);
    const size_t over = (uintptr_t)last % PACK_WORD_BYTES;
    const size_t beyond = over == 0 ? 0 : PACK_WORD_BYTES - over;

    return groups > 0 && (size_t)(span.end - last) < beyond ? groups - 1 : groups;
}

template <class Op> KERNEL_FN void pack_chunk(const pack_span &span, const Op &op)
{
    const uint32_t head = pack_head<Op>(span);
    const uint32_t groups = pack_whole<Op>(span, head);

    pack_groups(span, op, head, groups);
    pack_elements(span, op, 0, head);
    pack_elements(span, op, head + groups * pack_group<Op>::ELEMENTS, span.count);
}

/* ---------------------------------------------------------------------------- pieces */

/* The last piece that begins at or before a chunk. */
KERNEL_FN const pack_piece &pack_find(
        const pack_header &header, const pack_piece *pieces, uint32_t chunk)
{
    uint32_t low = 0;
    uint32_t high = header.piece_count;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;

        if (pieces[middle].first_chunk <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return pieces[low];
}

/* A chunk of a piece, in elements of the two sides. */
KERNEL_FN pack_span pack_span_of(
        const pack_header &header, const pack_piece &piece, uint32_t chunk)
{
    const bool scatters = (header.flags & PACK_SCATTERS) != 0;
    const uint64_t first =
            (uint64_t)(chunk - piece.first_chunk) * header.chunk_elements;
    const uint64_t rest = piece.count - first;
    const uint64_t packed = header.packed + piece.packed;
    const uint64_t from = scatters ? packed : piece.tensor;
    const uint64_t to = scatters ? piece.tensor : packed;
    const unsigned in_bytes = scatters ? header.packed_bytes : header.tensor_bytes;
    const unsigned out_bytes = scatters ? header.tensor_bytes : header.packed_bytes;
    pack_span span;

    span.from = global_memory<const unsigned char>(from + first * in_bytes);
    span.to = global_memory<unsigned char>(to + first * out_bytes);
    span.count = rest < header.chunk_elements ? (uint32_t)rest : header.chunk_elements;
    span.end = (const unsigned char *)(uintptr_t)(from + piece.count * in_bytes);
    return span;
}

/* ---------------------------------------------------------------------------- bodies */

/* Which thread this is. */
struct kernel_place {
    uint32_t block, blocks;
    uint32_t thread, threads;
};

/* One thread of a copy or a conversion. */
template <class Op>
KERNEL_FN void pack_thread(
        const pack_header &header, const pack_piece *pieces, const kernel_place place)
{
    const Op op(header);
    /* A copy counts in bytes. */
    const uint32_t unit = sizeof(typename Op::in) == 1 ? header.tensor_bytes : 1;

    for (uint64_t chunk = place.block; chunk < header.chunk_count;
            chunk += place.blocks) {
        pack_span span = pack_span_of(
                header, pack_find(header, pieces, (uint32_t)chunk), (uint32_t)chunk);

        span.count *= unit;
        span.thread = place.thread;
        span.threads = place.threads;
        pack_chunk(span, op);
    }
}

#endif
