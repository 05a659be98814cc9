/*
 * bench-mpi-collectives: times MPI's collectives in the form of the OSU micro-benchmarks, in a
 * program of MPI alone. script/bench preload runs it with and without libtutti_mpi.so.
 *
 *     bench-mpi-collectives OPERATION FIRST-BYTES LAST-BYTES [SAMPLES]
 *
 * Prints a line of JSON for each size: the median over samples of the time of a call, which is
 * the longest of all ranks'. Bytes are those of the whole vector, as in docs/mpi-collectives.md.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES_MAX = 1000
};

/* What a call works on. */
struct vectors {
    float *in, *out;
    int count; /* elements of the whole vector */
    int part; /* of a rank's part */
    int *counts, *places; /* [ranks] */
    MPI_Request request; /* of a call that does not block */
};

static void allgather(struct vectors *v)
{
    (void)MPI_Allgather(
            v->in, v->part, MPI_FLOAT, v->out, v->part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void allgatherv(struct vectors *v)
{
    (void)MPI_Allgatherv(v->in, v->part, MPI_FLOAT, v->out, v->counts, v->places,
            MPI_FLOAT, MPI_COMM_WORLD);
}

static void allreduce(struct vectors *v)
{
    (void)MPI_Allreduce(v->in, v->out, v->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(struct vectors *v)
{
    (void)MPI_Alltoall(
            v->in, v->part, MPI_FLOAT, v->out, v->part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void alltoallv(struct vectors *v)
{
    (void)MPI_Alltoallv(v->in, v->counts, v->places, MPI_FLOAT, v->out, v->counts,
            v->places, MPI_FLOAT, MPI_COMM_WORLD);
}

static void bcast(struct vectors *v)
{
    (void)MPI_Bcast(v->in, v->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void reduce(struct vectors *v)
{
    (void)MPI_Reduce(v->in, v->out, v->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void reduce_scatter(struct vectors *v)
{
    (void)MPI_Reduce_scatter(
            v->in, v->out, v->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter_block(struct vectors *v)
{
    (void)MPI_Reduce_scatter_block(
            v->in, v->out, v->part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void iallreduce(struct vectors *v)
{
    (void)MPI_Iallreduce(
            v->in, v->out, v->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &v->request);
    (void)MPI_Wait(&v->request, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*call)(struct vectors *vectors);
} operations[] = {
    { .name = "allgather", .call = allgather },
    { .name = "allgatherv", .call = allgatherv },
    { .name = "allreduce", .call = allreduce },
    { .name = "alltoall", .call = alltoall },
    { .name = "alltoallv", .call = alltoallv },
    { .name = "bcast", .call = bcast },
    { .name = "reduce", .call = reduce },
    { .name = "reduce_scatter", .call = reduce_scatter },
    { .name = "reduce_scatter_block", .call = reduce_scatter_block },
    { .name = "iallreduce", .call = iallreduce },
};

/* Splits the vector in equal parts; the shortest has an element for each rank. */
static bool vectors_init(struct vectors *v, size_t bytes, int ranks)
{
    v->part = (int)(bytes / sizeof(float) / (size_t)ranks);
    v->part = v->part > 0 ? v->part : 1;
    v->count = (int)(bytes / sizeof(float));
    v->in = calloc((size_t)v->part * (size_t)ranks + (size_t)v->count, sizeof(float));
    v->out = calloc((size_t)v->part * (size_t)ranks + (size_t)v->count, sizeof(float));
    v->counts = calloc((size_t)ranks, sizeof(int));
    v->places = calloc((size_t)ranks, sizeof(int));
    if (v->in == NULL || v->out == NULL || v->counts == NULL || v->places == NULL) {
        return false;
    }
    for (int i = 0; i < ranks; i++) {
        v->counts[i] = v->part;
        v->places[i] = i * v->part;
    }
    return true;
}

static void vectors_fini(struct vectors *v)
{
    free(v->in);
    free(v->out);
    free(v->counts);
    free(v->places);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Calls of a sample: about 64 MiB, or 200. */
static int calls_for(size_t bytes)
{
    const size_t calls = ((size_t)64 << 20) / bytes;

    return calls > 200 ? 200 : (int)(calls > 2 ? calls : 2);
}

/* Microseconds of a call. */
static double measure(
        void (*call)(struct vectors *), struct vectors *v, int calls, int samples)
{
    double times[SAMPLES_MAX];

    for (int s = -1; s < samples; s++) { /* the first one warms up */
        double time;

        (void)MPI_Barrier(MPI_COMM_WORLD);
        time = MPI_Wtime();
        for (int i = 0; i < calls; i++) {
            call(v);
        }
        time = (MPI_Wtime() - time) / calls * 1e6;
        (void)MPI_Reduce(&time, &times[s < 0 ? 0 : s], 1, MPI_DOUBLE, MPI_MAX, 0,
                MPI_COMM_WORLD);
    }
    qsort(times, (size_t)samples, sizeof times[0], compare);
    return times[samples / 2];
}

static int operation_find(const char *name)
{
    const int count = (int)(sizeof operations / sizeof operations[0]);
    int i = 0;

    while (i < count && strcmp(operations[i].name, name) != 0) {
        i++;
    }
    return i < count ? i : -1;
}

int main(int argc, char **argv)
{
    const int operation = argc > 3 ? operation_find(argv[1]) : -1;
    const size_t first = argc > 3 ? strtoull(argv[2], NULL, 10) : 0;
    const size_t last = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    const int samples = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 11;
    int rank;
    int ranks;

    if (operation < 0 || first < sizeof(float) || last > ((size_t)1 << 31) ||
            samples < 1 || samples > SAMPLES_MAX) {
        (void)fprintf(stderr, "use: %s OPERATION FIRST-BYTES LAST-BYTES [SAMPLES]\n",
                argv[0]);
        return 2;
    }
    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t bytes = first; bytes <= last; bytes *= 4) {
        struct vectors vectors = { 0 };
        double us;

        if (!vectors_init(&vectors, bytes, ranks)) {
            (void)fprintf(stderr, "no memory for %zu bytes\n", bytes);
            (void)MPI_Abort(MPI_COMM_WORLD, 1);
        }
        us = measure(operations[operation].call, &vectors, calls_for(bytes), samples);
        if (rank == 0) {
            (void)printf(
                    "{\"operation\":\"%s\",\"ranks\":%d,\"bytes\":%zu,\"us\":%.3f}\n",
                    argv[1], ranks, bytes, us);
        }
        vectors_fini(&vectors);
    }
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
