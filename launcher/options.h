/*
 * What the flags of a job say. Fields come from flags.def; command_line.c reads them from
 * argv, config_file.c from a file.
 */
#ifndef TUTTI_LAUNCHER_OPTIONS_H
#define TUTTI_LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "launcher/arguments.h"
#include "launcher/hosts/host_list.h"

struct flag;

/** Most ranks that can be asked for. */
#define RANKS_LIMIT (1 << 20)

/** --bind: who binds ranks to cores. */
enum options_bind {
    BIND_AUTO, /* tuttirun --exec: a fair share of the host's cores for each rank */
    BIND_NONE, /* nobody                                                          */
    BIND_MPI /* mpirun, in its own way                                          */
};

/** --engine: what can start ranks; also whose MPI a program is linked to. */
enum mpi_kind {
    MPI_KIND_AUTO, /* find out               */
    MPI_KIND_OPENMPI, /* mpirun of Open MPI     */
    MPI_KIND_MPICH, /* mpiexec of MPICH       */
    MPI_KIND_INTEL, /* mpiexec of Intel MPI   */
    MPI_KIND_SRUN, /* Slurm's srun           */
    /* Without an MPI: */
    MPI_KIND_LOCAL, /* tuttirun, on this host                 */
    MPI_KIND_SSH, /* tuttirun, and ssh to other hosts       */
    MPI_KIND_HERE /* the tuttirun of each host              */
};

/** --gpus-visible: which GPUs of its host a rank sees. */
enum options_gpus {
    GPUS_ALL,
    GPUS_ONE
};

/** --prefix: whether lines of ranks are marked with whose they are. */
enum job_prefix {
    JOB_PREFIX_AUTO, /* when there is more than one rank */
    JOB_PREFIX_ON,
    JOB_PREFIX_OFF
};

/** --timestamp-form: whether lines of ranks are marked with when they were written. */
enum job_timestamps {
    JOB_TIMESTAMPS_OFF,
    JOB_TIMESTAMPS_ISO, /* date and time of day, UTC */
    JOB_TIMESTAMPS_SECONDS /* since the start           */
};

/** Numbers and texts that were not given are 0 and NULL; texts are of argv or `kept`.
 * There is one; its fields are in the order of the flags. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct options {
#define SWITCH(field, ...) bool field;
#define ON_OFF(field, ...) bool field;
#define CHOICE(field, ...) int field;
#define INT(field, ...) int field;
#define SECONDS(field, ...) int field##_ms;
#define SIZE(field, ...) size_t field;
#define TEXT(field, ...) const char *field;
#define WORDS(field, ...) struct arguments field;
#include "launcher/flags.def"
    struct host_list hosts; /* of -H or --hostfile; empty: find out            */
    struct arguments export; /* variables of the ranks: NAME or NAME=VALUE      */
    struct config config; /* values of parameters, checked                   */
    struct arguments kept; /* values that are not of argv                     */
    struct arguments notes; /* what users should hear, a line each             */
    char *const *program; /* program and its arguments, NULL-terminated      */
    const char *ssh_share; /* folder of elastic/ssh_share.h; NULL: there is none */
};

/** The values without flags. @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status options_init(struct options *options);
void options_fini(struct options *options);

/**
 * Sets one flag, which may be a parameter or one of horovodrun's.
 * @param value   kept by the caller as long as options; NULL: none is given
 * @param origin  what the user wrote, for errors
 * @return TUTTI_OK, TUTTI_ERR_INVALID or TUTTI_ERR_CONFIG (the error names origin),
 *         TUTTI_ERR_SYSTEM (a hostfile), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status options_set(struct options *options,
        const struct flag *flag, const char *value, const char *origin);
/** A copy that lives as long as options; "" when out of memory, which is latched. */
const char *options_keep(struct options *options, const char *text);
/** TUTTI_ERR_NO_MEMORY, with its error set, when a list of options has failed. */
TUTTI_MUST_USE tutti_status options_status(const struct options *options);

/**
 * Takes all slots of the hosts where -np is not given, and checks that they are enough.
 * @param hosts  where ranks run; empty: this machine, which takes any number
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no number is known, or the slots are too few)
 */
TUTTI_MUST_USE tutti_status options_settle_ranks(
        struct options *options, const struct host_list *hosts);

/** The variable of a parameter: "TUTTI_SPIN_US" of "spin_us". Returns text. */
char *options_variable(const char *name, char *text, size_t capacity);

/**
 * Reads a command line; stops at the first word that is no flag: the program. Values of
 * a configuration file come first, so that those of the command line win.
 * @param argv          NULL-terminated, borrowed as long as options is used
 * @param[out] options  released with options_fini() in every case
 * @return as options_set(), and TUTTI_ERR_SYSTEM (a configuration file)
 */
TUTTI_MUST_USE tutti_status command_line_parse(
        struct options *options, char *const *argv);

/**
 * Reads the file and sets what it says. Errors name file, line and key.
 * @param has_hosts  the command line says which hosts there are; those of the file are
 *                   passed over
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no YAML, an unknown key, a value of a wrong kind),
 *         TUTTI_ERR_CONFIG (a parameter's value), TUTTI_ERR_SYSTEM (the file cannot be
 *         read), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status config_file_apply(
        struct options *options, const char *path, bool has_hosts);

#endif
