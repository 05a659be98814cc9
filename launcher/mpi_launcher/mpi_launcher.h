/*
 * What starts the supervisors: one constant struct per MPI launcher, each in its own file, that
 * makes a command line. Pure: all facts come in, words come out. Which MPI launcher it is,
 * detect.h finds out.
 */
#ifndef TUTTI_LAUNCHER_MPI_LAUNCHER_MPI_LAUNCHER_H
#define TUTTI_LAUNCHER_MPI_LAUNCHER_MPI_LAUNCHER_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/hosts/host_list.h"
#include "launcher/hosts/source.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/options.h"

/** Facts that a command depends on beside the options. */
struct launch_facts {
    const char *path; /* of mpirun, mpiexec or srun                              */
    const char *self; /* path of tuttirun, for --exec                            */
    const struct host_list *hosts; /* where ranks run; empty: this machine       */
    bool is_here; /* all of the hosts are this machine                           */
    const struct share *share; /* the ranks that are started, where not all are  */
    bool is_slurm; /* the hosts are those of the Slurm allocation we are in      */
    bool is_step; /* tuttirun is itself a task that srun started                 */
    bool is_root; /* Open MPI wants to be told that it may                       */
    enum mpi_kind ranks; /* whose MPI the program is linked to: srun asks     */
    const struct network_choice *network; /* which network the MPI launcher is told   */
    const char *mpi_collectives; /* libtutti_mpi.so, where it was asked for      */
    char *const *environment; /* ours: TUTTI_* and HOROVOD_* are handed on       */
};

/** A command. Zeroed is valid and empty. */
struct launch_command {
    struct arguments words; /* path and arguments                                */
    struct arguments variables; /* NAME=VALUE that its environment has beside ours */
    /* Variables that the ranks need: NAME=VALUE as --export gave it, else the name alone,
       whose value is in our environment. */
    struct arguments exports;
    bool is_remote; /* ranks run on other hosts, reached by ssh */
};

void launch_command_fini(struct launch_command *command);

/** One MPI launcher. */
struct mpi_launcher {
    enum mpi_kind kind; /* what --engine calls it                                    */
    const char *name; /* "openmpi": of --engine                                    */
    const char *title; /* "Open MPI 4": for people                                 */
    /* Names that tell it, of the file or of the one it links to; NULL-terminated. */
    const char *const *programs;
    const char *const *versions; /* what its --version prints; NULL-terminated      */
    /* Appends all that follows the path. Running out of memory is noted in the lists. */
    void (*build)(const struct options *options, const struct launch_facts *facts,
            struct launch_command *command);
};

extern const struct mpi_launcher launcher_openmpi; /* Open MPI 4: orterun        */
extern const struct mpi_launcher launcher_prrte; /* Open MPI 5: prterun         */
extern const struct mpi_launcher launcher_mpich; /* MPICH and MVAPICH: hydra    */
extern const struct mpi_launcher launcher_intel; /* Intel MPI: its hydra        */
extern const struct mpi_launcher launcher_srun; /* Slurm                       */
extern const struct mpi_launcher launcher_own; /* none: tuttirun itself        */

/**
 * Builds the whole command.
 * @param[in,out] command  empty
 * @return TUTTI_OK, TUTTI_ERR_INVALID (an MPI launcher cannot do what is asked),
 *         TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status launch_build(const struct mpi_launcher *launcher,
        const struct options *options, const struct launch_facts *facts,
        struct launch_command *command);

/** MPI launchers split ssh's flags at spaces. @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status launch_check_ssh(const struct options *options);

/**
 * Appends the environment that a command runs in: ours, with its variables. Lists of this
 * host's GPUs (CUDA_VISIBLE_DEVICES) stay here when ranks run elsewhere.
 */
void launch_environment(const struct launch_command *command, char *const *environment,
        struct arguments *variables);

/* For MPI launchers. */

enum {
    LAUNCH_PROBES = 3 /* signs of life without an answer: the connection is lost */
};
/** Seconds between them: within --heartbeat-timeout no MPI launcher gives up a connection. */
int launch_keepalive_s(const struct options *options);

/** True when ssh (or what stands in for it) starts something on another host. */
bool launch_is_remote(const struct launch_facts *facts);
/** Appends a flag and the hosts as "a:2,b:1". */
void launch_add_hosts(
        struct arguments *words, const char *flag, const struct host_list *hosts);
/**
 * The flags for ssh, as one word with spaces between: launch_add_ssh() and launch_add_ssh_rest().
 * Freed with mem_free(). NULL when another program is used in place of ssh and none of the first was
 * given, or out of memory, which is noted in the command.
 */
char *launch_join_ssh(const struct options *options, const struct launch_facts *facts,
        struct arguments *command);
/** Appends what --ssh-port and its like say, as flags of ssh. */
void launch_add_ssh(const struct options *options, struct arguments *words);
/** Appends the others: no terminal, no question, no waiting for ever, signs of life. */
void launch_add_ssh_rest(const struct options *options, struct arguments *words);
/** Appends the supervisor and the program with its arguments, none of which MPI launchers read. */
void launch_add_program(const struct options *options, const struct launch_facts *facts,
        struct arguments *words);
/** Ranks that each of the hosts gets when they fill slots in order; hosts->count of them. */
void launch_spread(const struct host_list *hosts, int ranks, int *counts);

#endif
