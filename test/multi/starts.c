/*
 * A context is made on all ranks or on none: one rank's n-th allocation fails, for every n,
 * or its configuration is bad. The others hear whose fault it is, and all can try again.
 * A forked child, which has its parent's MPI only in name, is refused.
 *
 *   starts owned|callers
 *
 * owned: tutti has initialised MPI, for a context that lives on meanwhile.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/mpi.h>

#include "base/mem.h"
#include "check.h"

enum {
    ATTEMPTS_MAX = 2000,
    HANG_SECONDS = 1000
};

struct world {
    int rank, size;
    bool is_owned;
};

static void check_sum(tutti *t, const struct world *w)
{
    int32_t value = w->rank + 1;

    CHECK(tutti_allreduce(t, "sum", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL) ==
            TUTTI_OK);
    CHECK(value == w->size * (w->size + 1) / 2);
}

static tutti_status start(const struct world *w, tutti **t)
{
    return w->is_owned ? tutti_init(t, NULL) : tutti_init_mpi(t, MPI_COMM_WORLD, NULL);
}

/* All have a context, or none; true when all have. Ranks without one can name the victim. */
static bool check_outcome(
        const struct world *w, int victim, tutti_status status, const tutti *t)
{
    char named[32];
    int good = status == TUTTI_OK ? 1 : 0;
    int all = 0;

    (void)MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_SAYS(
            all == 0 || all == w->size, "%d of %d ranks have a context", all, w->size);
    CHECK((t != NULL) == (all > 0));
    if (all == 0 && w->rank != victim) {
        (void)snprintf(named, sizeof named, "rank %d", victim);
        CHECK_SAYS(strstr(tutti_last_error(), named) != NULL, "rank %d is not named",
                victim);
    }
    return all > 0;
}

/* The victim's n-th allocation fails. False when a start does not make so many. */
static bool fail_at(const struct world *w, int victim, int n)
{
    const uint64_t before = mem_alloc_count();
    tutti *t = NULL;
    tutti_status status;
    int reached;

    if (w->rank == victim) {
        mem_fail_at((uint64_t)n);
    }
    status = start(w, &t);
    mem_fail_at(0);
    reached = mem_alloc_count() - before >= (uint64_t)n ? 1 : 0;
    (void)MPI_Bcast(&reached, 1, MPI_INT, victim, MPI_COMM_WORLD);
    if (check_outcome(w, victim, status, t)) {
        check_sum(t, w);
        CHECK(tutti_finalize(t) == TUTTI_OK);
    }
    return reached != 0;
}

static void fail_configuration(const struct world *w, int victim)
{
    tutti *t = NULL;
    tutti_status status;

    if (w->rank == victim) {
        (void)setenv("TUTTI_FUSION_BYTES", "much", 1);
    }
    status = start(w, &t);
    (void)unsetenv("TUTTI_FUSION_BYTES");
    CHECK(status == TUTTI_ERR_CONFIG);
    CHECK(!check_outcome(w, victim, status, t));
    CHECK(strstr(tutti_last_error(), "much") != NULL);
}

static bool is_refused(tutti_status status)
{
    return status == TUTTI_ERR_MPI && strstr(tutti_last_error(), "forked") != NULL;
}

static void start_in_a_child(const struct world *w)
{
    const pid_t child = fork();
    tutti *t = NULL;
    int status = -1;

    CHECK(child >= 0);
    if (child == 0) {
        (void)alarm(HANG_SECONDS);
        _exit(is_refused(tutti_init(&t, NULL)) && is_refused(start(w, &t)) &&
                                is_refused(tutti_init_ranks(&t, &w->rank, 1, NULL)) &&
                                is_refused(tutti_mpi_hold()) &&
                                is_refused(tutti_mpi_release()) && t == NULL
                        ? 0
                        : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_SAYS(status == 0, "the child ended with %x", (unsigned)status);
}

int main(int argc, char **argv)
{
    struct world w = { .is_owned = argc == 2 && strcmp(argv[1], "owned") == 0 };
    int n[2] = { 1, 1 };
    tutti *kept = NULL;
    int level = 0;
    int finalized = 0;

    (void)alarm(HANG_SECONDS);
    if (w.is_owned) {
        CHECK(tutti_init(&kept, NULL) == TUTTI_OK);
    } else {
        CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) ==
                MPI_SUCCESS);
    }
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &w.size);
    fail_configuration(&w, 0);
    fail_configuration(&w, w.size - 1);
    for (int i = 0; i < 2; i++) {
        while (n[i] < ATTEMPTS_MAX && fail_at(&w, i * (w.size - 1), n[i])) {
            n[i]++;
        }
        CHECK(n[i] > 20 && n[i] < ATTEMPTS_MAX);
    }
    start_in_a_child(&w);
    if (w.is_owned) {
        check_sum(kept, &w);
        CHECK(tutti_finalize(kept) == TUTTI_OK);
        (void)MPI_Finalized(&finalized);
        CHECK(finalized != 0);
    } else {
        (void)MPI_Finalize();
    }
    (void)printf("%d and %d allocations\n", n[0] - 1, n[1] - 1);
    return 0;
}
