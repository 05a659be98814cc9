/*
 * Packing of integers that are widened, narrowed, divided or made proper booleans: for
 * averages, and for types that NCCL does not have. Element by element; neighbouring
 * threads take neighbouring elements.
 */
#ifndef TUTTI_OPS_GPU_KERNELS_INTEGER_CUH
#define TUTTI_OPS_GPU_KERNELS_INTEGER_CUH

#include "ops/gpu/kernels/pack.cuh"

/* Elements of a thread under way at a time. */
#define INTEGER_AT_ONCE 4

/* An integer of 1, 2, 4 or 8 bytes, widened to 64 bits. */
KERNEL_FN uint64_t load_integer(
        const unsigned char *from, uint32_t bytes, bool is_signed)
{
    uint64_t value = 0;

    if (bytes == 1) {
        value = *from;
    } else if (bytes == 2) {
        value = load_element<uint16_t>(from);
    } else if (bytes == 4) {
        value = load_element<uint32_t>(from);
    } else {
        value = load_element<uint64_t>(from);
    }
    if (is_signed) {
        const unsigned unused = 64 - 8 * bytes;

        value = (uint64_t)((int64_t)(value << unused) >> unused);
    }
    return value;
}

/* The lower bytes of it. */
KERNEL_FN void store_integer(unsigned char *to, uint32_t bytes, uint64_t value)
{
    if (bytes == 1) {
        *to = (unsigned char)value;
    } else if (bytes == 2) {
        store_element(to, (uint16_t)value);
    } else if (bytes == 4) {
        store_element(to, (uint32_t)value);
    } else {
        store_element(to, value);
    }
}

/* Divides toward zero; a bool is 1 for any value but 0. */
KERNEL_FN uint64_t convert_integer(const pack_header &header, uint64_t value)
{
    if ((header.flags & PACK_DIVIDES) != 0) {
        value = (header.flags & PACK_SIGNED) != 0
                ? (uint64_t)((int64_t)value / header.divisor)
                : value / (uint64_t)header.divisor;
    }
    if ((header.flags & PACK_BOOL) != 0) {
        value = value != 0;
    }
    return value;
}

KERNEL_FN void integer_chunk(const pack_header &header, const pack_span &span)
{
    const bool scatters = (header.flags & PACK_SCATTERS) != 0;
    const bool is_signed = (header.flags & PACK_SIGNED) != 0;
    const uint32_t in_bytes = scatters ? header.packed_bytes : header.tensor_bytes;
    const uint32_t out_bytes = scatters ? header.tensor_bytes : header.packed_bytes;

    for (uint32_t i = span.thread; i < span.count;
            i += INTEGER_AT_ONCE * span.threads) {
        uint64_t values[INTEGER_AT_ONCE];

        KERNEL_UNROLL
        for (uint32_t u = 0; u < INTEGER_AT_ONCE; u++) {
            const uint32_t k = i + u * span.threads;

            if (k < span.count) {
                values[u] = load_integer(
                        span.from + (size_t)k * in_bytes, in_bytes, is_signed);
            }
        }
        KERNEL_UNROLL
        for (uint32_t u = 0; u < INTEGER_AT_ONCE; u++) {
            const uint32_t k = i + u * span.threads;

            if (k < span.count) {
                store_integer(span.to + (size_t)k * out_bytes, out_bytes,
                        convert_integer(header, values[u]));
            }
        }
    }
}

/* One thread. */
KERNEL_FN void integer_thread(
        const pack_header &header, const pack_piece *pieces, const kernel_place place)
{
    for (uint64_t chunk = place.block; chunk < header.chunk_count;
            chunk += place.blocks) {
        pack_span span = pack_span_of(
                header, pack_find(header, pieces, (uint32_t)chunk), (uint32_t)chunk);

        span.thread = place.thread;
        span.threads = place.threads;
        integer_chunk(header, span);
    }
}

#endif
