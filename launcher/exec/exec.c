#include "launcher/exec/exec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/arguments.h"
#include "launcher/bind/bind.h"
#include "launcher/exec/rank.h"
#include "launcher/exit_status.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/mpi_launcher/mpi_collectives.h"
#include "launcher/program.h"
#include "launcher/session/link.h"
#include "launcher/signals.h"

/* Reads "FLAG VALUE" at *argv, which moves behind it. */
static tutti_status read_choice(char *const **argv, const char *choices, int *index)
{
    const char *name = **argv;
    const char *value = (*argv)[1];

    if (value == NULL || !text_to_choice(value, choices, index)) {
        return error_set(TUTTI_ERR_INVALID, "--exec %s %s: choose one of %s", name,
                value == NULL ? "" : value, choices);
    }
    *argv += 2;
    return TUTTI_OK;
}

/* Reads the flag at *argv, which moves behind it. */
static tutti_status read_flag(char *const **argv, struct exec_plan *plan)
{
    const char *name = **argv;
    int index = 0;
    tutti_status status;

    if (strcmp(name, "--verbose") == 0) {
        plan->verbose = true;
        (*argv)++;
        return TUTTI_OK;
    }
    if (strcmp(name, "--bind") == 0) {
        status = read_choice(argv, "auto|none|mpi", &index);
        plan->how = (enum options_bind)index;
        return status;
    }
    if (strcmp(name, "--gpus-visible") == 0) {
        status = read_choice(argv, "one|all", &index);
        plan->one_gpu = index == 0;
        return status;
    }
    return error_set(TUTTI_ERR_INVALID,
            "--exec does not know %s: --verbose, --bind, --gpus-visible and -- may "
            "stand before the program",
            name);
}

static tutti_status read_plan(char *const *argv, struct exec_plan *plan)
{
    while (*argv != NULL && argv[0][0] == '-' && strcmp(*argv, "--") != 0) {
        tutti_status status = read_flag(&argv, plan);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    if (*argv != NULL && strcmp(*argv, "--") == 0) {
        argv++;
    }
    for (char *const *word = argv; *word != NULL; word++) {
        if (**word == '=') {
            memmove(*word, *word + 1, strlen(*word));
        }
    }
    if (*argv == NULL) {
        return error_set(TUTTI_ERR_INVALID, "--exec: no program is given");
    }
    plan->argv = argv;
    return TUTTI_OK;
}

static tutti_status bind_alone(
        const struct exec_plan *plan, struct arguments *environment)
{
    char text[BIND_TEXT_MAX] = "";
    const struct bind_request request = {
        .index = plan->rank.local_rank,
        .count = plan->rank.local_size,
        .how = plan->how,
        .one_gpu = plan->one_gpu,
    };

    if (plan->rank.local_rank < 0) {
        (void)snprintf(text, sizeof text, "unbound: not started by a known launcher");
    } else if (bind_rank(&request, environment, text) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
        return TUTTI_ERR_INVALID;
    }
    if (plan->verbose) {
        (void)fprintf(stderr, "tuttirun: local rank %d of %d: %s\n",
                plan->rank.local_rank, plan->rank.local_size, text);
    }
    return TUTTI_OK;
}

/* Becomes the program; returns only when that fails. */
static int become_program(const struct exec_plan *plan)
{
    struct arguments environment = { .items = NULL };
    int reason;

    arguments_add_all(&environment, plan->environment);
    rank_export(&plan->rank, &environment);
    network_export(&environment);
    mpi_collectives_export(&environment);
    if (bind_alone(plan, &environment) != TUTTI_OK) {
        arguments_fini(&environment);
        return EXIT_CANNOT_RUN;
    }
    signals_restore();
    (void)execvpe(plan->argv[0], plan->argv,
            environment.failed ? plan->environment : environment.items);
    reason = errno;
    (void)program_refused(plan->argv[0]);
    (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    arguments_fini(&environment);
    return reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int exec_main(char *const *argv, char *const *environment)
{
    const char *join = environment_get(environment, LINK_VARIABLE);
    struct exec_plan plan = {
        .environment = environment,
        .rank = rank_read(environment),
        .how = BIND_AUTO,
    };

    if (read_plan(argv, &plan) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
        return EXIT_LAUNCHER;
    }
    if (!mpi_collectives_are_here(environment)) {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
        return EXIT_CANNOT_RUN;
    }
    return join != NULL ? supervisor_run(&plan, join) : become_program(&plan);
}
