/*
 * Tensors of more than 2^31 elements: an allreduce in place and a broadcast. Skipped,
 * with exit status 77, where memory is short.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process_job.h"
#include "test/suite/pattern.h"

#define COUNT (((size_t)1 << 31) + 12345)
#define NEEDED_BYTES ((uint64_t)8 << 30)
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
static bool is_periodic(const uint8_t *data, const uint8_t *period)
{
    return memcmp(data, period, PATTERN_PERIOD) == 0 &&
            memcmp(data, data + PATTERN_PERIOD, COUNT - PATTERN_PERIOD) == 0;
}

static void run(tutti *t, struct checks *c)
{
    const struct pattern largest = { TUTTI_INT8, TUTTI_MAX, 1 };
    const struct pattern moved = { TUTTI_UINT8, TUTTI_SUM, 2 };
    uint8_t period[PATTERN_PERIOD];
    uint8_t *data = malloc(COUNT);

    if (!EXPECT(c, data != NULL)) {
        return;
    }
    checks_step(c, "allreduce");
    pattern_fill(&largest, c->rank, data, COUNT);
    EXPECT_OK(c,
            tutti_allreduce(t, "large", data, data, (int64_t)COUNT, TUTTI_INT8,
                    TUTTI_MAX, NULL));
    pattern_expect(&largest, c->size, (struct scales){ 1, 1 }, period, PATTERN_PERIOD);
    EXPECT(c, is_periodic(data, period));
    checks_step(c, "broadcast");
    if (c->rank == c->size - 1) {
        pattern_fill(&moved, 0, data, COUNT);
    }
    EXPECT_OK(c,
            tutti_broadcast(
                    t, "large", data, (int64_t)COUNT, TUTTI_UINT8, c->size - 1, NULL));
    pattern_fill(&moved, 0, period, PATTERN_PERIOD);
    EXPECT(c, is_periodic(data, period));
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

        run(t, &checks);
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
