/*
 * A job whose supervisors are connected in a tree (job_tree.h): what relays say of those below,
 * and what comes over them.
 */
#ifndef TUTTI_LAUNCHER_JOB_TREE_EVENTS_H
#define TUTTI_LAUNCHER_JOB_TREE_EVENTS_H

#include "launcher/job/flow.h"

/** What is said of ranks below this one, in a beat. */
void tree_events_absences(
        struct job *job, struct server_link *carrier, struct link_text below);
/** The link of the rank that is in an envelope when its frame is the next; else NULL. */
struct server_link *tree_events_open(
        struct job *job, const struct link_relayed *relayed);
/** It is reached again, with those below it: tells what they may not have heard. */
void tree_events_welcome_back(struct job *job, struct server_link *link);
/** A relay says who is connected to it. */
void tree_events_child(
        struct job *job, struct server_link *relay, const struct link_child *child);

#endif
