/*
 * The command line of tuttirun. Every parameter of the configuration table is a flag.
 * Names are matched whole: an abbreviation that is unique today would change its
 * meaning when the table grows.
 */
#ifndef TUTTI_LAUNCHER_OPTIONS_H
#define TUTTI_LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "launcher/arguments.h"
#include "launcher/hosts/host_list.h"

/** Most ranks that can be asked for. */
#define RANKS_LIMIT (1 << 20)

enum options_action {
    OPTIONS_RUN,
    OPTIONS_HELP,
    OPTIONS_VERSION,
    OPTIONS_CHECK /* tuttirun --check: look at hosts, run nothing */
};

/** Who binds ranks to cores. */
enum options_bind {
    BIND_AUTO, /* tuttirun --exec: a fair share of the host's cores for each rank */
    BIND_NONE, /* nobody                                                          */
    BIND_MPI /* mpirun, in its own way                                          */
};

/** Families of MPI with their own command line for mpirun. */
enum mpi_family {
    FAMILY_AUTO,
    FAMILY_OPENMPI,
    FAMILY_MPICH
};

/** Where ranks run; the flags are in hosts/hosts_flags.c. */
struct hosts_options {
    struct host_list list; /* of -H or --hostfile; empty: find out */
};

/** What starts them; the flags are in engine/engine_flags.c. */
struct engine_options {
    enum mpi_family family; /* of mpirun; FAMILY_AUTO: find out      */
    const char *mpirun; /* a name or path; NULL: find it; of argv */
    struct arguments mpi_args; /* more arguments for mpirun             */
    int ssh_port; /* 0: what ssh's configuration says                 */
    const char *ssh_identity; /* file of a key, or NULL; of argv                  */
    const char *ssh_config; /* file, or NULL; of argv                           */
    struct arguments ssh_args; /* more arguments for ssh                           */
};

/** What they get of a host; the flags are in bind/bind_flags.c. */
struct bind_options {
    enum options_bind how;
};

/** How a job is run, shown and ended; the flags are in job/job_flags.c. */
struct job_options {
    bool supervise; /* supervisors hold a connection to tuttirun */
    const char *report; /* JSON report; NULL: none; of argv */
};

struct options {
    enum options_action action;
    int ranks; /* 0: not given                                         */
    struct hosts_options hosts;
    struct engine_options engine;
    struct bind_options bind;
    struct job_options job;
    bool dry_run; /* print the command, start nothing                  */
    bool verbose; /* say what is started and how it is bound           */
    struct arguments exports; /* variables of the ranks: NAME or NAME=VALUE        */
    struct config config; /* the flags' values, checked                        */
    char *const *program; /* program and its arguments, NULL-terminated; of argv */
};

/**
 * Reads a command line; stops at the first word that is no flag: the program.
 * @param argv          NULL-terminated, borrowed as long as options is used
 * @param[out] options  released with options_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_INVALID or TUTTI_ERR_CONFIG (the error names the flag),
 *         TUTTI_ERR_SYSTEM (a hostfile), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status options_parse(struct options *options, char *const *argv);
void options_fini(struct options *options);

/** The variable of a parameter: "TUTTI_SPIN_US" of "spin_us". Returns text. */
char *options_variable(const char *name, char *text, size_t capacity);
/** The flag of a parameter without its dashes: "spin-us" of "spin_us". Returns text. */
char *options_flag_name(const char *name, char *text, size_t capacity);

#endif
