/*
 * LightGBM's two collectives over tutti: a shared object with the functions that
 * LGBM_NetworkInitWithFunctions() takes. It needs no headers of LightGBM. Errors are
 * exceptions, which LightGBM catches: its call that trained fails with the text of tutti.
 */
#include <cstdint>
#include <cstring>
#include <vector>

#include <tutti/tutti.hpp>

namespace
{

/* LightGBM's comm_size_t, and its ReduceFunction: output := output + input, for the "+" of
 * the caller; size is in bytes. */
using comm_size = std::int32_t;
using reduce_function = void (*)(
        const char *input, char *output, int element_bytes, comm_size size);

/* One for each thread, as LightGBM's network is. */
thread_local tutti *job;
thread_local std::vector<char> parts; /* of the ranks, before they are reduced */

} // namespace

extern "C" {

/** Says over which context this thread's collectives run. */
void lightgbm_network_use(tutti *t)
{
    job = t;
}

/**
 * LightGBM's ReduceScatterFunction: block r of the input, which begins at start[r], is
 * reduced into rank r's output. The reducers are LightGBM's own, so the blocks are
 * exchanged, and then reduced here: in the order of the ranks, so that results do not depend
 * on who came first. Blocks follow each other without gaps, as in all of LightGBM's calls.
 */
void lightgbm_reduce_scatter(char *input, comm_size input_size, int element_bytes,
        const comm_size *start, const comm_size *size, int ranks, char *output,
        comm_size output_size, const reduce_function &reduce)
{
    const auto own = static_cast<std::size_t>(size[tutti_rank(job)]);
    const auto count = static_cast<std::size_t>(ranks);
    const std::vector<std::int64_t> sent(size, size + ranks);
    const std::vector<std::int64_t> received(count, size[tutti_rank(job)]);

    (void)output_size;
    parts.resize(own * count + 1); /* never without memory */
    tuttipp::check(tutti_alltoall(job, "lightgbm.reduce_scatter", input + start[0],
            parts.data(), input_size, 1, sent.data(), received.data(), TUTTI_UINT8,
            nullptr));
    for (std::size_t rank = 1; rank < count; rank++) {
        reduce(&parts[rank * own], parts.data(), element_bytes,
                static_cast<comm_size>(own));
    }
    std::memcpy(output, parts.data(), own);
}

/**
 * LightGBM's AllgatherFunction: the input becomes block r, for rank r, of every rank's
 * output. The input may lie anywhere in the output.
 */
void lightgbm_allgather(char *input, comm_size input_size, const comm_size *start,
        const comm_size *size, int ranks, char *output, comm_size output_size)
{
    const std::vector<std::int64_t> rows_of(size, size + ranks);
    char *own = output + start[tutti_rank(job)];

    (void)output_size;
    std::memmove(own, input, static_cast<std::size_t>(input_size));
    tuttipp::check(tutti_allgather(job, "lightgbm.allgather", own, output, input_size,
            1, rows_of.data(), TUTTI_UINT8, nullptr));
}

} // extern "C"
