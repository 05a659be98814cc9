/*
 * Runs a program that prints hosts.
 */
#ifndef TUTTI_LAUNCHER_HOSTS_SCRIPT_HOSTS_H
#define TUTTI_LAUNCHER_HOSTS_SCRIPT_HOSTS_H

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"
#include "launcher/process.h"

/**
 * Runs `file` and reads the hosts that it prints, in the lines of a hostfile.
 * @param[in,out] hosts  an empty list
 * @return TUTTI_OK, TUTTI_ERR_INVALID (it failed, and what it said on stderr; it took too
 *         long; a line is malformed), TUTTI_ERR_SYSTEM (it cannot be run)
 */
TUTTI_MUST_USE tutti_status script_hosts(
        const struct source_facts *facts, const char *file, struct host_list *hosts);

/**
 * Reads the hosts that a process printed, which has ended.
 * @param name  of it, for errors
 * @param[in,out] hosts  an empty list
 * @return TUTTI_OK, TUTTI_ERR_INVALID (as script_hosts()), TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status script_hosts_take(
        const struct process *process, const char *name, struct host_list *hosts);

#endif
