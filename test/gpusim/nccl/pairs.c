/*
 * Sends and receives of a group: all at once, each in pieces through a small ring of shared
 * memory. Those to, or from, one rank match in their order. A send ends when the receiver has
 * taken all of it, so that what is not matched hangs, as on a GPU.
 */
#include <stdio.h>

#include "base/mem.h"
#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/launch.h"
#include "test/gpusim/nccl/reduce.h"

/* One send or receive. */
struct transfer {
    const struct call *call;
    uint64_t bytes;
    uint64_t moved; /* written or read                                  */
    uint64_t pieces; /* likewise; a message of no bytes has one piece    */
    uint64_t last; /* a send: pieces written to the rank when it ended */
    bool done;
};

/* Puts pieces where there is room. True: something happened. */
static bool send_some(struct launch *launch, struct transfer *transfer)
{
    const struct segment *segment = &launch->comm->segment;
    int to = transfer->call->root;
    struct segment_pair *pair = segment_pair(segment, segment->rank, to);
    uint64_t written = atomic_load(&pair->written);
    uint64_t start = written;
    size_t length;

    while ((transfer->moved < transfer->bytes || transfer->pieces == 0) &&
            written - atomic_load(&pair->read) < SEGMENT_PAIR_DEPTH) {
        length = size_min(transfer->bytes - transfer->moved, SEGMENT_PAIR_BYTES);
        gpusim_copy_out(segment_piece(segment, segment->rank, to, written),
                transfer->call->input + transfer->moved, length);
        pair->pieces[written % SEGMENT_PAIR_DEPTH].bytes = transfer->bytes;
        pair->pieces[written % SEGMENT_PAIR_DEPTH].length = length;
        pair->pieces[written % SEGMENT_PAIR_DEPTH].type = transfer->call->type;
        pair->pieces[written % SEGMENT_PAIR_DEPTH].registered =
                transfer->call->input_place != 0;
        transfer->moved += length;
        transfer->pieces++;
        atomic_store(&pair->written, ++written);
        transfer->last = written;
    }
    transfer->done = transfer->moved == transfer->bytes && transfer->pieces != 0 &&
            atomic_load(&pair->read) >= transfer->last;
    if (written != start) {
        segment_ring(segment, to);
    }
    return written != start || transfer->done;
}

/* Takes the pieces that are there, which must be of the length. True: something happened. */
static bool receive_some(struct launch *launch, struct transfer *transfer)
{
    const struct segment *segment = &launch->comm->segment;
    int from = transfer->call->root;
    struct segment_pair *pair = segment_pair(segment, from, segment->rank);
    uint64_t read = atomic_load(&pair->read);
    uint64_t start = read;
    uint64_t place;

    while (!transfer->done && read < atomic_load(&pair->written)) {
        place = read % SEGMENT_PAIR_DEPTH;
        if (pair->pieces[place].bytes != transfer->bytes ||
                pair->pieces[place].type != transfer->call->type) {
            comm_report_fatal(
                    "MISMATCH in communicator %04llx: rank %d receives %llu bytes "
                    "of %s, rank %d sends %llu of %s",
                    (unsigned long long)launch->comm->number, segment->rank,
                    (unsigned long long)transfer->bytes,
                    reduce_type_name(transfer->call->type), from,
                    (unsigned long long)pair->pieces[place].bytes,
                    reduce_type_name((nccl_dtype)pair->pieces[place].type));
        }
        if (pair->pieces[place].registered != (transfer->call->output_place != 0)) {
            comm_report_fatal("MISMATCH in communicator %04llx: of a message from rank "
                              "%d to rank "
                              "%d only one side is registered memory",
                    (unsigned long long)launch->comm->number, from, segment->rank);
        }
        gpusim_copy_in(transfer->call->output + transfer->moved,
                segment_piece(segment, from, segment->rank, read),
                pair->pieces[place].length);
        transfer->moved += pair->pieces[place].length;
        transfer->done = transfer->moved == transfer->bytes;
        atomic_store(&pair->read, ++read);
    }
    if (read != start) {
        segment_ring(segment, from);
    }
    return read != start;
}

/* Moves what can be moved. True: something happened. */
static bool move_some(struct launch *launch, struct transfer *transfers, size_t count)
{
    uint64_t busy[2] = { 0, 0 }; /* ranks with an earlier send, or receive, under way */
    bool moved = false;
    struct transfer *transfer;
    uint64_t peer;
    bool sends;

    for (transfer = transfers; transfer != transfers + count; transfer++) {
        if (transfer->done) {
            continue;
        }
        sends = transfer->call->function == FUNCTION_SEND;
        peer = UINT64_C(1) << transfer->call->root;
        if ((busy[sends] & peer) != 0) {
            continue;
        }
        moved |= sends ? send_some(launch, transfer) : receive_some(launch, transfer);
        if (!transfer->done) {
            busy[sends] |= peer;
        }
    }
    return moved;
}

/* The first transfer that is not done; NULL: none. */
static const struct transfer *unfinished(const struct transfer *transfers, size_t count)
{
    const struct transfer *transfer = transfers;

    while (transfer != transfers + count && transfer->done) {
        transfer++;
    }
    return transfer == transfers + count ? NULL : transfer;
}

static bool move_all(struct launch *launch, struct transfer *transfers, size_t count)
{
    const struct transfer *waiting;
    uint32_t seen;

    launch->patience = (struct patience){ .since = 0 };
    for (;;) {
        seen = segment_bell(&launch->comm->segment);
        if (move_some(launch, transfers, count)) {
            launch->patience = (struct patience){ .since = 0 };
            continue;
        }
        waiting = unfinished(transfers, count);
        if (waiting == NULL) {
            return true;
        }
        if (!launch_pause(
                    launch, seen, waiting->call, UINT64_C(1) << waiting->call->root)) {
            return false;
        }
    }
}

bool pairs_run(struct launch *launch)
{
    struct transfer *transfers = must(mem_calloc(launch->count, sizeof *transfers));
    size_t count = 0;
    bool done;
    size_t i;

    for (i = 0; i < launch->count; i++) {
        if (function_is_pair(launch->calls[i].function)) {
            transfers[count].call = &launch->calls[i];
            transfers[count].bytes =
                    launch->calls[i].count * reduce_type_bytes(launch->calls[i].type);
            count++;
        }
    }
    done = transfers != NULL && move_all(launch, transfers, count);
    mem_free(transfers);
    return done;
}
