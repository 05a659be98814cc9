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

struct flag;
struct horovod_flag;

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

/** What can start ranks; also whose MPI a program is linked to. */
enum engine_kind {
    ENGINE_AUTO, /* find out               */
    ENGINE_OPENMPI, /* mpirun of Open MPI     */
    ENGINE_MPICH, /* mpiexec of MPICH       */
    ENGINE_INTEL, /* mpiexec of Intel MPI   */
    ENGINE_SRUN /* Slurm's srun           */
};

/** Where ranks run; the flags are in hosts/hosts_flags.c. */
struct hosts_options {
    struct host_list list; /* of -H or --hostfile; empty: find out        */
    const char *script; /* prints hosts; NULL: none; of argv           */
    int join_port; /* where hosts join; 0: not given              */
    int join_timeout_s; /* how long that may take; 0: not given        */
    int slots_per_host; /* of a host that comes without a number; 0: not given */
};

/** What starts them; the flags are in engine/engine_flags.c. */
struct engine_options {
    enum engine_kind kind; /* ENGINE_AUTO: find out                          */
    const char *mpirun; /* a name or path; NULL: find it; of argv           */
    struct arguments mpi_args; /* more arguments for mpirun                        */
    const char *nic; /* ranges or names; "mpi"; NULL: by route; of argv  */
    int ssh_port; /* 0: what ssh's configuration says                 */
    const char *ssh_identity; /* file of a key, or NULL; of argv                  */
    const char *ssh_config; /* file, or NULL; of argv                           */
    struct arguments ssh_args; /* more arguments for ssh                           */
    bool any_mpi; /* a program linked to another MPI is started all the same */
};

/** What they get of a host; the flags are in bind/bind_flags.c. */
struct bind_options {
    enum options_bind how;
    bool one_gpu; /* each rank sees its own GPU only                             */
    bool show; /* draw the map of this host, start nothing                    */
    const char *show_as; /* "svg" or a file that ends in .svg; NULL: text; of argv */
};

/** Whether lines of ranks are marked with whose they are. */
enum job_prefix {
    JOB_PREFIX_AUTO, /* when there is more than one rank */
    JOB_PREFIX_ON,
    JOB_PREFIX_OFF
};

/** Whether lines of ranks are marked with when they were written. */
enum job_timestamps {
    JOB_TIMESTAMPS_OFF,
    JOB_TIMESTAMPS_ISO, /* date and time of day, UTC */
    JOB_TIMESTAMPS_SECONDS /* since the start           */
};

/** How a job is run, shown and ended; the flags are in job/job_flags.c. */
struct job_options {
    bool supervise; /* supervisors hold a connection to tuttirun       */
    enum job_prefix prefix;
    enum job_timestamps timestamps;
    const char *only_ranks; /* "0,3-5", checked: shown; NULL: all; of argv     */
    const char *log_folder; /* files rank.N/stdout and stderr; NULL: none      */
    const char *report; /* JSON report; NULL: none; of argv                */
    size_t output_rate; /* bytes per second of each rank's output; 0: all  */
    int beat_ms; /* between two heartbeats                          */
    int silent_ms; /* without one for so long, a rank is lost         */
    int grace_ms; /* that survivors of a failure have to end         */
    int kill_ms; /* between SIGTERM and SIGKILL for those that do not */
    int start_ms; /* that supervisors have to appear                 */
    int timeout_ms; /* for all of the job; 0: none                     */
};

/** The values without flags. */
void job_options_init(struct job_options *job);
/** @return TUTTI_OK, TUTTI_ERR_INVALID (values that contradict each other) */
TUTTI_MUST_USE tutti_status job_options_check(const struct job_options *job);

struct options {
    enum options_action action;
    int ranks; /* 0: not given; all slots of the hosts when they are found */
    struct hosts_options hosts;
    struct engine_options engine;
    struct bind_options bind;
    struct job_options job;
    bool check; /* --check: look at the hosts, run nothing            */
    bool dry_run; /* print the command, start nothing                  */
    bool verbose; /* say what is started and how it is bound           */
    const char *topic; /* of --help; NULL: none; of argv                      */
    const char *config_file; /* NULL: none; of argv                                 */
    struct arguments kept; /* values that are not of argv                         */
    struct arguments notes; /* what users should hear, a line each                 */
    struct arguments exports; /* variables of the ranks: NAME or NAME=VALUE        */
    struct config config; /* the flags' values, checked                        */
    char *const *program; /* program and its arguments, NULL-terminated; of argv */
};

/**
 * Reads a command line; stops at the first word that is no flag: the program. Values of
 * a configuration file come first, so that those of the command line win.
 * @param argv          NULL-terminated, borrowed as long as options is used
 * @param[out] options  released with options_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_INVALID or TUTTI_ERR_CONFIG (the error names the flag),
 *         TUTTI_ERR_SYSTEM (a hostfile, a configuration file), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status options_parse(struct options *options, char *const *argv);
void options_fini(struct options *options);

/**
 * Takes all slots of the hosts where -np is not given, and checks that they are enough.
 * @param hosts  where ranks run; empty: this machine, which takes any number
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no number is known, or the slots are too few)
 */
TUTTI_MUST_USE tutti_status options_settle_ranks(
        struct options *options, const struct host_list *hosts);

/**
 * Sets one flag, whose name may be a flag of ours, a parameter or a flag of horovodrun.
 * @param name    without dashes; '_' counts as '-'
 * @param value   kept by the caller as long as options; NULL: none is given
 * @param origin  what the user wrote, for errors
 * @return as options_parse()
 */
TUTTI_MUST_USE tutti_status options_set(struct options *options, const char *name,
        const char *value, const char *origin);
/** A copy that lives as long as options; "" when out of memory, which is latched. */
const char *options_keep(struct options *options, const char *text);

/** What a name of a flag stands for: all NULL when it is unknown. */
struct options_name {
    const struct flag *flag; /* a flag of ours                 */
    const struct config_row *row; /* a parameter                    */
    const struct horovod_flag *horovod; /* a flag of horovodrun's, only   */
};
struct options_name options_find(const char *name);
/** False for a flag that is followed by nothing. */
bool options_takes_value(const struct options_name *name);
/** The flag, of ours or a parameter, whose name is nearest; "" when none is near. */
const char *options_nearest(const char *name, char *text, size_t capacity);

/** The variable of a parameter: "TUTTI_SPIN_US" of "spin_us". Returns text. */
char *options_variable(const char *name, char *text, size_t capacity);
/** The flag of a parameter without its dashes: "spin-us" of "spin_us". Returns text. */
char *options_flag_name(const char *name, char *text, size_t capacity);

#endif
