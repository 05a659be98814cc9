/*
 * Which rank this process is. Of several MPI launchers the inner one counts: mpirun inside of
 * a Slurm job starts its ranks with Slurm's variables as well.
 */
#include "launcher/exec/rank.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/arguments.h"
#include "launcher/hosts/slurm_lists.h"

static void read_slurm_node(struct rank_place *rank, char *const *environment)
{
    const char *tasks = environment_get(environment, "SLURM_STEP_TASKS_PER_NODE");
    int node;

    if (tasks != NULL && environment_get_int(environment, "SLURM_NODEID", 0, &node)) {
        rank->local_size = slurm_count_of(tasks, (size_t)node);
    }
}

static const struct launcher_names {
    const char *rank, *size, *local_rank, *local_size; /* NULL: it has none */
    bool is_slurm; /* its local size is in a list       */
} launchers[] = {
    { .rank = "OMPI_COMM_WORLD_RANK",
            .size = "OMPI_COMM_WORLD_SIZE",
            .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
            .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE" },
    { .rank = "PMI_RANK",
            .size = "PMI_SIZE",
            .local_rank = "MPI_LOCALRANKID",
            .local_size = "MPI_LOCALNRANKS" },
    { .rank = "SLURM_PROCID",
            .size = "SLURM_STEP_NUM_TASKS",
            .local_rank = "SLURM_LOCALID",
            .is_slurm = true },
    { .rank = "PMIX_RANK" },
};

static int read_number(char *const *environment, const char *name, int min)
{
    int value;

    return name != NULL && environment_get_int(environment, name, min, &value) ? value
                                                                               : -1;
}

static void read_place(struct rank_place *rank, char *const *environment,
        const struct launcher_names *names)
{
    rank->local_rank = read_number(environment, names->local_rank, 0);
    rank->local_size = read_number(environment, names->local_size, 1);
    if (names->is_slurm && rank->local_rank >= 0) {
        read_slurm_node(rank, environment);
    }
    if (rank->local_size <= rank->local_rank) {
        rank->local_rank = -1;
        rank->local_size = -1;
    }
}

/* What tuttirun --start has written; malformed it is not ours. */
static bool read_own(struct rank_place *rank, const char *text)
{
    int *const numbers[] = { &rank->rank, &rank->size, &rank->local_rank,
        &rank->local_size };
    char *rest;

    for (size_t i = 0; text != NULL && i < sizeof numbers / sizeof numbers[0]; i++) {
        const long number = strtol(text, &rest, 10);

        if (rest == text || number < 0 || number > INT_MAX) {
            return false;
        }
        *numbers[i] = (int)number;
        text = rest;
    }
    rank->is_own = text != NULL;
    return rank->is_own;
}

/*
 * The first MPI launcher whose rank is known; the place on the host may be told by another
 * one: srun with --mpi=pmi2 sets PMI_RANK, and says the rest as Slurm.
 */
struct rank_place rank_read(char *const *environment)
{
    struct rank_place rank = {
        .rank = -1, .size = -1, .local_rank = -1, .local_size = -1
    };

    if (read_own(&rank, environment_get(environment, RANK_VARIABLE))) {
        return rank;
    }
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const struct launcher_names *names = &launchers[i];

        if (rank.rank < 0) {
            rank.rank = read_number(environment, names->rank, 0);
            rank.size = read_number(environment, names->size, 1);
        }
        if (rank.local_rank < 0) {
            read_place(&rank, environment, names);
        }
    }
    if (rank.rank >= rank.size && rank.size >= 0) {
        rank.size = -1;
    }
    return rank;
}

static void export_numbers(const struct rank_place *rank, const char *const names[4],
        struct arguments *environment)
{
    const int values[] = { rank->rank, rank->size, rank->local_rank, rank->local_size };
    char number[16];

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (values[i] >= 0) {
            (void)snprintf(number, sizeof number, "%d", values[i]);
            arguments_set(environment, names[i], number);
        }
    }
}

void rank_export(const struct rank_place *rank, struct arguments *environment)
{
    static const char *const plain[] = { "RANK", "WORLD_SIZE", "LOCAL_RANK",
        "LOCAL_WORLD_SIZE" };
    static const char *const horovod[] = { "HOROVOD_RANK", "HOROVOD_SIZE",
        "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE" };

    if (rank->is_own) {
        export_numbers(rank, plain, environment);
    }
    if (environment->items != NULL &&
            environment_get(environment->items, "HOROVOD_CONTROLLER") != NULL) {
        export_numbers(rank, horovod, environment);
    }
}
