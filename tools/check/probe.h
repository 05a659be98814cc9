/*
 * Why ssh cannot reach a host: how it resolves the name ("ssh -G"), whether that has an address,
 * and whether something listens there.
 */
#ifndef TUTTI_TOOLS_CHECK_PROBE_H
#define TUTTI_TOOLS_CHECK_PROBE_H

#include "tools/check/host_findings.h"

/** Fills the probe_ members of the hosts for which ssh failed. Some seconds at most. */
void probe_hosts(struct seen *const *hosts, size_t count,
        const struct findings_yardstick *yardstick, char *const *environment);

/**
 * Takes a line of "ssh -G HOST". Pure.
 * @return false when ssh goes through another host or program, so that a connection of ours
 *         would prove nothing
 */
bool probe_take_line(struct seen *seen, const char *line);

#endif
