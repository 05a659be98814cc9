/*
 * A few negotiators and the messages between them, for tests that play a scene step by
 * step. Nothing is random; messages arrive in the order in which they were sent.
 */
#ifndef TUTTI_TEST_SCENE_H
#define TUTTI_TEST_SCENE_H

#include "agree/negotiator.h"

enum {
    SCENE_RANKS_MAX = 8,
    SCENE_ENDS_MAX = 64
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
    tutti_status status;
    bool mixed;
    char text[ERROR_TEXT_MAX];
};

struct scene_submission {
    struct scene_submission *next;
    struct request request;
};

struct scene {
    int size;
    struct negotiator ranks[SCENE_RANKS_MAX];
    struct scene_message *first, *last; /* under way                           */
    struct scene_end ends[SCENE_ENDS_MAX]; /* in the order in which they came     */
    int end_count;
    char stall[4096]; /* the last report                     */
    int stall_rank; /* who made it                         */
    int world_ranks[SCENE_RANKS_MAX];
    struct tree_shape shape;
    struct scene_submission *submissions; /* what requests are borrowed from */
    uint64_t boards[SCENE_RANKS_MAX][BITS_BOARD_WORDS]; /* what each shows       */
};

/** What carries numbers up the tree. The log goes down by messages in any case. */
enum scene_way {
    SCENE_MESSAGES,
    SCENE_BOARD, /* a rank's words are read before its messages, and by scene_run() */
    SCENE_WAYS
};

/*
 * All ranks are on one node; rank r is world rank 10 + r, and has room for `capacity` numbers.
 * A stall is reported after 1000 ns.
 */

/** False when out of memory. */
bool scene_init(struct scene *scene, enum scene_way way, int size, int capacity);
void scene_fini(struct scene *scene);
/** The same with a scene of which there is one; scene_fini(). */
struct scene *scene_begin(enum scene_way way, int size, int capacity);

/** Of `count` float32, to be summed, under a literal name, which must outlive it. */
struct request scene_collective(int collective, const char *name, int64_t count);
/** The same for an allreduce. */
struct request scene_request(const char *name, int64_t count);
/** A join or a finalize. */
struct request scene_leave(int collective);

/*
 * What happens. Each fails the test when it fails, but for scene_try_...(), which return
 * the status.
 */

/** Submits at one rank; no flush. */
void scene_submit(struct scene *scene, int rank, const struct request *request);
/** Flushes a rank and takes its actions and outcomes. */
tutti_status scene_try_flush(struct scene *scene, int rank);
/** Submits and flushes at one rank. */
void scene_say(struct scene *scene, int rank, const struct request *request);
tutti_status scene_try_say(
        struct scene *scene, int rank, const struct request *request);
/** Asks to cancel at one rank, and flushes. */
void scene_cancel(struct scene *scene, int rank, const struct request *request);
/** The time is `now_ns` at one rank, which looks at the clock and flushes. */
void scene_tick(struct scene *scene, int rank, int64_t now_ns);
/** Delivers the oldest messages, as many as said, and flushes their receivers. */
void scene_deliver(struct scene *scene, int count);
tutti_status scene_try_deliver(struct scene *scene);
/** Delivers until nothing is under way and no word is new. */
void scene_run(struct scene *scene);
tutti_status scene_try_run(struct scene *scene);
/** One rank, or those from `first` to `last`, say it one by one; runs after each. */
void scene_play(struct scene *scene, int rank, const struct request *request);
void scene_play_each(
        struct scene *scene, int first, int last, const struct request *request);
/** All ranks say it, and then it ends well everywhere; forgets the ends. */
void scene_all_ready(struct scene *scene, const struct request *request);
/** Forgets the ends so far. */
void scene_clear(struct scene *scene);
/** How often a name ended with a status. */
int scene_count(const struct scene *scene, const char *name, tutti_status status);

#endif
