/*
 * Helpers: threads that wait beside the driver and compute for it.
 *
 * The driver of a rank hands out jobs of independent pieces, such as the elements of a
 * sum. Threads of the rank that wait for something take pieces, too, while there are cores
 * that nobody uses. One job at a time; it is over when all its pieces are.
 *
 *     a waiting thread   helpers_take_part(), then sleeps on the bell
 *     the driver         helpers_share(), which rings the bell when there are idle cores and
 *                        too few helpers, but not for every job
 *
 * A helper has a seat. It keeps it while jobs follow each other within the time that
 * waiting threads may spin, and takes pieces without a system call; after that it sleeps as
 * if there were no helpers. The number of seats follows the load: helpers and cores that
 * nobody uses, seen at most every 500 us. When there are more helpers than seats, they
 * leave one by one.
 */
#ifndef TUTTI_RUN_HELPERS_H
#define TUTTI_RUN_HELPERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/cpu.h"
#include "base/doorbell.h"

struct helpers {
    /* fixed */
    uint32_t most; /* helpers at once; 0: there are none */
    int64_t patience_ns; /* how long a helper waits for the next job */
    struct doorbell *bell; /* where waiting threads sleep; borrowed */

    /* The job: written by the driver while `gate` is 0, read by helpers inside. */
    void (*piece)(void *arg, size_t index);
    void *arg;
    size_t pieces;
    _Atomic size_t next; /* piece that nobody has taken */
    _Atomic uint32_t gate; /* HELPERS_OPEN, and how many helpers are inside */

    /* Hints: they order nothing. */
    _Atomic uint32_t hot; /* helpers with a seat */
    _Atomic uint32_t seats; /* for how many there are cores */
    _Atomic int64_t offered_ns; /* when the driver last had, or will have, a job */
    _Atomic uint64_t helped; /* pieces that helpers have done; a statistic */

    _Atomic int64_t look_ns; /* look at the load again then; INT64_MAX: one does */
    struct cpu_load load; /* of the thread that looks; its descriptor is borrowed */
    int64_t called_ns; /* of the driver: when it last rang */
};

/** Of `gate`: helpers may enter. */
#define HELPERS_OPEN ((uint32_t)1 << 31)

/**
 * Zeroed memory becomes helpers of which there are none; nothing needs to be undone.
 * @param config  reduce_threads, spin_us
 * @param bell    outlives the helpers
 * @param load    initialised; copied, with its descriptor, which must outlive the helpers
 */
void helpers_init(struct helpers *helpers, const struct config *config,
        struct doorbell *bell, const struct cpu_load *load);

/** False when the configuration leaves no helpers; does not change. */
bool helpers_may_help(const struct helpers *helpers);

/**
 * Runs piece(arg, i) once for each i below `pieces`, on this thread and on helpers. When it
 * returns no helper will touch the job any more. Only the driver may call it, and not from
 * a piece.
 * @return false: nobody helps now, and nothing was done
 */
bool helpers_share(struct helpers *helpers, void (*piece)(void *arg, size_t index),
        void *arg, size_t pieces);

/**
 * Helps while there is work, a seat, and no ring of the bell since `seen`, up to the
 * deadline. Returns at once when there is nothing to do. Any thread but the driver.
 * @param deadline_ns  clock_ns(); INT64_MAX: none
 */
void helpers_take_part(struct helpers *helpers, uint32_t seen, int64_t deadline_ns);

#endif
