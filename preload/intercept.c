/*
 * The functions of MPI that this library stands in front of.
 *
 * The non-blocking forms are not among them. They would have to move while the application
 * computes, and to end in any of MPI's functions that complete requests, beside requests of
 * MPI's own; only MPI can do that (docs/design/mpi-preload.md).
 */
#include "base/clock.h"
#include "preload/collectives.h"
#include "preload/preload.h"
#include "preload/stats.h"
#include "preload/team.h"

static struct call call_begin(enum preload_call which)
{
    const struct preload *preload = preload_get();

    return (struct call){ .preload = preload,
        .which = which,
        .began_ns = preload->counts ? clock_ns() : 0,
        .result = MPI_SUCCESS };
}

static int call_end(const struct call *call, bool by_tutti)
{
    if (call->began_ns != 0) {
        stats_add(call->which, by_tutti, call->bytes, clock_ns() - call->began_ns);
    }
    return call->result;
}

/**
 * True when a collective of so many elements is MPI's, also where each rank has as many: the
 * shortest take less time than to find out more. Counts below 0 are large here.
 */
static inline bool is_short(
        enum preload_call which, int count, MPI_Datatype datatype, size_t ranks)
{
    const size_t element = datatype_common_size(datatype);

    return element != 0 && preload_is_short(which, (size_t)count * element * ranks);
}

#define EXPORTED __attribute__((visibility("default")))
/* What short collectives do without, so that they do not pay for its frame. */
#define APART __attribute__((noinline))
/* Both names are ours: see real.h. */
#define BOTH_NAMES(name) \
    extern EXPORTED __typeof__(P##name)(name) __attribute__((alias("P" #name)))

EXPORTED int PMPI_Init(int *argc, char ***argv)
{
    const int result = preload_get()->real.init(argc, argv);

    return result == MPI_SUCCESS ? preload_begin() : result;
}
BOTH_NAMES(MPI_Init);

EXPORTED int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int result = preload_get()->real.init_thread(argc, argv, required, provided);

    return result == MPI_SUCCESS ? preload_begin() : result;
}
BOTH_NAMES(MPI_Init_thread);

static APART int allreduce(const void *sendbuf, void *recvbuf, int count,
        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct call call = call_begin(CALL_ALLREDUCE);
    const struct reduction reduction = {
        .input = sendbuf, .output = recvbuf, .type = datatype, .op = op
    };
    const bool done = collective_allreduce(&call, &reduction, count, comm);

    if (!done) {
        call.result = call.preload->real.allreduce(
                sendbuf, recvbuf, count, datatype, op, comm);
    }
    return call_end(&call, done);
}

EXPORTED int PMPI_Allreduce(const void *sendbuf, void *recvbuf, int count,
        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    if (is_short(CALL_ALLREDUCE, count, datatype, 1)) {
        return preload_state.real.allreduce(
                sendbuf, recvbuf, count, datatype, op, comm);
    }
    return allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}
BOTH_NAMES(MPI_Allreduce);

static APART int reduce(const void *sendbuf, void *recvbuf, int count,
        MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm)
{
    struct call call = call_begin(CALL_REDUCE);
    const struct reduction reduction = {
        .input = sendbuf, .output = recvbuf, .type = datatype, .op = op
    };
    const bool done = collective_reduce(&call, &reduction, count, root, comm);

    if (!done) {
        call.result = call.preload->real.reduce(
                sendbuf, recvbuf, count, datatype, op, root, comm);
    }
    return call_end(&call, done);
}

EXPORTED int PMPI_Reduce(const void *sendbuf, void *recvbuf, int count,
        MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm)
{
    if (is_short(CALL_REDUCE, count, datatype, 1)) {
        return preload_state.real.reduce(
                sendbuf, recvbuf, count, datatype, op, root, comm);
    }
    return reduce(sendbuf, recvbuf, count, datatype, op, root, comm);
}
BOTH_NAMES(MPI_Reduce);

EXPORTED int PMPI_Reduce_scatter(const void *sendbuf, void *recvbuf,
        const int recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct call call = call_begin(CALL_REDUCE_SCATTER);
    const struct reduction reduction = {
        .input = sendbuf, .output = recvbuf, .type = datatype, .op = op
    };
    const bool done = collective_reduce_scatter(&call, &reduction, recvcounts, comm);

    if (!done) {
        call.result = call.preload->real.reduce_scatter(
                sendbuf, recvbuf, recvcounts, datatype, op, comm);
    }
    return call_end(&call, done);
}
BOTH_NAMES(MPI_Reduce_scatter);

static APART int reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount,
        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct call call = call_begin(CALL_REDUCE_SCATTER_BLOCK);
    const struct reduction reduction = {
        .input = sendbuf, .output = recvbuf, .type = datatype, .op = op
    };
    const bool done =
            collective_reduce_scatter_block(&call, &reduction, recvcount, comm);

    if (!done) {
        call.result = call.preload->real.reduce_scatter_block(
                sendbuf, recvbuf, recvcount, datatype, op, comm);
    }
    return call_end(&call, done);
}

EXPORTED int PMPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf,
        int recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    if (is_short(CALL_REDUCE_SCATTER_BLOCK, recvcount, datatype, TEAM_RANKS_MAX)) {
        return preload_state.real.reduce_scatter_block(
                sendbuf, recvbuf, recvcount, datatype, op, comm);
    }
    return reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm);
}
BOTH_NAMES(MPI_Reduce_scatter_block);

static APART int bcast(
        void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    struct call call = call_begin(CALL_BCAST);
    const struct elements elements = {
        .buffer = buffer, .count = count, .type = datatype
    };
    const bool done = collective_bcast(&call, &elements, root, comm);

    if (!done) {
        call.result = call.preload->real.bcast(buffer, count, datatype, root, comm);
    }
    return call_end(&call, done);
}

EXPORTED int PMPI_Bcast(
        void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    if (is_short(CALL_BCAST, count, datatype, 1)) {
        return preload_state.real.bcast(buffer, count, datatype, root, comm);
    }
    return bcast(buffer, count, datatype, root, comm);
}
BOTH_NAMES(MPI_Bcast);

static APART int allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
        void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call = call_begin(CALL_ALLGATHER);
    const struct elements in = {
        .sent = sendbuf, .count = sendcount, .type = sendtype
    };
    const struct elements out = {
        .buffer = recvbuf, .count = recvcount, .type = recvtype
    };
    const bool done = collective_allgather(&call, &in, &out, comm);

    if (!done) {
        call.result = call.preload->real.allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    }
    return call_end(&call, done);
}

EXPORTED int PMPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
        void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    if (is_short(CALL_ALLGATHER, recvcount, recvtype, TEAM_RANKS_MAX)) {
        return preload_state.real.allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    }
    return allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}
BOTH_NAMES(MPI_Allgather);

EXPORTED int PMPI_Allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
        void *recvbuf, const int recvcounts[], const int displs[],
        MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call = call_begin(CALL_ALLGATHERV);
    const struct elements in = {
        .sent = sendbuf, .count = sendcount, .type = sendtype
    };
    const bool done = collective_allgatherv(
            &call, &in, recvbuf, recvcounts, displs, recvtype, comm);

    if (!done) {
        call.result = call.preload->real.allgatherv(sendbuf, sendcount, sendtype,
                recvbuf, recvcounts, displs, recvtype, comm);
    }
    return call_end(&call, done);
}
BOTH_NAMES(MPI_Allgatherv);

static APART int alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
        void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call = call_begin(CALL_ALLTOALL);
    const struct elements in = {
        .sent = sendbuf, .count = sendcount, .type = sendtype
    };
    const struct elements out = {
        .buffer = recvbuf, .count = recvcount, .type = recvtype
    };
    const bool done = collective_alltoall(&call, &in, &out, comm);

    if (!done) {
        call.result = call.preload->real.alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    }
    return call_end(&call, done);
}

EXPORTED int PMPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
        void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    if (is_short(CALL_ALLTOALL, recvcount, recvtype, TEAM_RANKS_MAX)) {
        return preload_state.real.alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    }
    return alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}
BOTH_NAMES(MPI_Alltoall);
