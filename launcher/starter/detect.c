/*
 * Which starter there is. In order: what --mpirun names; in a step of Slurm, and with
 * --engine srun, srun; the mpirun of --engine or else of the MPI that tutti was built with
 * (inside an allocation it starts its daemons by srun itself); in an allocation without an
 * mpirun, srun.
 */
#include "launcher/starter/detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/process.h"
#include "launcher/program.h"

static const struct starter *const starters[] = { &starter_openmpi, &starter_prrte,
    &starter_intel, &starter_mpich, &starter_srun };

enum {
    STARTERS = sizeof starters / sizeof starters[0],
    VERSION_TEXT_MAX = 1024, /* bytes of --version that are looked at, with a zero */
    VERSION_WAIT_MS = 10000 /* a program that is silent so long is ended */
};

/** The starters of a kind, and where one is looked for. */
struct family {
    const struct starter
            *starter; /* of a file that does not say whose it is; NULL: none */
    const char *title; /* for people                               */
    const char *programs[5]; /* in PATH, in this order; NULL-terminated */
};

static const struct family families[] = {
    [STARTER_AUTO] = { .title = "any MPI", .programs = { "mpirun", "mpiexec" } },
    [STARTER_OPENMPI] = { .starter = &starter_openmpi,
            .title = "Open MPI",
            .programs = { "mpirun.openmpi", "orterun", "prterun", "mpirun" } },
    [STARTER_MPICH] = { .starter = &starter_mpich,
            .title = "MPICH",
            .programs = { "mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec" } },
    [STARTER_INTEL] = { .starter = &starter_intel,
            .title = "Intel MPI",
            .programs = { "mpiexec.hydra", "mpirun" } },
    [STARTER_SRUN] = { .starter = &starter_srun,
            .title = "Slurm",
            .programs = { "srun" } },
};

static bool is_called(const struct starter *starter, const char *name)
{
    for (const char *const *at = starter->programs; *at != NULL; at++) {
        if (strcmp(*at, name) == 0) {
            return true;
        }
    }
    return false;
}

/* True when it is this starter that prints such a text. */
static bool says(const struct starter *starter, const char *text)
{
    for (const char *const *at = starter->versions; *at != NULL; at++) {
        if (strstr(text, *at) != NULL) {
            return true;
        }
    }
    return false;
}

const struct starter *detect_by_name(const char *path)
{
    char real[PATH_MAX];
    const char *name = realpath(path, real) == NULL ? path : real;
    const char *slash = strrchr(name, '/');

    name = slash == NULL ? name : slash + 1;
    for (size_t i = 0; i < STARTERS; i++) {
        if (is_called(starters[i], name)) {
            return starters[i];
        }
    }
    return NULL;
}

const struct starter *detect_by_version(const char *text)
{
    for (size_t i = 0; i < STARTERS; i++) {
        if (says(starters[i], text)) {
            return starters[i];
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
static const struct starter *identify(const char *path, char *const *environment)
{
    const struct starter *starter = detect_by_name(path);
    char text[VERSION_TEXT_MAX];

    if (starter != NULL &&
            (starter != &starter_mpich ||
                    environment_get(environment, "I_MPI_ROOT") == NULL)) {
        return starter;
    }
    read_version(path, environment, text);
    return detect_by_version(text);
}

static bool is_hydra(enum starter_kind kind)
{
    return kind == STARTER_MPICH || kind == STARTER_INTEL;
}

bool detect_serves(const struct starter *starter, enum starter_kind kind)
{
    return kind == STARTER_AUTO || starter->kind == kind ||
            (is_hydra(kind) && is_hydra(starter->kind));
}

static tutti_status choose_named(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    const struct options *asked = facts->options;
    const enum starter_kind kind = (enum starter_kind)asked->engine;
    tutti_status status =
            program_find(asked->mpirun, environment_get(facts->environment, "PATH"),
                    choice->path, sizeof choice->path);

    if (status != TUTTI_OK) {
        return status;
    }
    choice->starter = identify(choice->path, facts->environment);
    if (choice->starter != NULL && !detect_serves(choice->starter, kind)) {
        return error_set(TUTTI_ERR_INVALID,
                "--engine %s, but %s is that of %s; leave out one of the two flags",
                families[kind].starter->name, choice->path, choice->starter->title);
    }
    (void)snprintf(choice->how, sizeof choice->how, "--mpirun");
    if (choice->starter == NULL) {
        choice->starter = families[kind == STARTER_AUTO ? facts->built : kind].starter;
        (void)snprintf(choice->how, sizeof choice->how,
                "--mpirun, which does not say whose it is");
    }
    if (choice->starter == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--mpirun %s does not say whose it is; add --engine openmpi, mpich or "
                "intel",
                choice->path);
    }
    return TUTTI_OK;
}

/* Tries one file; true when it is there and starts this family. */
static bool try_program(const struct detect_facts *facts, enum starter_kind kind,
        const char *name, struct detect_choice *choice)
{
    const struct starter *starter;

    if (program_find(name, environment_get(facts->environment, "PATH"), choice->path,
                sizeof choice->path) != TUTTI_OK) {
        return false;
    }
    starter = identify(choice->path, facts->environment);
    if (starter == NULL || !detect_serves(starter, kind)) {
        return false;
    }
    choice->starter = starter;
    return true;
}

static bool search(const struct detect_facts *facts, enum starter_kind kind,
        struct detect_choice *choice)
{
    if (kind != STARTER_AUTO && kind == facts->built &&
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

static tutti_status refuse(const struct detect_facts *facts, enum starter_kind kind)
{
    if (kind == STARTER_SRUN) {
        return error_set(TUTTI_ERR_INVALID,
                "--engine srun: there is no srun in PATH; load Slurm or choose "
                "another engine");
    }
    return error_set(TUTTI_ERR_INVALID,
            "%sthe mpirun of %s is not in PATH%s; install it or name it with --mpirun",
            kind == facts->program && kind != STARTER_AUTO
                    ? "the program is linked to this MPI, but "
                    : "",
            families[kind].title, facts->is_slurm ? ", nor is srun" : "");
}

static tutti_status choose_found(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    const enum starter_kind asked = (enum starter_kind)facts->options->engine;
    const enum starter_kind kind = asked != STARTER_AUTO ? asked
            : facts->program != STARTER_AUTO             ? facts->program
                                                         : facts->built;
    const char *why = asked != STARTER_AUTO ? "--engine"
            : facts->program != STARTER_AUTO && facts->program != facts->built
            ? "the program is linked to it"
            : facts->built != STARTER_AUTO ? "tutti was built with it"
                                           : "found in PATH";

    if (asked == STARTER_AUTO && detect_step(facts->environment) &&
            search(facts, STARTER_SRUN, choice)) {
        why = "this is a step of a Slurm job, in which mpirun cannot start more";
    } else if (search(facts, kind, choice)) {
        ; /* the usual case */
    } else if (asked == STARTER_AUTO && facts->is_slurm &&
            search(facts, STARTER_SRUN, choice)) {
        why = "a Slurm allocation without an mpirun";
    } else {
        return refuse(facts, kind);
    }
    (void)snprintf(choice->how, sizeof choice->how, "%s", why);
    return TUTTI_OK;
}

tutti_status detect_starter(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    struct detect_choice made = { .starter = NULL };
    tutti_status status = facts->options->mpirun == NULL ? choose_found(facts, &made)
                                                         : choose_named(facts, &made);

    if (status != TUTTI_OK) {
        return status;
    }
    made.ranks = made.starter->kind != STARTER_SRUN ? made.starter->kind
            : facts->program != STARTER_AUTO        ? facts->program
                                                    : facts->built;
    *choice = made;
    return TUTTI_OK;
}
