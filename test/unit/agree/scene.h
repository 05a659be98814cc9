/*
 * A few negotiators and the messages between them, for tests that play a scene step by
 * step. Nothing is random; messages arrive in the order in which they were sent.
 */
#ifndef TUTTI_TEST_SCENE_H
#define TUTTI_TEST_SCENE_H

#include "agree/negotiator.h"

enum {
    SCENE_RANKS_MAX = 8,
    SCENE_ENDS_MAX = 64,
    SCENE_CELLS = 2 * PLAN_LANES_MAX
};

struct scene_message {
    struct scene_message *next;
    int from, to;
    size_t len;
    uint8_t bytes[];
};

/** A submission that ended. */
struct scene_end {
    int rank;
    const char *name; /* the request's cookie, or "without" this rank */
    unsigned joined; /* set ranks, as bits                          */
    int last; /* of a join                                   */
    int64_t count; /* where it is without this rank               */
    tutti_status status;
    uint64_t turn;
    uint32_t lane;
    char text[ERROR_TEXT_MAX];
};

struct scene {
    int size;
    struct negotiator ranks[SCENE_RANKS_MAX];
    struct scene_message *first, *last; /* under way                           */
    struct scene_end ends[SCENE_ENDS_MAX]; /* in the order in which they came     */
    int end_count;
    char stall[4096]; /* the last report                     */
    int stall_rank; /* who made it                         */
    char notes[SCENE_RANKS_MAX][512]; /* the last note of each rank            */
    int world_ranks[SCENE_RANKS_MAX];
    struct {
        uint64_t word, detail;
    } flags[SCENE_RANKS_MAX][SCENE_CELLS]; /* what each shows                    */
};

/** All on one node; rank r is world rank 10 + r. False when out of memory. */
bool scene_init(struct scene *scene, int size, int fanout, int capacity);
void scene_fini(struct scene *scene);
/** From now on they plan, on that many lanes but one; arrivals are messages. */
void scene_plan(struct scene *scene, int lanes, int window);
/** The same with arrival flags, which scene_run() reads. */
void scene_plan_with_flags(struct scene *scene, int lanes, int window);

/** An allreduce of `count` float32 under a literal name, which must outlive it. */
struct request scene_request(const char *name, int64_t count);
/** A join or a finalize. */
struct request scene_leave(int collective);
/** Submits at one rank; no flush. */
tutti_status scene_submit(struct scene *scene, int rank, const struct request *request);
/** Flushes a rank and takes its actions and outcomes. */
tutti_status scene_flush(struct scene *scene, int rank);
/** Submits and flushes at one rank. */
tutti_status scene_say(struct scene *scene, int rank, const struct request *request);
/** Delivers the oldest message and flushes its receiver. */
tutti_status scene_deliver(struct scene *scene);
/** All read the arrival flags, if there are any, until nothing is new; delivers nothing. */
tutti_status scene_look(struct scene *scene);
/** Delivers until nothing is under way, and no arrival flag is new. */
tutti_status scene_run(struct scene *scene);
/** Submits at all ranks and runs; fails the test unless it ends well everywhere. */
void scene_all_ready(struct scene *scene, const struct request *request);
/** All join, and it is over; forgets the ends. */
void scene_join(struct scene *scene);
/** Forgets the ends so far. */
void scene_clear(struct scene *scene);
/** How often a name ended with a status. */
int scene_count(const struct scene *scene, const char *name, tutti_status status);

#endif
