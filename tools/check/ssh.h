/*
 * Command lines that run something on a host: through ssh, through srun inside a Slurm
 * allocation, or directly when the host is this machine. Pure.
 */
#ifndef TUTTI_TOOLS_CHECK_SSH_H
#define TUTTI_TOOLS_CHECK_SSH_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/options.h"

enum {
    SSH_CONNECT_S = 10 /* ConnectTimeout */
};

/** How hosts are reached. */
struct ssh_way {
    const struct options *options; /* --ssh-port and its like                       */
    bool is_slurm; /* srun instead of ssh                           */
    const char *
            agent; /* what the MPI launcher was told to use for ssh, by a variable; NULL:
                          ssh. Split as a shell does                    */
};

/** Appends "ssh -o BatchMode=yes ... HOST": no question can make it wait. */
void ssh_command(const struct ssh_way *way, const char *host, struct arguments *out);

/** Appends the words that run `words` (NULL-terminated) on a host. */
void ssh_run(const struct ssh_way *way, const char *host, bool is_here,
        const char *const *words, struct arguments *out);
/** The same as one line for a shell; freed with mem_free(); NULL when out of memory. */
char *ssh_line(const struct ssh_way *way, const char *host, bool is_here,
        const char *const *words);

/**
 * What variables tell the MPI launchers to use instead of ssh: Open MPI's plm_rsh_agent, hydra's
 * launcher. NULL when there is none, or when flags of tuttirun say how to reach hosts.
 */
const char *ssh_agent(const struct options *options, char *const *environment);

#endif
