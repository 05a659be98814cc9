/*
 * From the arguments of MPI's collectives to batches.
 */
#include "preload/collectives.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "preload/datatypes.h"
#include "preload/team.h"

/* ----------------------------------------------------------------- decisions */

/** The ranks of a communicator; 0 where MPI would refuse it. */
static int ranks_of(MPI_Comm comm)
{
    int ranks = 0;

    if (comm == MPI_COMM_NULL || PMPI_Comm_size(comm, &ranks) != MPI_SUCCESS) {
        return 0;
    }
    return ranks;
}

/** True when the collective may be tutti's in some communicator. */
static bool is_long(const struct call *call)
{
    return call->preload->active && call->bytes <= INT_MAX &&
            call->bytes >= call->preload->limits[call->which].least;
}

static struct team *team_of(const struct call *call, MPI_Comm comm)
{
    return team_for(
            call->preload, comm, &call->preload->limits[call->which], call->bytes);
}

/** True for memory that can be read or written as it is. */
static bool is_memory(const void *buffer)
{
    return buffer != MPI_BOTTOM && buffer != MPI_IN_PLACE;
}

/* ---------------------------------------------------------------- reductions */

/** Begins a batch, if tutti has the kernels for it and the buffers are as MPI wants them. */
static bool reduction_batch(struct op_batch *batch, struct op_run *run,
        const struct call *call, const struct reduction *reduction)
{
    if (!is_long(call) ||
            !datatype_reduction(
                    reduction->type, reduction->op, &batch->dtype, &batch->op)) {
        return false;
    }
    run->input =
            reduction->input == MPI_IN_PLACE ? reduction->output : reduction->input;
    run->output = reduction->output;
    run->count = call->bytes / tutti_dtype_size(batch->dtype);
    batch->runs = run;
    batch->count = run->count;
    return is_memory(run->input);
}

/** Two names for one buffer: MPI refuses that. */
static bool is_aliased(const struct reduction *reduction)
{
    return reduction->input == reduction->output;
}

bool collective_allreduce(
        struct call *call, const struct reduction *reduction, int count, MPI_Comm comm)
{
    struct op_run run = { 0 };
    struct op_batch batch = { .collective = TUTTI_ALLREDUCE };
    struct team *team;

    call->bytes = datatype_bytes(count, reduction->type);
    if (!reduction_batch(&batch, &run, call, reduction) || is_aliased(reduction) ||
            !is_memory(run.output) || (team = team_of(call, comm)) == NULL) {
        return false;
    }
    call->result = team_run(team, &batch);
    return true;
}

bool collective_reduce(struct call *call, const struct reduction *reduction, int count,
        int root, MPI_Comm comm)
{
    struct op_run run = { 0 };
    struct op_batch batch = { .collective = TUTTI_REDUCE, .root = root };
    struct team *team;

    call->bytes = datatype_bytes(count, reduction->type);
    if (!reduction_batch(&batch, &run, call, reduction) ||
            (team = team_of(call, comm)) == NULL || root < 0 || root >= team->ranks) {
        return false;
    }
    if (team->rank == root ? is_aliased(reduction) || !is_memory(run.output)
                           : reduction->input == MPI_IN_PLACE) {
        return false;
    }
    run.output = team->rank == root ? run.output : NULL;
    call->result = team_run(team, &batch);
    return true;
}

/** What stands in the way of a collective that other ranks carry out: memory, or MPI's no. */
static bool give_up(struct call *call, int error, MPI_Comm comm)
{
    if (error != MPI_ERR_NO_MEM) {
        return false; /* MPI finds it again, and says it in its own name */
    }
    (void)PMPI_Comm_call_errhandler(comm, error);
    call->result = error;
    return true;
}

/**
 * The parts of the ranks are in team->sends. In place the result belongs in front, where a part
 * lies that another rank still reads, and the rest must stay as it is: it comes to other memory.
 */
static bool reduce_scatter(struct call *call, struct team *team,
        const struct reduction *reduction, struct op_batch *batch, struct op_run *run)
{
    const struct op_part *mine = &team->sends[team->rank];
    char *memory = NULL;

    if (is_aliased(reduction) || (mine->bytes > 0 && !is_memory(run->output))) {
        return false;
    }
    if (reduction->input == MPI_IN_PLACE && mine->offset > 0) {
        memory = mem_alloc(mine->bytes);
        if (memory == NULL) {
            return give_up(call, MPI_ERR_NO_MEM, team->comm);
        }
        run->output = memory;
    }
    run->sends = team->sends;
    call->result = team_run(team, batch);
    if (memory != NULL && call->result == MPI_SUCCESS) {
        memcpy(reduction->output, memory, mine->bytes);
    }
    mem_free(memory);
    return true;
}

bool collective_reduce_scatter(struct call *call, const struct reduction *reduction,
        const int *counts, MPI_Comm comm)
{
    const size_t element = datatype_bytes(1, reduction->type);
    const int ranks = counts != NULL ? ranks_of(comm) : 0;
    struct op_run run = { 0 };
    struct op_batch batch = { .collective = TUTTI_REDUCESCATTER };
    struct team *team;
    size_t at = 0;

    for (int i = 0; i < ranks; i++) {
        if (counts[i] < 0) {
            return false;
        }
        call->bytes += (size_t)counts[i] * element;
    }
    if (!reduction_batch(&batch, &run, call, reduction) ||
            (team = team_of(call, comm)) == NULL) {
        return false;
    }
    for (int i = 0; i < ranks; i++) {
        team->sends[i] =
                (struct op_part){ .offset = at, .bytes = (size_t)counts[i] * element };
        at += team->sends[i].bytes;
    }
    return reduce_scatter(call, team, reduction, &batch, &run);
}

bool collective_reduce_scatter_block(
        struct call *call, const struct reduction *reduction, int count, MPI_Comm comm)
{
    const size_t bytes = datatype_bytes(count, reduction->type);
    struct op_run run = { 0 };
    struct op_batch batch = { .collective = TUTTI_REDUCESCATTER };
    struct team *team;

    call->bytes = bytes * (size_t)ranks_of(comm);
    if (!reduction_batch(&batch, &run, call, reduction) ||
            (team = team_of(call, comm)) == NULL) {
        return false;
    }
    for (int i = 0; i < team->ranks; i++) {
        team->sends[i] =
                (struct op_part){ .offset = (size_t)i * bytes, .bytes = bytes };
    }
    return reduce_scatter(call, team, reduction, &batch, &run);
}

/* ---------------------------------------------------------------- any layout */

/** Elements as bytes in one piece. */
struct piece {
    const char *bytes; /* where they lie already, or in memory */
    char *memory; /* room for a copy in the order of the signature; owned; NULL: not needed */
};

/** The elements that are sent. @return MPI_SUCCESS, or an error: then the piece holds nothing */
static int piece_read(
        struct piece *piece, const struct elements *from, size_t bytes, MPI_Comm comm)
{
    int result;

    *piece = (struct piece){ .bytes = from->buffer };
    if (datatype_is_plain(from->type)) {
        return is_memory(from->buffer) ? MPI_SUCCESS : MPI_ERR_BUFFER;
    }
    piece->memory = mem_alloc(bytes);
    piece->bytes = piece->memory;
    result = piece->memory == NULL ? MPI_ERR_NO_MEM
                                   : datatype_pack(from, piece->memory, bytes, comm);
    if (result != MPI_SUCCESS) {
        mem_free(piece->memory);
        piece->memory = NULL;
    }
    return result;
}

static bool bcast_send(struct call *call, struct team *team, struct op_batch *batch,
        const struct elements *elements)
{
    struct op_run run = { .count = call->bytes };
    struct piece piece;
    const int error = piece_read(&piece, elements, call->bytes, team->comm);

    if (error != MPI_SUCCESS) {
        return give_up(call, error, team->comm);
    }
    run.input = piece.bytes;
    batch->runs = &run;
    call->result = team_run(team, batch);
    mem_free(piece.memory);
    return true;
}

static bool bcast_receive(struct call *call, struct team *team, struct op_batch *batch,
        const struct elements *elements)
{
    const bool is_plain = datatype_is_plain(elements->type);
    char *memory = is_plain ? NULL : mem_alloc(call->bytes);
    const struct op_run run = { .output = is_plain ? elements->buffer : memory,
        .count = call->bytes };

    if (!is_memory(run.output)) {
        return give_up(call, is_plain ? MPI_ERR_BUFFER : MPI_ERR_NO_MEM, team->comm);
    }
    batch->runs = &run;
    call->result = team_run(team, batch);
    if (!is_plain && call->result == MPI_SUCCESS) {
        call->result = datatype_unpack(memory, call->bytes, elements, team->comm);
    }
    mem_free(memory);
    return true;
}

bool collective_bcast(
        struct call *call, const struct elements *elements, int root, MPI_Comm comm)
{
    struct op_batch batch = {
        .collective = TUTTI_BROADCAST, .dtype = TUTTI_UINT8, .root = root
    };
    struct team *team;

    call->bytes = datatype_bytes(elements->count, elements->type);
    batch.count = call->bytes;
    if (!is_long(call) || (team = team_of(call, comm)) == NULL || root < 0 ||
            root >= team->ranks) {
        return false;
    }
    return team->rank == root ? bcast_send(call, team, &batch, elements)
                              : bcast_receive(call, team, &batch, elements);
}

/* ----------------------------------------------------------------- exchanges */

/** Where what comes from each rank goes to. */
struct landing {
    struct elements
            each; /* from each rank, one behind the other, where there are no counts */
    const int *counts, *places; /* [ranks] in elements, or NULL */
    bool is_plain; /* what comes is written where it belongs */
    char *memory; /* else: room for all of it, packed; owned */
    char *base; /* what the offsets of team->recvs count from */
};

/** Bytes from the beginning of the buffer to what comes from a rank. */
static MPI_Aint landing_offset(const struct landing *landing, int rank)
{
    const MPI_Aint place = landing->places != NULL
            ? (MPI_Aint)landing->places[rank]
            : (MPI_Aint)rank * landing->each.count;

    return place * datatype_extent(landing->each.type);
}

/** What comes from a rank, where the application wants it. */
static struct elements landing_part(const struct landing *landing, int rank)
{
    struct elements part = landing->each;

    part.buffer = (char *)landing->each.buffer + landing_offset(landing, rank);
    part.count = landing->counts != NULL ? landing->counts[rank] : landing->each.count;
    return part;
}

/** Fills team->recvs. @return MPI_SUCCESS, MPI_ERR_BUFFER, MPI_ERR_NO_MEM */
static int landing_open(
        struct landing *landing, const struct call *call, const struct team *team)
{
    MPI_Aint low = 0; /* places may be negative */
    size_t at = 0;

    landing->is_plain = datatype_is_plain(landing->each.type);
    if (landing->is_plain && !is_memory(landing->each.buffer)) {
        return MPI_ERR_BUFFER;
    }
    for (int i = 0; i < team->ranks && landing->is_plain; i++) {
        const MPI_Aint offset = landing_offset(landing, i);

        low = offset < low ? offset : low;
    }
    landing->memory = landing->is_plain ? NULL : mem_alloc(call->bytes);
    landing->base =
            landing->is_plain ? (char *)landing->each.buffer + low : landing->memory;
    if (landing->base == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < team->ranks; i++) {
        struct op_part *part = &team->recvs[i];

        part->bytes =
                datatype_bytes(landing_part(landing, i).count, landing->each.type);
        part->offset =
                landing->is_plain ? (size_t)(landing_offset(landing, i) - low) : at;
        at += part->bytes;
    }
    return MPI_SUCCESS;
}

/** Puts what has come where it belongs. */
static int landing_close(struct landing *landing, const struct team *team, int result)
{
    for (int i = 0; i < team->ranks && !landing->is_plain && result == MPI_SUCCESS;
            i++) {
        const struct op_part *part = &team->recvs[i];
        const struct elements elements = landing_part(landing, i);

        if (part->bytes > 0) {
            result = datatype_unpack(
                    landing->memory + part->offset, part->bytes, &elements, team->comm);
        }
    }
    mem_free(landing->memory);
    return result;
}

/** What this rank gives to an allgather, where it lies already: as part of its results. */
static int own_part(
        struct piece *piece, const struct landing *landing, const struct team *team)
{
    const struct op_part *part = &team->recvs[team->rank];
    const struct elements elements = landing_part(landing, team->rank);

    *piece = (struct piece){ .bytes = landing->base + part->offset };
    if (landing->is_plain || part->bytes == 0) {
        return MPI_SUCCESS;
    }
    return datatype_pack(
            &elements, landing->memory + part->offset, part->bytes, team->comm);
}

static bool exchange(struct call *call, struct team *team, struct op_batch *batch,
        const struct piece *input, struct landing *landing)
{
    const struct op_run run = { .input = input->bytes,
        .output = landing->base,
        .sends = team->sends,
        .recvs = team->recvs };

    batch->dtype = TUTTI_UINT8;
    batch->runs = &run;
    call->result = team_run(team, batch);
    mem_free(input->memory);
    call->result = landing_close(landing, team, call->result);
    return true;
}

static bool gather(struct call *call, struct team *team, const struct elements *input,
        struct landing *landing)
{
    struct op_batch batch = { .collective = TUTTI_ALLGATHER };
    struct piece piece = { 0 };
    size_t mine = 0;
    int error = landing_open(landing, call, team);

    if (error == MPI_SUCCESS) {
        mine = team->recvs[team->rank].bytes;
        if (input->buffer == MPI_IN_PLACE) {
            error = own_part(&piece, landing, team);
        } else if (datatype_bytes(input->count, input->type) != mine) {
            error = MPI_ERR_COUNT;
        } else if (mine > 0) {
            error = piece_read(&piece, input, mine, team->comm);
        }
    }
    if (error != MPI_SUCCESS) {
        mem_free(landing->memory);
        return give_up(call, error, team->comm);
    }
    for (int i = 0; i < team->ranks; i++) {
        team->sends[i] = (struct op_part){ .bytes = mine };
    }
    return exchange(call, team, &batch, &piece, landing);
}

bool collective_allgather(struct call *call, const struct elements *input,
        const struct elements *output, MPI_Comm comm)
{
    struct landing landing = { .each = *output };
    struct team *team;

    call->bytes = datatype_bytes(output->count, output->type) * (size_t)ranks_of(comm);
    if (!is_long(call) || (team = team_of(call, comm)) == NULL) {
        return false;
    }
    return gather(call, team, input, &landing);
}

bool collective_allgatherv(struct call *call, const struct elements *input,
        void *output, const int *counts, const int *places, MPI_Datatype type,
        MPI_Comm comm)
{
    const size_t element = datatype_bytes(1, type);
    const int ranks = counts != NULL && places != NULL ? ranks_of(comm) : 0;
    struct landing landing = {
        .each = { .buffer = output, .type = type }, .counts = counts, .places = places
    };
    struct team *team;

    for (int i = 0; i < ranks; i++) {
        if (counts[i] < 0) {
            return false;
        }
        call->bytes += (size_t)counts[i] * element;
    }
    if (!is_long(call) || (team = team_of(call, comm)) == NULL) {
        return false;
    }
    return gather(call, team, input, &landing);
}

bool collective_alltoall(struct call *call, const struct elements *input,
        const struct elements *output, MPI_Comm comm)
{
    const size_t bytes = datatype_bytes(output->count, output->type);
    struct op_batch batch = { .collective = TUTTI_ALLTOALL };
    struct landing landing = { .each = *output };
    struct elements all = *input;
    struct piece piece = { 0 };
    struct team *team;
    int error;

    call->bytes = bytes * (size_t)ranks_of(comm);
    if (!is_long(call) || input->buffer == MPI_IN_PLACE ||
            (team = team_of(call, comm)) == NULL ||
            datatype_bytes(input->count, input->type) != bytes ||
            input->buffer == output->buffer) {
        return false;
    }
    all.count *= team->ranks;
    error = landing_open(&landing, call, team);
    if (error == MPI_SUCCESS) {
        error = piece_read(&piece, &all, call->bytes, comm);
    }
    if (error != MPI_SUCCESS) {
        mem_free(landing.memory);
        return give_up(call, error, comm);
    }
    for (int i = 0; i < team->ranks; i++) {
        team->sends[i] =
                (struct op_part){ .offset = (size_t)i * bytes, .bytes = bytes };
    }
    return exchange(call, team, &batch, &piece, &landing);
}
