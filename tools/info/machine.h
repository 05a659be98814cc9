/*
 * Measures this machine: caches, memory, flags between cores, wake-ups, system calls. A time
 * is the best of several, since whatever disturbs makes it longer. Takes some seconds.
 */
#ifndef TUTTI_TOOLS_INFO_MACHINE_H
#define TUTTI_TOOLS_INFO_MACHINE_H

#include <stdbool.h>

#include "tools/info/limits.h"

/** Fills in all but the link. @return false: no memory, or no threads */
bool machine_measure(struct machine_facts *machine);

#endif
