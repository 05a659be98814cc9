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
#include "launcher/hosts.h"

/** Most ranks that can be asked for. */
#define RANKS_LIMIT (1 << 20)

enum options_action {
    OPTIONS_RUN,
    OPTIONS_HELP,
    OPTIONS_VERSION
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

struct options {
    enum options_action action;
    int ranks; /* after options_parse() at least 1                  */
    struct host_list hosts; /* empty: this machine, or what the scheduler gave   */
    enum mpi_family family; /* of mpirun; FAMILY_AUTO: find out                  */
    const char *mpirun; /* a name or path; NULL: find it; of argv            */
    struct arguments mpi_args; /* more arguments for mpirun                         */
    enum options_bind bind;
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

/** One flag of tuttirun itself, for the parser and --help. */
struct flag {
    const char *name; /* "num-proc": --num-proc, and -num-proc as mpirun has it */
    const char *alias; /* another name, or NULL                                  */
    char letter; /* -n, or 0                                               */
    const char *argument; /* what follows, "N"; NULL: nothing                       */
    const char *group; /* heading in --help                                      */
    const char *help; /* one sentence                                           */
    /* Applies the value (NULL without an argument); origin is the flag as written. */
    tutti_status (*apply)(
            struct options *options, const char *value, const char *origin);
};

/** All flags but those of the configuration table, group by group; *count is set. */
const struct flag *options_flags(size_t *count);

/** The variable of a parameter: "TUTTI_SPIN_US" of "spin_us". Returns text. */
char *options_variable(const char *name, char *text, size_t capacity);
/** The flag of a parameter without its dashes: "spin-us" of "spin_us". Returns text. */
char *options_flag_name(const char *name, char *text, size_t capacity);

#endif
