/*
 * Ranks that exchange bytes over tuttirun's session: session ROUNDS BYTES TIMEOUT_MS [RANK WHAT]
 * RANK exits with status WHAT before it gives anything, or (late) does not give.
 */
#include "boot/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

static uint8_t byte_of(int rank, int round, size_t i)
{
    return (uint8_t)(rank * 31 + round * 7 + (int)(i % 251));
}

static tutti_status exchange(const struct boot *boot, int round, size_t bytes)
{
    uint8_t *all = calloc((size_t)boot->size + 1, bytes);
    uint8_t *mine = all + (size_t)boot->size * bytes;
    tutti_status status;

    for (size_t i = 0; i < bytes; i++) {
        mine[i] = byte_of(boot->rank, round, i);
    }
    status = boot->allgather(boot->user, mine, all, bytes);
    for (size_t i = 0; status == TUTTI_OK && i < bytes * (size_t)boot->size; i++) {
        if (all[i] != byte_of((int)(i / bytes), round, i % bytes)) {
            (void)fprintf(stderr, "rank %d: byte %zu is wrong\n", boot->rank, i);
            exit(3);
        }
    }
    free(all);
    return status;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 3 ? atoi(argv[1]) : 0;
    const size_t bytes = argc > 3 ? (size_t)atol(argv[2]) : 0;
    struct boot boot = { .rank = -1 };
    tutti_status status = TUTTI_ERR_INVALID;

    for (int i = 0; i < rounds; i++) {
        status = boot_session_open_within(&boot, atoi(argv[3]));
        if (status != TUTTI_OK) {
            break;
        }
        if (argc > 5 && boot.rank == atoi(argv[4])) {
            if (strcmp(argv[5], "late") != 0) {
                return atoi(argv[5]);
            }
            (void)pause();
        }
        status = exchange(&boot, i, bytes);
        if (status == TUTTI_OK) { /* a start has several */
            status = exchange(&boot, i + 1, 8);
        }
        boot.close(boot.user);
        if (status != TUTTI_OK) {
            break;
        }
    }
    if (status != TUTTI_OK) {
        (void)fprintf(stderr, "session: %d: %s\n", (int)status, tutti_last_error());
        return 1;
    }
    (void)printf("rank %d of %d\n", boot.rank, boot.size);
    return 0;
}
