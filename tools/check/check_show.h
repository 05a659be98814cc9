/*
 * What tuttirun --check prints, and its report for programs.
 */
#ifndef TUTTI_TOOLS_CHECK_SHOW_H
#define TUTTI_TOOLS_CHECK_SHOW_H

#include <stdio.h>

#include <tutti/tutti.h>

#include "tools/check/host_findings.h"

/** All that was found. */
struct show_result {
    const struct seen *const *hosts;
    size_t host_count;
    const struct findings
            *general; /* about no single host: connections, this machine  */
    size_t pairs; /* connections that were tried            */
    size_t pairs_well; /* of them made                           */
    double pairs_ms; /* that they took together                */
};

/** A line for each host, lines for what was found, and a last line that sums up. */
void show_text(FILE *file, const struct show_result *result);
/** True when nothing is wrong; warnings do not count. */
bool show_is_well(const struct show_result *result);
/**
 * Writes the same as JSON (docs/launcher/check.md).
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (the file), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status show_report(
        const char *path, const struct show_result *result);

#endif
