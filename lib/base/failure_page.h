/*
 * The failure page: memory that a rank shares with its supervisor (tuttirun --exec).
 *
 * The supervisor writes why the job has failed, and which ranks tuttirun suspects. The
 * library writes how far this rank has come, and whether its context has failed. The page is
 * a memfd that the program inherits; TUTTI_INTERNAL_FAILURE_PAGE holds its number.
 *
 * Reading it costs one load, so the engine looks at every turn.
 */
#ifndef TUTTI_BASE_FAILURE_PAGE_H
#define TUTTI_BASE_FAILURE_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/shared.h"

/** The variable that holds the number of the inherited descriptor. */
#define FAILURE_PAGE_VARIABLE "TUTTI_INTERNAL_FAILURE_PAGE"

enum {
    FAILURE_PAGE_TEXT_MAX = 2048, /* bytes of the cause with its terminating zero */
    FAILURE_PAGE_SUSPICION_MAX =
            512, /* the same of a suspicion                       */
    FAILURE_PAGE_AWAITED_MAX = 512 /* the same of a list of ranks                   */
};

/** How far the library has come in the rank's process. */
enum library_stage {
    LIBRARY_STAGE_NONE, /* no context was made yet                        */
    LIBRARY_STAGE_RUNNING, /* a context of several ranks is alive            */
    LIBRARY_STAGE_FINALIZED, /* the last of them has been finalized; others may follow */
    LIBRARY_STAGE_STARTING /* waits in MPI_Init for all ranks; no context yet */
};

/** Whether a context has failed, and how this rank got to know. */
enum context_failure {
    CONTEXT_FAILURE_NONE, /* none has, or this rank has not seen it yet */
    CONTEXT_FAILURE_FOUND, /* this rank found the cause                  */
    CONTEXT_FAILURE_TOLD /* another rank, or tuttirun, told it         */
};

struct shared_page; /* what is shared; failure_page.c knows its layout */

/** One side's view. Zeroed is valid: nothing is ever posted, nothing is told. */
struct failure_page {
    struct shared_page *shared; /* mapped; NULL: there is no supervisor */
    int fd; /* the supervisor's; meaningless where `shared` is NULL */
};

/**
 * Supervisor: makes the page. The descriptor is inherited over exec.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status failure_page_create(struct failure_page *page);
/** Supervisor: posts why the job failed; only the first call counts. Rank -1: unknown. */
void failure_page_post(struct failure_page *page, int rank, const char *text);
/** Supervisor: who is not heard, which fails nothing yet; "": nobody any more. */
void failure_page_suspect(struct failure_page *page, const char *text);
/** Supervisor: how far the library has come. */
enum library_stage failure_page_stage(const struct failure_page *page);
/** Supervisor: whether a context has failed, the first time that one did. */
enum context_failure failure_page_context_failure(const struct failure_page *page);
/** Supervisor: what failure_page_await() wrote, "" for nothing; when the program has ended. */
void failure_page_awaited(
        const struct failure_page *page, char text[FAILURE_PAGE_AWAITED_MAX]);
/** Supervisor: the memory is unmapped and the descriptor closed. */
void failure_page_destroy(struct failure_page *page);

/**
 * Library: opens the page whose descriptor's number is `text`, the value of
 * FAILURE_PAGE_VARIABLE; NULL or a descriptor that is no such page give a zeroed page. While no
 * context is alive, the failure of an earlier one is forgotten.
 */
void failure_page_open(struct failure_page *page, const char *text)
        TUTTI_SHARED(failure_page_open);
/** Library: MPI_Init begins, which waits for all ranks; tells STARTING. */
void failure_page_start(struct failure_page *page) TUTTI_SHARED(failure_page_start);
/** Library: it has returned; tells NONE. */
void failure_page_started(struct failure_page *page) TUTTI_SHARED(failure_page_started);
/** Library: a context of several ranks begins; tells RUNNING. */
void failure_page_begin(struct failure_page *page);
/** Library: one that has begun has ended; tells FINALIZED when it was the last. */
void failure_page_end(struct failure_page *page);
/** Library: a context fails; only the first call counts. Any thread. */
void failure_page_fail(struct failure_page *page, enum context_failure failure);
/**
 * Library: the ranks, as "0, 3-5", of which some have not come for as long as a stall may
 * last. Call before failure_page_fail().
 */
void failure_page_await(struct failure_page *page, const char *ranks);
/** Library: true when a cause was posted. One load; any thread. */
bool failure_page_is_posted(const struct failure_page *page);
/** Library: the cause; call only after failure_page_is_posted(). Text is copied out. */
void failure_page_read(
        const struct failure_page *page, int *rank, char text[FAILURE_PAGE_TEXT_MAX]);
/**
 * Library: true when a suspicion has come, changed or gone since *seen, which begins with 0;
 * `text` is it, "" when it is gone. One load where nothing has changed.
 */
bool failure_page_suspicion(const struct failure_page *page, uint32_t *seen,
        char text[FAILURE_PAGE_SUSPICION_MAX]);
/** Library: unmaps; the descriptor stays open for whoever opens it next. */
void failure_page_close(struct failure_page *page) TUTTI_SHARED(failure_page_close);

#endif
