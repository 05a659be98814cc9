/*
 * Which MPI launcher there is. In order: what --mpirun names; in a step of Slurm, and with
 * --engine srun, srun; tuttirun itself, outside of Slurm, for ranks on this host alone of a
 * program that is linked to tutti and to no MPI; the mpirun of --engine or else of the MPI
 * that tutti was built with (inside an allocation it starts its daemons by srun itself); in an
 * allocation without an mpirun, srun. Where there is none and the program is linked to none,
 * tuttirun itself. Scripts get what is installed: they may load an MPI when they run.
 */
#include "launcher/mpi_launcher/detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/process.h"
#include "launcher/program.h"

static const struct mpi_launcher *const launchers[] = { &launcher_openmpi,
    &launcher_prrte, &launcher_intel, &launcher_mpich, &launcher_srun };

enum {
    LAUNCHERS = sizeof launchers / sizeof launchers[0],
    VERSION_TEXT_MAX = 1024, /* bytes of --version that are looked at, with a zero */
    VERSION_WAIT_MS = 10000 /* a program that is silent so long is ended */
};

/** The MPI launchers of a kind, and where one is looked for. */
struct family {
    const struct mpi_launcher
            *launcher; /* of a file that does not say whose it is; NULL: none */
    const char *title; /* for people                               */
    const char *programs[5]; /* in PATH, in this order; NULL-terminated */
};

static const struct family families[] = {
    [MPI_KIND_AUTO] = { .title = "any MPI", .programs = { "mpirun", "mpiexec" } },
    [MPI_KIND_OPENMPI] = { .launcher = &launcher_openmpi,
            .title = "Open MPI",
            .programs = { "mpirun.openmpi", "orterun", "prterun", "mpirun" } },
    [MPI_KIND_MPICH] = { .launcher = &launcher_mpich,
            .title = "MPICH",
            .programs = { "mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec" } },
    [MPI_KIND_INTEL] = { .launcher = &launcher_intel,
            .title = "Intel MPI",
            .programs = { "mpiexec.hydra", "mpirun" } },
    [MPI_KIND_SRUN] = { .launcher = &launcher_srun,
            .title = "Slurm",
            .programs = { "srun" } },
    [MPI_KIND_LOCAL] = { .title = "tuttirun" },
    [MPI_KIND_SSH] = { .title = "tuttirun" },
    [MPI_KIND_HERE] = { .title = "tuttirun" },
};

static bool is_called(const struct mpi_launcher *launcher, const char *name)
{
    for (const char *const *at = launcher->programs; *at != NULL; at++) {
        if (strcmp(*at, name) == 0) {
            return true;
        }
    }
    return false;
}

/* True when it is this MPI launcher that prints such a text. */
static bool says(const struct mpi_launcher *launcher, const char *text)
{
    for (const char *const *at = launcher->versions; *at != NULL; at++) {
        if (strstr(text, *at) != NULL) {
            return true;
        }
    }
    return false;
}

const struct mpi_launcher *detect_by_name(const char *path)
{
    char real[PATH_MAX];
    const char *name = realpath(path, real) == NULL ? path : real;
    const char *slash = strrchr(name, '/');

    name = slash == NULL ? name : slash + 1;
    for (size_t i = 0; i < LAUNCHERS; i++) {
        if (is_called(launchers[i], name)) {
            return launchers[i];
        }
    }
    return NULL;
}

const struct mpi_launcher *detect_by_version(const char *text)
{
    for (size_t i = 0; i < LAUNCHERS; i++) {
        if (says(launchers[i], text)) {
            return launchers[i];
        }
    }
    return NULL;
}

bool detect_step(char *const *environment)
{
    int step;

    /* The numbers of Slurm's own steps (batch, interactive) are too high for an int. */
    return environment_get_int(environment, "SLURM_STEP_ID", 0, &step);
}

/* The beginning of what "PATH --version" prints; "" when it cannot be run or is silent. */
static void read_version(
        const char *path, char *const *environment, char text[VERSION_TEXT_MAX])
{
    const int64_t until_ns = clock_ns() + (int64_t)VERSION_WAIT_MS * 1000000;
    char name[PATH_MAX];
    char flag[] = "--version";
    char *const argv[] = { name, flag, NULL };
    struct process process;

    text[0] = '\0';
    (void)snprintf(name, sizeof name, "%s", path);
    if (process_run(&process, argv, environment, until_ns) != TUTTI_OK) {
        return;
    }
    if (process.out.len > 0) {
        (void)snprintf(
                text, VERSION_TEXT_MAX, "%.*s", (int)process.out.len, process.out.text);
    }
    process_fini(&process);
}

/* Intel's hydra has the same name, so where Intel MPI is set up only its words tell. */
static const struct mpi_launcher *identify(const char *path, char *const *environment)
{
    const struct mpi_launcher *launcher = detect_by_name(path);
    char text[VERSION_TEXT_MAX];

    if (launcher != NULL &&
            (launcher != &launcher_mpich ||
                    environment_get(environment, "I_MPI_ROOT") == NULL)) {
        return launcher;
    }
    read_version(path, environment, text);
    return detect_by_version(text);
}

static bool is_hydra(enum mpi_kind kind)
{
    return kind == MPI_KIND_MPICH || kind == MPI_KIND_INTEL;
}

bool detect_serves(const struct mpi_launcher *launcher, enum mpi_kind kind)
{
    return kind == MPI_KIND_AUTO || launcher->kind == kind ||
            (is_hydra(kind) && is_hydra(launcher->kind));
}

static tutti_status choose_named(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    const struct options *asked = facts->options;
    const enum mpi_kind kind = (enum mpi_kind)asked->engine;
    tutti_status status =
            program_find(asked->mpirun, environment_get(facts->environment, "PATH"),
                    choice->path, sizeof choice->path);

    if (status != TUTTI_OK) {
        return status;
    }
    choice->launcher = identify(choice->path, facts->environment);
    if (choice->launcher != NULL && !detect_serves(choice->launcher, kind)) {
        return error_set(TUTTI_ERR_INVALID,
                "--engine %s, but %s is that of %s; leave out one of the two flags",
                families[kind].launcher->name, choice->path, choice->launcher->title);
    }
    (void)snprintf(choice->how, sizeof choice->how, "--mpirun");
    if (choice->launcher == NULL) {
        choice->launcher =
                families[kind == MPI_KIND_AUTO ? facts->built : kind].launcher;
        (void)snprintf(choice->how, sizeof choice->how,
                "--mpirun, which does not say whose it is");
    }
    if (choice->launcher == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--mpirun %s does not say whose it is; add --engine openmpi, mpich or "
                "intel",
                choice->path);
    }
    return TUTTI_OK;
}

/* Tries one file; true when it is there and starts this family. */
static bool try_program(const struct detect_facts *facts, enum mpi_kind kind,
        const char *name, struct detect_choice *choice)
{
    const struct mpi_launcher *launcher;

    if (program_find(name, environment_get(facts->environment, "PATH"), choice->path,
                sizeof choice->path) != TUTTI_OK) {
        return false;
    }
    launcher = identify(choice->path, facts->environment);
    if (launcher == NULL || !detect_serves(launcher, kind)) {
        return false;
    }
    choice->launcher = launcher;
    return true;
}

static bool search(const struct detect_facts *facts, enum mpi_kind kind,
        struct detect_choice *choice)
{
    if (kind != MPI_KIND_AUTO && kind == facts->built &&
            try_program(facts, kind, facts->built_mpirun, choice)) {
        return true;
    }
    for (const char *const *at = families[kind].programs; *at != NULL; at++) {
        if (try_program(facts, kind, *at, choice)) {
            return true;
        }
    }
    return false;
}

static tutti_status choose_own(
        const struct detect_facts *facts, const char *why, struct detect_choice *choice)
{
    if (facts->options->mpirun != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--mpirun %s: without an MPI there is none; leave out this flag or "
                "--engine",
                facts->options->mpirun);
    }
    choice->launcher = &launcher_own;
    (void)snprintf(choice->how, sizeof choice->how, "%s", why);
    return program_self(choice->path, sizeof choice->path);
}

static tutti_status refuse(const struct detect_facts *facts, enum mpi_kind kind)
{
    if (kind == MPI_KIND_SRUN) {
        return error_set(TUTTI_ERR_INVALID,
                "--engine srun: there is no srun in PATH; load Slurm or choose another "
                "engine");
    }
    return error_set(TUTTI_ERR_INVALID,
            "%sthe mpirun of %s is not in PATH%s; install it or name it with --mpirun",
            kind == facts->program && kind != MPI_KIND_AUTO
                    ? "the program is linked to this MPI, but "
                    : "",
            families[kind].title, facts->is_slurm ? ", nor is srun" : "");
}

/* Whether the ranks get a variable of that value. */
static bool is_set_to(
        const struct detect_facts *facts, const char *variable, const char *wanted)
{
    const struct arguments *exports = &facts->options->export;
    const char *value =
            exports->count == 0 ? NULL : environment_get(exports->items, variable);

    value = value != NULL ? value : environment_get(facts->environment, variable);
    return value != NULL && strcmp(value, wanted) == 0;
}

/* What only an MPI has was asked for. */
static bool asks_for_mpi(const struct detect_facts *facts)
{
    const struct options *asked = facts->options;

    return asked->mpi_args.count > 0 || asked->mpi_collectives ||
            asked->bind == BIND_MPI || !asked->supervise ||
            is_set_to(facts, "TUTTI_TRANSPORT", "mpi") ||
            is_set_to(facts, "TUTTI_BACKEND", "vendor");
}

static tutti_status choose_found(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    const enum mpi_kind asked = (enum mpi_kind)facts->options->engine;
    const enum mpi_kind kind = asked != MPI_KIND_AUTO ? asked
            : facts->program != MPI_KIND_AUTO         ? facts->program
                                                      : facts->built;
    const char *why = asked != MPI_KIND_AUTO ? "--engine"
            : facts->program != MPI_KIND_AUTO && facts->program != facts->built
            ? "the program is linked to it"
            : facts->built != MPI_KIND_AUTO ? "tutti was built with it"
                                            : "found in PATH";

    if (asked == MPI_KIND_AUTO && facts->needs_no_mpi && !facts->is_slurm &&
            !detect_step(facts->environment) && !asks_for_mpi(facts)) {
        return choose_own(facts, "the program is linked to no MPI", choice);
    }
    if (asked == MPI_KIND_AUTO && detect_step(facts->environment) &&
            search(facts, MPI_KIND_SRUN, choice)) {
        why = "this is a step of a Slurm job, in which mpirun cannot start more";
    } else if (search(facts, kind, choice)) {
        ; /* the usual case */
    } else if (asked == MPI_KIND_AUTO && facts->is_slurm &&
            search(facts, MPI_KIND_SRUN, choice)) {
        why = "a Slurm allocation without an mpirun";
    } else if (asked == MPI_KIND_AUTO && facts->program == MPI_KIND_AUTO) {
        return choose_own(facts, "no MPI is found", choice);
    } else {
        return refuse(facts, kind);
    }
    (void)snprintf(choice->how, sizeof choice->how, "%s", why);
    return TUTTI_OK;
}

tutti_status detect_launcher(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    struct detect_choice made = { .launcher = NULL };
    const bool is_own = facts->options->engine >= MPI_KIND_LOCAL;
    tutti_status status = is_own             ? choose_own(facts, "--engine", &made)
            : facts->options->mpirun == NULL ? choose_found(facts, &made)
                                             : choose_named(facts, &made);

    if (status != TUTTI_OK) {
        return status;
    }
    made.ranks = made.launcher->kind != MPI_KIND_SRUN ? made.launcher->kind
            : facts->program != MPI_KIND_AUTO         ? facts->program
                                                      : facts->built;
    *choice = made;
    return TUTTI_OK;
}
