/*
 * The two notations in which Slurm writes lists.
 */
#ifndef TUTTI_LAUNCHER_HOSTS_SLURM_LISTS_H
#define TUTTI_LAUNCHER_HOSTS_SLURM_LISTS_H

#include <stddef.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"

/**
 * Names the hosts of "n[1-3],login", as `scontrol show hostnames` does: in order, leading
 * zeros and repetitions kept. Text may follow a last bracket, which scontrol refuses.
 * @param origin         the variable, for the error
 * @param[in,out] names  an empty list
 * @return TUTTI_OK, TUTTI_ERR_INVALID (malformed, or more than HOSTS_LIMIT hosts),
 *         TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status slurm_hosts(
        struct arguments *names, const char *text, const char *origin);

/**
 * Reads "2(x3),1": a number for each of `count` hosts.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (malformed, or not for so many hosts)
 */
TUTTI_MUST_USE tutti_status slurm_counts(
        int *counts, size_t count, const char *text, const char *origin);

/** The number of one host in the same; 0 where there is none, or before it something else. */
int slurm_count_of(const char *text, size_t host);

#endif
