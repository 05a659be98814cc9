/*
 * tutti-info --calibrate: what this machine can do at most, and how far tutti is from that.
 */
#ifndef TUTTI_TOOLS_INFO_CALIBRATE_H
#define TUTTI_TOOLS_INFO_CALIBRATE_H

#include <stdbool.h>

/** Collective over the ranks of the job; rank 0 prints. @return an exit status */
int calibrate(bool as_json);

#endif
