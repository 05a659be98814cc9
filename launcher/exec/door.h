/*
 * By which the library of a rank reaches its supervisor, and over the uplink the other ranks that
 * start: boot/session.h.
 */
#ifndef TUTTI_LAUNCHER_EXEC_DOOR_H
#define TUTTI_LAUNCHER_EXEC_DOOR_H

#include <stdbool.h>

#include "launcher/session/link.h"
#include "launcher/session/loop.h"
#include "launcher/session/session.h"

struct arguments;
struct uplink;

/** With descriptors -1, and else zeroed, there is none. */
struct door {
    int fd; /* where ranks knock                                   */
    int inherited; /* its other end, for the program                      */
    struct loop_watch watch; /* of fd                                               */
    struct session session; /* with the process that has knocked last              */
    struct loop *loop;
    struct uplink *uplink;
    bool has_given; /* that process, and it has not got all for that       */
};

extern const struct door door_none;

/** Makes it, and tells the program by BOOT_SESSION_VARIABLE. Without it no rank can start. */
void door_open(struct door *door, struct arguments *environment);
/** From now on who knocks is heard. */
void door_begin(struct door *door, struct loop *loop, struct uplink *uplink);
void door_fini(struct door *door);

/** What tuttirun sends of an exchange: PART or UNMET. */
void door_answer(struct door *door, const struct link_message *message);
/** Nothing more will come. */
void door_fail(struct door *door, struct link_text why);

#endif
