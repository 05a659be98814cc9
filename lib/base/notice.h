/*
 * A page that a rank shares with its supervisor (tuttirun --exec): the supervisor writes
 * why the job has failed, and whom tuttirun suspects of it; the library how far the rank has
 * come, and whether its context has failed. It is a memfd that the program inherits; its
 * number is in the variable TUTTI_INTERNAL_NOTICE.
 *
 * Looking at it is one load, so the engine may do it at every turn.
 */
#ifndef TUTTI_BASE_NOTICE_H
#define TUTTI_BASE_NOTICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

/** The variable that holds the number of the inherited descriptor. */
#define NOTICE_VARIABLE "TUTTI_INTERNAL_NOTICE"

enum {
    NOTICE_TEXT_MAX = 2048, /* bytes of the cause with its terminating zero */
    NOTICE_SUSPICION_MAX = 512, /* the same of a suspicion                       */
    NOTICE_AWAITED_MAX = 512 /* the same of a list of ranks                   */
};

/** How far the library has come in the rank's process. */
enum notice_stage {
    NOTICE_STAGE_NONE, /* no context was made yet                        */
    NOTICE_STAGE_RUNNING, /* a context of several ranks is alive            */
    NOTICE_STAGE_FINALIZED /* the last of them has been finalized; others may follow */
};

/** Whether a context has failed, and how this rank got to know. */
enum notice_failure {
    NOTICE_FAILURE_NONE, /* none has, or this rank has not seen it yet */
    NOTICE_FAILURE_FOUND, /* this rank found the cause                  */
    NOTICE_FAILURE_TOLD /* another rank, or tuttirun, told it         */
};

struct notice_page; /* what is shared; notice.c knows its layout */

/** One side's view. Zeroed is valid: nothing is ever posted, nothing is told. */
struct notice {
    struct notice_page *page; /* mapped; NULL: there is no supervisor */
    int fd; /* the supervisor's; meaningless where page is NULL */
};

/**
 * Supervisor: makes the page. The descriptor is inherited over exec.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status notice_create(struct notice *notice);
/** Supervisor: posts why the job failed; only the first call counts. Rank -1: unknown. */
void notice_post(struct notice *notice, int rank, const char *text);
/** Supervisor: who is not heard, which fails nothing yet; "": nobody any more. */
void notice_suspect(struct notice *notice, const char *text);
/** Supervisor: how far the library has come. */
enum notice_stage notice_stage(const struct notice *notice);
/** Supervisor: whether a context has failed, the first time that one did. */
enum notice_failure notice_failure(const struct notice *notice);
/** Supervisor: what notice_await() wrote, "" for nothing; when the program has ended. */
void notice_awaited(const struct notice *notice, char text[NOTICE_AWAITED_MAX]);
/** Supervisor: the memory is unmapped and the descriptor closed. */
void notice_destroy(struct notice *notice);

/**
 * Library: opens the page whose descriptor's number is `text`, the value of
 * NOTICE_VARIABLE; NULL or a descriptor that is no such page give a zeroed notice. While no
 * context is alive, the failure of an earlier one is forgotten.
 */
void notice_open(struct notice *notice, const char *text);
/** Library: a context of several ranks begins; tells RUNNING. */
void notice_begin(struct notice *notice);
/** Library: one that has begun has ended; tells FINALIZED when it was the last. */
void notice_end(struct notice *notice);
/** Library: a context fails; only the first call counts. Any thread. */
void notice_fail(struct notice *notice, enum notice_failure failure);
/**
 * Library: the ranks, as "0, 3-5", of which some have not come for as long as a stall may
 * last. Call before notice_fail().
 */
void notice_await(struct notice *notice, const char *ranks);
/** Library: true when a cause was posted. One load; any thread. */
bool notice_is_posted(const struct notice *notice);
/** Library: the cause; call only after notice_is_posted(). Text is copied out. */
void notice_read(const struct notice *notice, int *rank, char text[NOTICE_TEXT_MAX]);
/**
 * Library: true when a suspicion has come, changed or gone since *seen, which begins with 0;
 * `text` is it, "" when it is gone. One load where nothing has changed.
 */
bool notice_suspicion(
        const struct notice *notice, uint32_t *seen, char text[NOTICE_SUSPICION_MAX]);
/** Library: unmaps; the descriptor stays open for whoever opens it next. */
void notice_close(struct notice *notice);

#endif
