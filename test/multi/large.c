/*
 * Tensors of more than 2^31 elements, of one byte each, through every collective. Skipped,
 * with exit status 77, where memory is short; what needs more than the smallest of them is
 * left out, and said, where there is not enough for it.
 *
 *     in place         allreduce, broadcast, reduce, reducescatter, scatter
 *     in place, whole  allgather, gather: the parts of both ranks are one tensor
 *     out of place     alltoall with lists, as unequal parts cannot be in place
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process_job.h"
#include "test/batch/pattern.h"

enum {
    RANKS_MAX = 8
};

#define COUNT (((size_t)1 << 31) + 12345)
#define NEEDED_BYTES ((uint64_t)8 << 30)
#define TWICE_BYTES ((uint64_t)12 << 30) /* for input and output apart */
#define SKIPPED 77

/* The first number of a line that starts so, in a file; else `otherwise`. */
static uint64_t read_number(const char *path, const char *start, uint64_t otherwise)
{
    uint64_t number = otherwise;
    char line[256];
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        return otherwise;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        const size_t len = strlen(start);

        if (strncmp(line, start, len) == 0 && strspn(line + len, " 0123456789") > 0) {
            number = strtoull(line + len, NULL, 10);
            break;
        }
    }
    (void)fclose(file);
    return number;
}

/* What the machine and the container still have. */
static uint64_t available_bytes(void)
{
    const uint64_t machine = 1024 * read_number("/proc/meminfo", "MemAvailable:", 0);
    const uint64_t limit = read_number("/sys/fs/cgroup/memory.max", "", UINT64_MAX);
    const uint64_t used = read_number("/sys/fs/cgroup/memory.current", "", 0);
    const uint64_t container = limit > used ? limit - used : 0;

    return machine < container ? machine : container;
}

/* All ranks must decide alike: rank 0 does. */
static bool has_memory(uint64_t *bytes)
{
    *bytes = available_bytes();
    (void)MPI_Bcast(bytes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return *bytes >= NEEDED_BYTES;
}

/* Every element is what the period says. */
static bool is_periodic(const uint8_t *data, const uint8_t *period, size_t count)
{
    return memcmp(data, period, PATTERN_PERIOD) == 0 &&
            memcmp(data, data + PATTERN_PERIOD, count - PATTERN_PERIOD) == 0;
}

static const struct pattern largest = { TUTTI_INT8, TUTTI_MAX, 1 };
static const struct pattern moved = { TUTTI_UINT8, TUTTI_SUM, 2 };

/* A rank's part of a tensor, as tutti_part() cuts it. */
static size_t part_of(const struct checks *c, int rank, size_t *first)
{
    int64_t begin = 0;
    const int64_t rows = tutti_part((int64_t)COUNT, c->size, rank, &begin);

    *first = (size_t)begin;
    return (size_t)rows;
}

static void reductions(tutti *t, struct checks *c, uint8_t *data)
{
    uint8_t period[2 * PATTERN_PERIOD];
    size_t first;
    const size_t rows = part_of(c, c->rank, &first);

    pattern_expect(
            &largest, c->size, (struct scales){ 1, 1 }, period, 2 * PATTERN_PERIOD);
    checks_step(c, "allreduce");
    pattern_fill(&largest, c->rank, data, COUNT);
    EXPECT_OK(c,
            tutti_allreduce(t, "large", data, data, (int64_t)COUNT, TUTTI_INT8,
                    TUTTI_MAX, NULL));
    EXPECT(c, is_periodic(data, period, COUNT));
    checks_step(c, "reduce");
    pattern_fill(&largest, c->rank, data, COUNT);
    EXPECT_OK(c,
            tutti_reduce(t, "large", data, data, (int64_t)COUNT, TUTTI_INT8, TUTTI_MAX,
                    c->size - 1, NULL));
    EXPECT(c, c->rank < c->size - 1 || is_periodic(data, period, COUNT));
    checks_step(c, "reducescatter");
    pattern_fill(&largest, c->rank, data, COUNT);
    EXPECT_OK(c,
            tutti_reducescatter(t, "large", data, data + first, (int64_t)COUNT, 1, NULL,
                    TUTTI_INT8, TUTTI_MAX, NULL));
    EXPECT(c, is_periodic(data + first, period + first % PATTERN_PERIOD, rows));
}

static void from_a_root(tutti *t, struct checks *c, uint8_t *data)
{
    int64_t rows_of[RANKS_MAX];
    uint8_t period[2 * PATTERN_PERIOD];
    size_t first;
    const size_t rows = part_of(c, c->rank, &first);

    for (int r = 0; r < c->size; r++) {
        size_t ignored;

        rows_of[r] = (int64_t)part_of(c, r, &ignored);
    }
    pattern_fill(&moved, 0, period, 2 * PATTERN_PERIOD);
    checks_step(c, "broadcast");
    memset(data, 0, COUNT);
    if (c->rank == c->size - 1) {
        pattern_fill(&moved, 0, data, COUNT);
    }
    EXPECT_OK(c,
            tutti_broadcast(
                    t, "large", data, (int64_t)COUNT, TUTTI_UINT8, c->size - 1, NULL));
    EXPECT(c, is_periodic(data, period, COUNT));
    checks_step(c, "scatter");
    if (c->rank > 0) {
        memset(data, 0, COUNT);
    }
    EXPECT_OK(c,
            tutti_scatter(t, "large", data, data + first, (int64_t)rows, 1, rows_of,
                    TUTTI_UINT8, 0, NULL));
    EXPECT(c, is_periodic(data + first, period + first % PATTERN_PERIOD, rows));
    checks_step(c, "gather");
    EXPECT_OK(c,
            tutti_gather(t, "large", data + first, data, (int64_t)rows, 1, rows_of,
                    TUTTI_UINT8, c->size - 1, NULL));
    EXPECT(c, c->rank < c->size - 1 || is_periodic(data, period, COUNT));
    checks_step(c, "allgather");
    memset(data, 0, first);
    memset(data + first + rows, 0, COUNT - first - rows);
    EXPECT_OK(c,
            tutti_allgather(t, "large", data + first, data, (int64_t)rows, 1, rows_of,
                    TUTTI_UINT8, NULL));
    EXPECT(c, is_periodic(data, period, COUNT));
}

/* Rank 0 sends nearly everything to the last rank, which sends it nothing. */
static void alltoall(tutti *t, struct checks *c, const uint8_t *data)
{
    const bool last = c->rank == c->size - 1;
    int64_t send_rows[RANKS_MAX] = { 0 };
    int64_t recv_rows[RANKS_MAX] = { 0 };
    uint8_t period[PATTERN_PERIOD];
    uint8_t *output = malloc(last ? COUNT : 1);

    checks_step(c, "alltoall");
    if (!EXPECT(c, output != NULL)) {
        return;
    }
    send_rows[c->size - 1] = c->rank == 0 ? (int64_t)COUNT : 0;
    recv_rows[0] = last ? (int64_t)COUNT : 0;
    EXPECT_OK(c,
            tutti_alltoall(t, "large", data, output, c->rank == 0 ? (int64_t)COUNT : 0,
                    1, send_rows, recv_rows, TUTTI_UINT8, NULL));
    pattern_fill(&moved, 0, period, PATTERN_PERIOD);
    EXPECT(c, !last || is_periodic(output, period, COUNT));
    free(output);
}

static void run(tutti *t, struct checks *c, uint64_t bytes)
{
    uint8_t *data = malloc(COUNT);

    if (!EXPECT(c, data != NULL)) {
        return;
    }
    reductions(t, c, data);
    from_a_root(t, c, data);
    if (bytes >= TWICE_BYTES) {
        alltoall(t, c, data);
    } else if (c->rank == 0) {
        printf("alltoall is left out: %llu MiB of memory are available, %llu are "
               "needed\n",
                (unsigned long long)(bytes >> 20),
                (unsigned long long)(TWICE_BYTES >> 20));
    }
    free(data);
}

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    struct checks checks;
    struct job job;
    uint64_t bytes = 0;
    int level = 0;
    int status = SKIPPED;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 2;
    }
    process_job_init(&job, &checks, &world);
    atomic_store(&checks.topic, "large");
    if (has_memory(&bytes)) {
        tutti *t = job_open(&checks, NULL);

        run(t, &checks, bytes);
        EXPECT_OK(&checks, tutti_finalize(t));
        status = process_job_end(&job, &checks);
    } else if (checks.rank == 0) {
        printf("skipped: %llu MiB of memory are available, %llu are needed\n",
                (unsigned long long)(bytes >> 20),
                (unsigned long long)(NEEDED_BYTES >> 20));
    }
    (void)MPI_Finalize();
    return status;
}
