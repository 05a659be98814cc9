/*
 * A job whose supervisors are connected in a tree (tree.h): who is reached over whom. Without
 * one, every rank's link has a connection of its own, and all of this is that.
 *
 * A link (session/server.h) is still there for each rank. One that is below a relay has no
 * connection here; it is lost when its relay says that its connection has ended, or when
 * nothing is heard of it for too long. When a relay is lost, those below it are awaited.
 */
#ifndef TUTTI_LAUNCHER_JOB_JOB_TREE_H
#define TUTTI_LAUNCHER_JOB_JOB_TREE_H

#include "launcher/job/flow.h"

enum {
    JOB_TREE_RELAY_MAX = LINK_ADDRESS_MAX + 8 /* "ADDRESS PORT" with its zero */
};

/** Supervisors connected to one where hosts are more than that; 0: all to tuttirun. */
int job_tree_fan_out(const struct job *job);

/** The link over which it is reached; NULL: over none at present. */
struct server_link *job_tree_carrier(struct server_link *link);
/** When something was last heard of it. */
int64_t job_tree_heard(const struct job *job, const struct server_link *link);
/** True when a rank has neither a connection nor a relay. */
static inline bool job_tree_is_lost(const struct server_link *link)
{
    return session_is_lost(&link->session) && !link->is_below;
}

/**
 * Puts a message for a rank, or for LINK_ALL below, where a link is reached.
 * @return the link that is to be flushed; NULL: it is not reached now, and is told later
 */
struct server_link *job_tree_put(
        struct server_link *link, int rank, const struct link_message *message);

/**
 * A supervisor that has said who it is gets its place. Its link may be another one, that of
 * the rank before it lost its relay.
 * @param[out] relay  "ADDRESS PORT" where it is to go, or ""
 * @return its link; NULL: it is no longer wanted
 */
struct server_link *job_tree_join(struct job *job, struct server_link *link,
        const struct link_hello *hello, char relay[JOB_TREE_RELAY_MAX]);
/** A rank is lost: those below it are awaited. */
void job_tree_leave(struct job *job, struct server_link *link);

#endif
