/*
 * An MPI whose counts end at TASK_MESSAGE_MAX, as those of the real one do at 2^31: the tests
 * of the backends run past it in front of it.
 */
#include <mpi.h>

#include "ops/p2p/task.h"

static int refuse(int count, MPI_Datatype type)
{
    int bytes = 0;

    (void)PMPI_Type_size(type, &bytes);
    return (size_t)count * (size_t)bytes > TASK_MESSAGE_MAX ? MPI_ERR_COUNT
                                                            : MPI_SUCCESS;
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag,
        MPI_Comm comm, MPI_Request *request)
{
    const int code = refuse(count, type);

    return code == MPI_SUCCESS
            ? PMPI_Irecv(buffer, count, type, from, tag, comm, request)
            : code;
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag,
        MPI_Comm comm, MPI_Request *request)
{
    const int code = refuse(count, type);

    return code == MPI_SUCCESS ? PMPI_Isend(buffer, count, type, to, tag, comm, request)
                               : code;
}

int MPI_Ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
        MPI_Request *request)
{
    const int code = refuse(count, type);

    return code == MPI_SUCCESS ? PMPI_Ibcast(buffer, count, type, root, comm, request)
                               : code;
}

int MPI_Iallreduce(const void *input, void *output, int count, MPI_Datatype type,
        MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    const int code = refuse(count, type);

    return code == MPI_SUCCESS
            ? PMPI_Iallreduce(input, output, count, type, op, comm, request)
            : code;
}
