/*
 * A name that is observed.
 */
#ifndef TUTTI_OBSERVE_NAME_H
#define TUTTI_OBSERVE_NAME_H

#include <stdint.h>

struct recorder_mark;

/** Where a name is recorded. Zeroed: nowhere. */
struct observed_name {
    struct recorder_mark *mark;
    uint8_t *over;
};

#endif
