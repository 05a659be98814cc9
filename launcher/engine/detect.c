/*
 * Which engine there is. In order: what --mpirun names; in a step of Slurm, and with
 * --engine srun, srun; the mpirun of --engine or else of the MPI that tutti was built with
 * (inside an allocation it starts its daemons by srun itself); in an allocation without an
 * mpirun, srun.
 */
#include "launcher/engine/detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "launcher/engine/version.h"
#include "launcher/environment.h"
#include "launcher/program.h"

static const struct engine *const engines[] = { &engine_openmpi, &engine_prrte,
    &engine_intel, &engine_mpich, &engine_srun };

enum {
    ENGINES = sizeof engines / sizeof engines[0]
};

/** Where the engine of a kind is looked for. */
struct family {
    enum engine_kind kind;
    const char *title; /* for people                               */
    const char *programs[5]; /* in PATH, in this order; NULL-terminated */
};

static const struct family families[] = {
    { .kind = ENGINE_OPENMPI,
            .title = "Open MPI",
            .programs = { "mpirun.openmpi", "orterun", "prterun", "mpirun" } },
    { .kind = ENGINE_MPICH,
            .title = "MPICH",
            .programs = { "mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec" } },
    { .kind = ENGINE_INTEL,
            .title = "Intel MPI",
            .programs = { "mpiexec.hydra", "mpirun" } },
    { .kind = ENGINE_SRUN, .title = "Slurm", .programs = { "srun" } },
    { .kind = ENGINE_AUTO, .title = "any MPI", .programs = { "mpirun", "mpiexec" } },
};

static bool is_called(const struct engine *engine, const char *name)
{
    for (const char *const *at = engine->programs; *at != NULL; at++) {
        if (strcmp(*at, name) == 0) {
            return true;
        }
    }
    return false;
}

/* True when it is this engine that prints such a text. */
static bool says(const struct engine *engine, const char *text)
{
    for (const char *const *at = engine->versions; *at != NULL; at++) {
        if (strstr(text, *at) != NULL) {
            return true;
        }
    }
    return false;
}

const struct engine *detect_by_name(const char *path)
{
    char real[PATH_MAX];
    const char *name = realpath(path, real) == NULL ? path : real;
    const char *slash = strrchr(name, '/');

    name = slash == NULL ? name : slash + 1;
    for (size_t i = 0; i < ENGINES; i++) {
        if (is_called(engines[i], name)) {
            return engines[i];
        }
    }
    return NULL;
}

const struct engine *detect_by_version(const char *text)
{
    for (size_t i = 0; i < ENGINES; i++) {
        if (says(engines[i], text)) {
            return engines[i];
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

static const struct family *family_of(enum engine_kind kind)
{
    size_t i = 0;

    while (families[i].kind != kind) {
        i++;
    }
    return &families[i];
}

/* Intel's hydra has the same name, so where Intel MPI is set up only its words tell. */
static const struct engine *identify(const char *path, char *const *environment)
{
    const struct engine *engine = detect_by_name(path);
    char text[VERSION_TEXT_MAX];

    if (engine != NULL &&
            (engine != &engine_mpich ||
                    environment_get(environment, "I_MPI_ROOT") == NULL)) {
        return engine;
    }
    version_read(path, environment, text);
    return detect_by_version(text);
}

/* What is meant by a kind when a file does not say what it is. */
static const struct engine *engine_of_kind(enum engine_kind kind)
{
    switch (kind) {
    case ENGINE_OPENMPI:
        return &engine_openmpi;
    case ENGINE_MPICH:
        return &engine_mpich;
    case ENGINE_INTEL:
        return &engine_intel;
    case ENGINE_SRUN:
        return &engine_srun;
    case ENGINE_AUTO:
        break;
    }
    return NULL;
}

/* Hydra is one program under two names, and starts the ranks of both. */
static bool serves(const struct engine *engine, enum engine_kind kind)
{
    const bool is_hydra = kind == ENGINE_MPICH || kind == ENGINE_INTEL;

    return kind == ENGINE_AUTO || engine->kind == kind ||
            (is_hydra &&
                    (engine->kind == ENGINE_MPICH || engine->kind == ENGINE_INTEL));
}

static tutti_status choose_named(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    const struct engine_options *asked = &facts->options->engine;
    tutti_status status =
            program_find(asked->mpirun, environment_get(facts->environment, "PATH"),
                    choice->path, sizeof choice->path);

    if (status != TUTTI_OK) {
        return status;
    }
    choice->engine = identify(choice->path, facts->environment);
    if (choice->engine != NULL && !serves(choice->engine, asked->kind)) {
        return error_set(TUTTI_ERR_INVALID,
                "--engine %s, but %s is that of %s; leave out one of the two flags",
                engine_of_kind(asked->kind)->name, choice->path, choice->engine->title);
    }
    (void)snprintf(choice->how, sizeof choice->how, "--mpirun");
    if (choice->engine == NULL) {
        choice->engine =
                engine_of_kind(asked->kind == ENGINE_AUTO ? facts->built : asked->kind);
        (void)snprintf(choice->how, sizeof choice->how,
                "--mpirun, which does not say whose it is");
    }
    if (choice->engine == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--mpirun %s does not say whose it is; add --engine openmpi, mpich or "
                "intel",
                choice->path);
    }
    return TUTTI_OK;
}

/* Tries one file; true when it is there and starts this family. */
static bool try_program(const struct detect_facts *facts, const struct family *family,
        const char *name, struct detect_choice *choice)
{
    const struct engine *engine;

    if (program_find(name, environment_get(facts->environment, "PATH"), choice->path,
                sizeof choice->path) != TUTTI_OK) {
        return false;
    }
    engine = identify(choice->path, facts->environment);
    if (engine == NULL || !serves(engine, family->kind)) {
        return false;
    }
    choice->engine = engine;
    return true;
}

static bool search(const struct detect_facts *facts, enum engine_kind kind,
        struct detect_choice *choice)
{
    const struct family *family = family_of(kind);

    if (kind != ENGINE_AUTO && kind == facts->built &&
            try_program(facts, family, facts->built_mpirun, choice)) {
        return true;
    }
    for (const char *const *at = family->programs; *at != NULL; at++) {
        if (try_program(facts, family, *at, choice)) {
            return true;
        }
    }
    return false;
}

static tutti_status refuse(const struct detect_facts *facts, enum engine_kind kind)
{
    if (kind == ENGINE_SRUN) {
        return error_set(TUTTI_ERR_INVALID,
                "--engine srun: there is no srun in PATH; load Slurm or choose "
                "another engine");
    }
    return error_set(TUTTI_ERR_INVALID,
            "%sthe mpirun of %s is not in PATH%s; install it or name it with --mpirun",
            kind == facts->program && kind != ENGINE_AUTO
                    ? "the program is linked to this MPI, but "
                    : "",
            family_of(kind)->title, facts->is_slurm ? ", nor is srun" : "");
}

static tutti_status choose_found(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    const enum engine_kind asked = facts->options->engine.kind;
    const enum engine_kind kind = asked != ENGINE_AUTO ? asked
            : facts->program != ENGINE_AUTO            ? facts->program
                                                       : facts->built;
    const char *why = asked != ENGINE_AUTO ? "--engine"
            : facts->program != ENGINE_AUTO && facts->program != facts->built
            ? "the program is linked to it"
            : facts->built != ENGINE_AUTO ? "tutti was built with it"
                                          : "found in PATH";

    if (asked == ENGINE_AUTO && detect_step(facts->environment) &&
            search(facts, ENGINE_SRUN, choice)) {
        why = "this is a step of a Slurm job, in which mpirun cannot start more";
    } else if (search(facts, kind, choice)) {
        ; /* the usual case */
    } else if (asked == ENGINE_AUTO && facts->is_slurm &&
            search(facts, ENGINE_SRUN, choice)) {
        why = "a Slurm allocation without an mpirun";
    } else {
        return refuse(facts, kind);
    }
    (void)snprintf(choice->how, sizeof choice->how, "%s", why);
    return TUTTI_OK;
}

tutti_status detect_engine(
        const struct detect_facts *facts, struct detect_choice *choice)
{
    struct detect_choice made = { .engine = NULL };
    tutti_status status = facts->options->engine.mpirun == NULL
            ? choose_found(facts, &made)
            : choose_named(facts, &made);

    if (status != TUTTI_OK) {
        return status;
    }
    made.ranks = made.engine->kind != ENGINE_SRUN ? made.engine->kind
            : facts->program != ENGINE_AUTO       ? facts->program
                                                  : facts->built;
    *choice = made;
    return TUTTI_OK;
}
