/*
 * A program of MPI alone, with all that MPI allows in collectives: it is run with
 * libtutti_mpi.so in front of MPI, and knows nothing of it. Every rank knows what all ranks
 * send, so it knows every result; values are small integers, so sums are exact in any order.
 */
#include <dirent.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void require(bool is_true, const char *what, int line)
{
    if (!is_true) {
        (void)fprintf(stderr, "rank %d, line %d: %s\n", rank, line, what);
        (void)MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#define REQUIRE(is_true) require(is_true, #is_true, __LINE__)
#define OK(call) require((call) == MPI_SUCCESS, #call, __LINE__)

static void *memory(size_t bytes)
{
    void *block = calloc(bytes + 1, 1);

    REQUIRE(block != NULL);
    return block;
}

/* What a rank sends as element i of something: 1, 2 or 3. */
static int value(int from, int i)
{
    return 1 + (from * 7 + i * 3 + i / 5) % 3;
}

/* --------------------------------------------------------------- reductions */

/* X(MPI type, C type) */
#define TYPES(X) \
    X(MPI_SIGNED_CHAR, signed char) \
    X(MPI_UNSIGNED_SHORT, unsigned short) \
    X(MPI_INT, int) \
    X(MPI_LONG_LONG, long long) \
    X(MPI_UINT64_T, uint64_t) \
    X(MPI_FLOAT, float) \
    X(MPI_DOUBLE, double) \
    X(MPI_LONG_DOUBLE, long double)

/* Writes element i, or looks whether it is that value. */
static bool element(MPI_Datatype type, void *array, int i, long long v, bool write)
{
#define ELEMENT(mpi_type, c_type) \
    if (type == (mpi_type)) { \
        c_type *at = (c_type *)array + i; \
        *at = write ? (c_type)v : *at; \
        return *at == (c_type)v; \
    }
    TYPES(ELEMENT)
#undef ELEMENT
    return false;
}

static long long combined(MPI_Op op, int n, int i)
{
    long long v = value(0, i);

    for (int r = 1; r < n; r++) {
        const long long w = value(r, i);

        if (op == MPI_SUM) {
            v += w;
        } else if (op == MPI_PROD) {
            v *= w;
        } else if (op == MPI_MAX) {
            v = w > v ? w : v;
        } else {
            v = w < v ? w : v;
        }
    }
    return v;
}

static void fill(MPI_Datatype type, void *array, int count)
{
    for (int i = 0; i < count; i++) {
        (void)element(type, array, i, value(rank, i), true);
    }
}

static void expect(MPI_Datatype type, void *array, int first, int count, MPI_Op op)
{
    for (int i = 0; i < count; i++) {
        REQUIRE(element(type, array, i, combined(op, ranks, first + i), false));
    }
}

static void reduce_all(MPI_Datatype type, MPI_Op op, int count, bool in_place)
{
    int size;

    OK(MPI_Type_size(type, &size));
    void *in = memory((size_t)count * (size_t)size);
    void *out = memory((size_t)count * (size_t)size);
    fill(type, in, count);
    fill(type, out, count);
    OK(MPI_Allreduce(
            in_place ? MPI_IN_PLACE : in, out, count, type, op, MPI_COMM_WORLD));
    expect(type, out, 0, count, op);
    for (int root = 0; root < ranks; root++) {
        fill(type, out, count);
        /* One that is MPICH 4.0's own crashes in place at another root than 0. */
        const bool at_root =
                in_place && rank == root && (root == 0 || type != MPI_LONG_DOUBLE);

        OK(MPI_Reduce(at_root ? MPI_IN_PLACE : in, out, count, type, op, root,
                MPI_COMM_WORLD));
        if (rank == root) {
            expect(type, out, 0, count, op);
        }
    }
    free(in);
    free(out);
}

static void reduce_scatter(MPI_Datatype type, MPI_Op op, int count, bool in_place)
{
    int *counts = memory((size_t)ranks * sizeof *counts);
    int first = 0;
    int all = 0;

    for (int r = 0; r < ranks; r++) { /* rank 1 gets nothing */
        counts[r] = r == 1 ? 0 : count + 3 * r;
        first += r < rank ? counts[r] : 0;
        all += counts[r];
    }
    all = all > ranks * count ? all : ranks * count;
    void *in = memory((size_t)all * 16);
    void *out = memory((size_t)all * 16);
    fill(type, in, all);
    fill(type, out, all);
    OK(MPI_Reduce_scatter(
            in_place ? MPI_IN_PLACE : in, out, counts, type, op, MPI_COMM_WORLD));
    expect(type, out, first, counts[rank], op);
    for (int i = counts[rank]; i < all; i++) { /* nothing else is written */
        REQUIRE(element(type, out, i, value(rank, i), false));
    }
    fill(type, out, all);
    OK(MPI_Reduce_scatter_block(
            in_place ? MPI_IN_PLACE : in, out, count, type, op, MPI_COMM_WORLD));
    expect(type, out, rank * count, count, op);
    free(in);
    free(out);
    free(counts);
}

static void reductions(void)
{
    const int counts[] = { 0, 1, 37, 5003, 70001 };
    const MPI_Op ops[] = { MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN };

    for (int c = 0; c < 5; c++) {
        for (int o = 0; o < 4; o++) {
            for (int p = 0; p < 2; p++) {
#define REDUCE(mpi_type, c_type) \
    if (c < 4 || (mpi_type) == MPI_FLOAT) { \
        reduce_all(mpi_type, ops[o], counts[c], p != 0); \
        reduce_scatter(mpi_type, ops[o], counts[c], p != 0); \
    }
                TYPES(REDUCE)
#undef REDUCE
            }
        }
    }
}

static void add_ints(void *in, void *out, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++) {
        ((int *)out)[i] += ((int *)in)[i];
    }
}

/* What tutti has no kernels for. */
static void other_reductions(void)
{
    enum {
        COUNT = 4000
    };
    int *in = memory(COUNT * sizeof *in);
    int *out = memory(COUNT * sizeof *out);
    bool truth[COUNT];
    MPI_Op add;

    fill(MPI_INT, in, COUNT);
    OK(MPI_Op_create(add_ints, 1, &add));
    OK(MPI_Allreduce(in, out, COUNT, MPI_INT, add, MPI_COMM_WORLD));
    expect(MPI_INT, out, 0, COUNT, MPI_SUM);
    OK(MPI_Op_free(&add));
    OK(MPI_Allreduce(in, out, COUNT / 2, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD));
    REQUIRE(out[0] == combined(MPI_MAX, ranks, 0));
    for (int i = 0; i < COUNT; i++) {
        truth[i] = i % ranks != rank;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, truth, COUNT, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD));
    REQUIRE(!truth[0] && !truth[COUNT - 1]);
    free(in);
    free(out);
}

/* -------------------------------------------------------------------- moves */

/* Every other int of twice as many, and n ints as one element. */
static MPI_Datatype strided(int n)
{
    MPI_Datatype type;

    OK(MPI_Type_vector(n, 1, 2, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

static MPI_Datatype together(int n)
{
    MPI_Datatype type;

    OK(MPI_Type_contiguous(n, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

/* Rank r names n ints in a way of its own, all with the same signature. */
static void bcast(int n)
{
    MPI_Datatype types[] = { together(n), strided(n), MPI_INT, MPI_DATATYPE_NULL };
    int *data = memory(2 * (size_t)n * sizeof *data);
    const MPI_Aint address = (MPI_Aint)(intptr_t)data;
    const int one = n;

    OK(MPI_Type_create_hindexed(1, &one, &address, MPI_INT, &types[3]));
    OK(MPI_Type_commit(&types[3]));
    for (int root = 0; root < ranks; root++) {
        for (int shift = 0; shift < 4; shift++) {
            const int way = (rank + shift) % 4;
            const int step = way == 1 ? 2 : 1;

            for (int i = 0; i < n; i++) {
                data[i * step] = rank == root ? value(root, i) : -1;
            }
            OK(MPI_Bcast(way == 3 ? MPI_BOTTOM : data, way == 2 ? n : 1, types[way],
                    root, MPI_COMM_WORLD));
            for (int i = 0; i < n; i++) {
                REQUIRE(data[i * step] == value(root, i));
            }
        }
    }
    for (int i = 0; i < 4; i++) {
        if (i != 2) {
            OK(MPI_Type_free(&types[i]));
        }
    }
    free(data);
}

/* The sending side strided, or the receiving one, or none; or in place. */
static void allgather(int n)
{
    MPI_Datatype row = strided(n);
    MPI_Datatype padded;
    int *in = memory(2 * (size_t)n * sizeof *in);
    int *out = memory(2 * (size_t)(n * ranks) * sizeof *out);

    OK(MPI_Type_create_resized(row, 0, 2 * n * (MPI_Aint)sizeof(int), &padded));
    OK(MPI_Type_commit(&padded));
    for (int way = 0; way < 6; way++) {
        const bool packs_in = way == 1 || (way == 4 && rank == 0);
        const bool packs_out = way == 2 || way == 5 || (way == 4 && rank != 0);
        const int step = packs_out ? 2 : 1;
        const bool in_place = way == 3 || way == 5;

        for (int i = 0; i < n; i++) {
            in[packs_in ? 2 * i : i] = value(rank, i);
            out[(rank * n + i) * step] = in_place ? value(rank, i) : -1;
        }
        OK(MPI_Allgather(in_place ? MPI_IN_PLACE : in, packs_in ? 1 : n,
                packs_in ? row : MPI_INT, out, packs_out ? 1 : n,
                packs_out ? padded : MPI_INT, MPI_COMM_WORLD));
        for (int i = 0; i < n * ranks; i++) {
            REQUIRE(out[i * step] == value(i / n, i % n));
        }
    }
    OK(MPI_Type_free(&row));
    OK(MPI_Type_free(&padded));
    free(in);
    free(out);
}

/* Parts of any length, the last rank's first, with gaps; rank 0 gives nothing. */
static void allgatherv(int n)
{
    int *counts = memory((size_t)ranks * sizeof *counts);
    int *places = memory((size_t)ranks * sizeof *places);
    int *in = memory((size_t)(n * ranks) * sizeof *in);
    int *out;
    int end = 0;

    for (int r = ranks - 1; r >= 0; r--) {
        counts[r] = n * r;
        places[r] = end;
        end += counts[r] + 5;
    }
    out = memory((size_t)end * sizeof *out);
    for (int way = 0; way < 3; way++) {
        MPI_Datatype all = together(counts[rank]);
        const bool in_place = way == 1;
        const int middle = end / 2; /* places may be negative */

        memset(out, 0, (size_t)end * sizeof *out);
        for (int r = 0; r < ranks; r++) {
            places[r] -= way == 2 ? middle : 0;
        }
        for (int i = 0; i < counts[rank]; i++) {
            in[i] = value(rank, i);
            out[places[rank] + (way == 2 ? middle : 0) + i] = in_place ? in[i] : -1;
        }
        OK(MPI_Allgatherv(in_place ? MPI_IN_PLACE : in, rank == 1 ? 1 : counts[rank],
                rank == 1 ? all : MPI_INT, out + (way == 2 ? middle : 0), counts,
                places, MPI_INT, MPI_COMM_WORLD));
        OK(MPI_Type_free(&all));
        for (int r = 0; r < ranks; r++) {
            const int *part = out + places[r] + (way == 2 ? middle : 0);

            for (int i = 0; i < counts[r]; i++) {
                REQUIRE(part[i] == value(r, i));
            }
            REQUIRE(part[counts[r]] == 0);
        }
    }
    free(counts);
    free(places);
    free(in);
    free(out);
}

static void alltoall(int n)
{
    MPI_Datatype block = together(n);
    int *in = memory((size_t)(n * ranks) * sizeof *in);
    int *out = memory((size_t)(n * ranks) * sizeof *out);

    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < n * ranks; i++) {
            in[i] = value(rank, i);
            out[i] = way == 1 ? in[i] : -1;
        }
        OK(MPI_Alltoall(way == 1 ? MPI_IN_PLACE : in, rank == 0 ? 1 : n,
                rank == 0 ? block : MPI_INT, out, rank == 0 ? n : 1,
                rank == 0 ? MPI_INT : block, MPI_COMM_WORLD));
        for (int i = 0; i < n * ranks; i++) {
            REQUIRE(out[i] == value(i / n, rank * n + i % n));
        }
    }
    OK(MPI_Type_free(&block));
    free(in);
    free(out);
}

static void moves(void)
{
    const int counts[] = { 1, 33, 4097, 60000 };

    for (int c = 0; c < 4; c++) {
        bcast(counts[c]);
        allgather(counts[c]);
        allgatherv(counts[c]);
        alltoall(counts[c]);
    }
}

/* ------------------------------------------------------------ communicators */

static void sum_over(MPI_Comm comm, int count)
{
    double *data = memory((size_t)count * sizeof *data);
    int n;

    OK(MPI_Comm_size(comm, &n));
    for (int i = 0; i < count; i++) {
        data[i] = i % 10;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_DOUBLE, MPI_SUM, comm));
    for (int i = 0; i < count; i++) {
        REQUIRE(data[i] == n * (i % 10));
    }
    free(data);
}

static void communicators(void)
{
    MPI_Comm comm;

    sum_over(MPI_COMM_SELF, 3000);
    for (int i = 0; i < 40; i++) {
        OK(MPI_Comm_split(MPI_COMM_WORLD, (rank + i) % 2, -rank, &comm));
        sum_over(comm, 3000);
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    sum_over(comm, 100000);
    sum_over(MPI_COMM_WORLD, 100000);
    OK(MPI_Comm_free(&comm));
}

/* Between two groups, each gets what the other one sums. */
static void inter_communicator(void)
{
    enum {
        COUNT = 5000
    };
    const int side = rank % 2;
    int *data = memory(COUNT * sizeof *data);
    int *sum = memory(COUNT * sizeof *sum);
    MPI_Comm mine;
    MPI_Comm both;
    int others;

    OK(MPI_Comm_split(MPI_COMM_WORLD, side, rank, &mine));
    OK(MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1 - side, 9, &both));
    OK(MPI_Comm_remote_size(both, &others));
    for (int i = 0; i < COUNT; i++) {
        data[i] = 1;
    }
    OK(MPI_Allreduce(data, sum, COUNT, MPI_INT, MPI_SUM, both));
    REQUIRE(sum[0] == others && sum[COUNT - 1] == others);
    OK(MPI_Comm_free(&both));
    OK(MPI_Comm_free(&mine));
    free(data);
    free(sum);
}

static void *thread_main(void *comm)
{
    for (int i = 0; i < 20; i++) {
        sum_over(*(MPI_Comm *)comm, 5000 + i);
    }
    return NULL;
}

static void threads(void)
{
    enum {
        THREADS = 3
    };
    MPI_Comm comms[THREADS];
    pthread_t ids[THREADS];

    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&ids[i], NULL, thread_main, &comms[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(ids[i], NULL) == 0);
        OK(MPI_Comm_free(&comms[i]));
    }
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    REQUIRE(folder != NULL);
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}

/* Of which a program may have many. */
static void communicators_take_no_descriptors(void)
{
    enum {
        COMMS = 12
    };
    MPI_Comm comms[COMMS];
    int before = 0;

    for (int i = 0; i < COMMS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        sum_over(comms[i], 5000);
        before = i == 0 ? descriptors() : before;
    }
    REQUIRE(descriptors() == before);
    for (int i = 0; i < COMMS; i++) {
        OK(MPI_Comm_free(&comms[i]));
    }
}

/* -------------------------------------------------------- beside other calls */

/* A message that moves only while its sender is in MPI, which waits in a collective. */
static void progress(void)
{
    enum {
        COUNT = 1 << 20
    };
    int *data = memory(COUNT * sizeof *data);
    MPI_Request request = MPI_REQUEST_NULL;

    if (rank == 0) {
        OK(MPI_Isend(data, COUNT, MPI_INT, 1, 5, MPI_COMM_WORLD, &request));
    } else if (rank == 1) {
        OK(MPI_Recv(data, COUNT, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    sum_over(MPI_COMM_WORLD, 10000);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    free(data);
}

/* What MPI refuses is refused, in MPI's words. */
static void refusals(void)
{
    enum {
        COUNT = 5000
    };
    int *data = memory(COUNT * sizeof *data);
    int *out = memory(COUNT * sizeof *out);

    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
#define REFUSED(call) require((call) != MPI_SUCCESS, #call, __LINE__)
    REFUSED(MPI_Allreduce(data, data, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    REFUSED(MPI_Allreduce(
            data, out, COUNT, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD));
    REFUSED(MPI_Allreduce(data, out, COUNT, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));
    REFUSED(MPI_Bcast(data, COUNT, MPI_INT, ranks, MPI_COMM_WORLD));
    REFUSED(MPI_Reduce(data, out, COUNT, MPI_INT, MPI_SUM, -7, MPI_COMM_WORLD));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    free(data);
    free(out);
}

int main(int argc, char **argv)
{
    int level;

    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    if (argc == 1) {
        reductions();
        other_reductions();
        moves();
        inter_communicator();
        progress();
        refusals();
        communicators_take_no_descriptors();
    }
    if (argc == 1 && level == MPI_THREAD_MULTIPLE) {
        threads();
    }
    communicators();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        (void)fprintf(stderr, "all right\n");
    }
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
