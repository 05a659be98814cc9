/*
 * tutti_share() between processes. Tensors in shared memory, beside it and across its
 * borders: test/suite/buffer.c. Here: that it is the same memory for peers, where there are
 * any; what a child sees; misuse; and memory that is still shared when the context ends.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define COUNT ((size_t)300001)
#define BYTES (COUNT * sizeof(int32_t))

/* True where pages of the range are mapped from a file, as those of a reservation. */
static bool is_shared(const void *memory)
{
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned long begin = 0;
    unsigned long end = 0;
    char line[512];
    bool found = false;

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        char *rest = NULL;

        begin = strtoul(line, &rest, 16);
        end = strtoul(rest + 1, NULL, 16);
        found |= begin <= (unsigned long)memory && (unsigned long)memory < end &&
                strstr(line, "rw-s") != NULL;
    }
    (void)fclose(file);
    return found;
}

static void fill(int32_t *values, int rank)
{
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = (int32_t)i * (rank + 1);
    }
}

static bool is_sum(const int32_t *values, int size)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (values[i] != (int32_t)i * (size * (size + 1) / 2)) {
            return false;
        }
    }
    return true;
}

static void reduce(tutti *t, int32_t *values)
{
    fill(values, tutti_rank(t));
    CHECK(tutti_allreduce(t, "sum", values, values, (int64_t)COUNT, TUTTI_INT32,
                  TUTTI_SUM, NULL) == TUTTI_OK);
    CHECK(is_sum(values, tutti_size(t)));
}

static void child_cannot_write(const int32_t *values)
{
    int status = 0;
    const pid_t child = fork();

    if (child == 0) {
        const uintptr_t page = ((uintptr_t)values + 8192) & ~(uintptr_t)4095;
        unsigned char present;

        _exit(mincore((void *)page, 4096, &present) == -1 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

int main(int argc, char **argv)
{
    const bool is_private = argc > 1 && strcmp(argv[1], "private") == 0;
    int32_t *values = malloc(BYTES);
    int32_t *left = malloc(BYTES);
    tutti *t;
    void *arena = NULL;
    int size;

    CHECK(values != NULL && left != NULL);
    CHECK(tutti_init(&t, NULL) == TUTTI_OK);
    size = tutti_size(t);
    fill(values, tutti_rank(t));
    CHECK(tutti_share(t, values, BYTES) == TUTTI_OK);
    CHECK(is_shared(values + COUNT / 2) == !is_private);
    reduce(t, values);
    reduce(t, left);
    CHECK(tutti_share(t, left, BYTES) == TUTTI_OK);
    CHECK(is_sum(left, size));
    CHECK(tutti_alloc(t, 100, TUTTI_HOST, &arena) == TUTTI_OK);
    if (!is_private) {
        child_cannot_write(values);
        CHECK(tutti_share(t, values + 5, 4) == TUTTI_ERR_INVALID);
        CHECK(strstr(tutti_last_error(), "shared already") != NULL);
        CHECK(tutti_share(t, arena, 100) == TUTTI_ERR_INVALID);
        CHECK(tutti_unshare(t, values + 1) == TUTTI_ERR_INVALID);
    }
    CHECK(tutti_share(t, NULL, 0) == TUTTI_OK);
    CHECK(tutti_share(t, NULL, 1) == TUTTI_ERR_INVALID);
    CHECK(tutti_share(NULL, values, 1) == TUTTI_ERR_INVALID);
    CHECK(tutti_unshare(t, NULL) == TUTTI_OK);
    CHECK(tutti_unshare(t, values) == TUTTI_OK);
    CHECK(is_sum(values, size));
    CHECK(!is_shared(values + COUNT / 2));
    reduce(t, values);
    free(values);
    reduce(t, left);
    CHECK(tutti_finalize(t) == TUTTI_OK);
    CHECK(is_sum(left, size));
    CHECK(!is_shared(left + COUNT / 2));
    free(left);
    return 0;
}
