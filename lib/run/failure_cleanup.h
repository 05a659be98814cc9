/*
 * What is done once a context has failed.
 */
#ifndef TUTTI_RUN_FAILURE_CLEANUP_H
#define TUTTI_RUN_FAILURE_CLEANUP_H

struct tutti;

/**
 * Engine: tells the other ranks (unless one of them told us), gives up what is launched
 * and ends all operations. Does nothing while the context lives, and cheap afterwards.
 */
void failure_enforce(struct tutti *t);

#endif
