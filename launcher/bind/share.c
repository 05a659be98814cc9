/*
 * tuttirun --exec. A rank that cannot be bound still runs: binding is for speed.
 */
#include "launcher/bind/share.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/bind/bind.h"
#include "launcher/environment.h"

enum {
    TASKS_LIMIT = 1 << 20, /* more tasks on a node are a mistake */
    EXIT_CANNOT_RUN = 126, /* as shells have it                   */
    EXIT_NOT_FOUND = 127
};

/* The digits at *text, which moves behind them; 0 when there are none, or too many. */
static int read_digits(const char **text)
{
    int number = 0;

    for (; **text >= '0' && **text <= '9'; (*text)++) {
        number = number > TASKS_LIMIT ? number : number * 10 + (**text - '0');
    }
    return number > TASKS_LIMIT ? 0 : number;
}

/*
 * Tasks of a node from Slurm's "2(x3),1": 2 on each of three nodes, then 1; 0 when the
 * text is malformed or has too few nodes.
 */
static int read_tasks(const char *text, int node)
{
    while (node >= 0) {
        int tasks = read_digits(&text);
        int repeat = 1;

        if (text[0] == '(' && text[1] == 'x') {
            text += 2;
            repeat = read_digits(&text);
            text += text[0] == ')' ? 1 : 0;
        }
        if (tasks == 0 || repeat == 0 || node < repeat) {
            return repeat == 0 ? 0 : tasks;
        }
        node -= repeat;
        text += text[0] == ',' ? 1 : 0;
    }
    return 0;
}

/* Under srun without mpirun in between. */
static bool read_slurm(struct share *share, char *const *environment)
{
    const char *tasks = environment_get(environment, "SLURM_STEP_TASKS_PER_NODE");
    int node;

    if (tasks == NULL ||
            !environment_get_int(environment, "SLURM_LOCALID", 0, &share->index) ||
            !environment_get_int(environment, "SLURM_NODEID", 0, &node)) {
        return false;
    }
    share->count = read_tasks(tasks, node);
    return share->count > 0;
}

bool share_read(struct share *share, char *const *environment)
{
    static const struct {
        const char *index;
        const char *count;
    } names[] = {
        { .index = "OMPI_COMM_WORLD_LOCAL_RANK",
                .count = "OMPI_COMM_WORLD_LOCAL_SIZE" },
        { .index = "MPI_LOCALRANKID", .count = "MPI_LOCALNRANKS" },
    };
    struct share found = { .index = 0 };
    bool is_found = false;

    for (size_t i = 0; !is_found && i < sizeof names / sizeof names[0]; i++) {
        is_found = environment_get_int(environment, names[i].index, 0, &found.index) &&
                environment_get_int(environment, names[i].count, 1, &found.count);
    }
    is_found = is_found || read_slurm(&found, environment);
    if (!is_found || found.index >= found.count) {
        return false;
    }
    *share = found;
    return true;
}

/* Binds and tells the program by its variables; false when they cannot be right. */
static bool bind_share(
        const struct share *share, struct arguments *variables, bool verbose)
{
    const struct bind_request request = {
        .index = share->index,
        .count = share->count,
        .how = BIND_AUTO,
    };
    char text[BIND_TEXT_MAX] = "";

    if (bind_rank(&request, variables, text) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun: local rank %d of %d: %s\n", share->index,
                share->count, tutti_last_error());
        return false;
    }
    if (verbose) {
        (void)fprintf(stderr, "tuttirun: local rank %d of %d: %s\n", share->index,
                share->count, text);
    }
    return true;
}

int share_exec(char *const *argv, char *const *environment)
{
    struct arguments variables = { .items = NULL };
    struct share share;
    bool verbose = false;
    int reason;

    if (*argv != NULL && strcmp(*argv, "--verbose") == 0) {
        verbose = true;
        argv++;
    }
    if (*argv != NULL && strcmp(*argv, "--") == 0) {
        argv++;
    }
    if (*argv == NULL) {
        (void)fprintf(stderr, "tuttirun --exec: no program is given\n");
        return EXIT_CANNOT_RUN;
    }
    arguments_add_all(&variables, environment);
    if (share_read(&share, environment)) {
        if (!bind_share(&share, &variables, verbose)) {
            arguments_fini(&variables);
            return EXIT_CANNOT_RUN;
        }
    } else if (verbose) {
        (void)fprintf(stderr, "tuttirun: unbound: not started by a known launcher\n");
    }
    (void)execvpe(argv[0], argv, variables.failed ? environment : variables.items);
    reason = errno;
    (void)error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", argv[0]);
    (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    arguments_fini(&variables);
    return reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
