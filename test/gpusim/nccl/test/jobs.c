/*
 * The simulated GPU and NCCL under a real launcher: ranks of MPI, one device each.
 */
#include <mpi.h>
#include <string.h>

#include "test/gpusim/gpusim_test.h"
#include "test/gpusim/nccl/calls.h"
#include "test/multi/check.h"

enum {
    COUNT = 300000
};

int main(int count, char **arguments)
{
    static int32_t values[COUNT];
    int rank;
    int ranks;
    struct nccl_id id;
    nccl_comm comm;
    cu_context context;
    cu_stream stream;
    cu_pointer memory;
    void *pointer;
    int i;

    CHECK(MPI_Init(&count, &arguments) == MPI_SUCCESS);
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS);
    CHECK(cuInit(0) == CU_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&context, rank) == CU_SUCCESS);
    CHECK(cuCtxSetCurrent(context) == CU_SUCCESS);
    CHECK(cuStreamCreateWithPriority(&stream, 1, 0) == CU_SUCCESS);
    CHECK(cuMemAlloc_v2(&memory, sizeof values) == CU_SUCCESS);
    memcpy(&pointer, &memory, sizeof pointer);
    for (i = 0; i < COUNT; i++) {
        values[i] = i + rank;
    }
    if (rank == 0) {
        CHECK(ncclGetUniqueId(&id) == NCCL_SUCCESS);
    }
    CHECK(MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(ncclCommInitRank(&comm, ranks, id, rank) == NCCL_SUCCESS);
    CHECK(cuMemcpyHtoDAsync_v2(memory, values, sizeof values, stream) == CU_SUCCESS);
    CHECK(ncclAllReduce(pointer, pointer, COUNT, NCCL_INT32, NCCL_SUM, comm, stream) ==
            NCCL_SUCCESS);
    CHECK(cuMemcpyDtoHAsync_v2(values, memory, sizeof values, stream) == CU_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CU_SUCCESS);
    for (i = 0; i < COUNT; i++) {
        CHECK(values[i] == i * ranks + ranks * (ranks - 1) / 2);
    }
    CHECK(ncclCommDestroy(comm) == NCCL_SUCCESS);
    CHECK(cuMemFree_v2(memory) == CU_SUCCESS);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    return 0;
}
