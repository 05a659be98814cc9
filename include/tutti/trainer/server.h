/*
 * Parameter servers: some ranks keep the parameters, the others train.
 *
 * The parameters are divided among the server ranks, by bytes. A worker pulls them, computes
 * gradients, and pushes these; a server updates its part. In three modes a pull includes all
 * gradients of all workers so far (synchronous), those that have arrived (asynchronous), or all
 * but the last few (bounded staleness). An evaluator only pulls.
 *
 *     tutti_server_create(t, params, n, &options, &ps);      all ranks
 *     if (tutti_server_role(ps) == TUTTI_ROLE_SERVER) {
 *         tutti_server_serve(ps);                            until all workers are finished
 *     } else {
 *         tutti_server_pull(ps);
 *         each step: backward(); tutti_server_step(ps);      push, then pull
 *         tutti_server_finish(ps);
 *     }
 *     tutti_server_destroy(ps);                              all ranks
 *
 * docs/trainer/parameter-server.md has a complete program.
 */
#ifndef TUTTI_TRAINER_SERVER_H
#define TUTTI_TRAINER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/reducer.h>
#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/* ------------------------------------------------------------------- roles */

/** What a rank does in a job with parameter servers; the names are TensorFlow's. */
typedef enum tutti_role {
    TUTTI_ROLE_BY_RANK =
            0, /**< in options alone: see tutti_server_options.servers     */
    TUTTI_ROLE_CHIEF = 1, /**< the worker whose parameters are the first ones         */
    TUTTI_ROLE_WORKER =
            2, /**< pulls parameters, pushes gradients                     */
    TUTTI_ROLE_SERVER =
            3, /**< keeps a part of the parameters: TensorFlow's "ps"      */
    TUTTI_ROLE_EVALUATOR =
            4 /**< pulls parameters; no worker ever waits for it          */
} tutti_role;

/** TensorFlow's name: "chief", "worker", "ps", "evaluator"; "by rank"; "unknown role". */
const char *tutti_role_name(tutti_role role);

/**
 * The role that the launcher gave to this rank. Local.
 *   TUTTI_ROLES   set by `tuttirun --roles`: the role of each rank of the job;
 *   else TF_CONFIG with a task: the type and index that it names ("master" is a chief);
 *   else          rank 0 is the chief and all other ranks are workers.
 * @param[out] role   never TUTTI_ROLE_BY_RANK
 * @param[out] index  NULL, or its number among the ranks of this role
 * @return TUTTI_OK, TUTTI_ERR_INVALID (NULL argument), TUTTI_ERR_CONFIG (the variable cannot be
 *         understood, or has no role for this rank; the error quotes it)
 */
TUTTI_MUST_USE tutti_status tutti_role_from_environment(
        const tutti *t, tutti_role *role, int *index);

/* ---------------------------------------------------------------- settings */

/** Which gradients a pull has to contain. A worker's clock is the number of its pushes. */
typedef enum tutti_server_mode {
    TUTTI_SERVER_SYNC =
            0, /**< a server averages the gradients of all workers that are not
                                finished and updates once; a pull waits for that update */
    TUTTI_SERVER_ASYNC =
            1, /**< each gradient updates at once; a pull never waits (Hogwild's
                                 and DistBelief's rule)                          */
    TUTTI_SERVER_SSP =
            2 /**< as ASYNC, but a worker at clock c reads only when every worker
                              that is not finished has reached c - staleness (Ho et al.,
                              "More Effective Distributed ML via a Stale Synchronous Parallel
                              Parameter Server", NIPS 2013, section 3)           */
} tutti_server_mode;

/** A part of a parameter, on the server that keeps it; valid during the update. */
typedef struct tutti_server_slice {
    const char *name; /**< of the parameter                                        */
    size_t param; /**< its index                                               */
    int64_t first; /**< index in the parameter of value[0]                      */
    int64_t count; /**< elements                                                */
    tutti_dtype dtype; /**< of value and gradient                                   */
    void *value; /**< to be updated; keeps its address                        */
    const void
            *gradient; /**< averaged over the workers (SYNC), or of one worker      */
    double rate; /**< learning rate of the worker (of the first worker, in SYNC) */
    int64_t update; /**< updates of this slice before this one                   */
} tutti_server_slice;

/** Settings; equal on all ranks except for role, update and user. */
typedef struct tutti_server_options {
    size_t size; /**< sizeof(tutti_server_options) as the caller knew it     */
    tutti_server_mode
            mode; /**< default TUTTI_SERVER_SYNC                               */
    int staleness; /**< 0 or more; used by TUTTI_SERVER_SSP alone; default 0     */
    tutti_role
            role; /**< of this rank; default TUTTI_ROLE_BY_RANK: rank 0 is the chief, the
                          next ones are workers, then come `servers` servers, and last
                          `evaluators` evaluators. All ranks give a role, or none does */
    int servers; /**< with TUTTI_ROLE_BY_RANK: number of servers; default 1   */
    int evaluators; /**< with TUTTI_ROLE_BY_RANK: evaluators; default 0          */
    double rate; /**< learning rate until tutti_server_set_rate(); default 0.01 */
    double momentum; /**< velocity = momentum * velocity + gradient + weight_decay * value;
                          value -= rate * velocity. Default 0                    */
    double weight_decay; /**< default 0                                               */
    void (*update)(
            void *user, const tutti_server_slice *slice); /**< on servers, in place of
                          that rule; on the thread in tutti_server_serve(), one call at a
                          time. Must not call tutti. Default NULL                */
    void *user; /**< passed to update                                        */
    const char *name; /**< in front of the names of all operations; copied; default
                           "server"                                              */
    int64_t split_bytes; /**< no part of a divided parameter is smaller; default 64 KiB */
} tutti_server_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_server_options_default_sized(tutti_server_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_server_options_default(options) \
    tutti_server_options_default_sized((options), sizeof(tutti_server_options))

/** Last entry of a report's histogram: this staleness, or more. */
#define TUTTI_SERVER_STALENESS_LAST 15

/** What this rank has seen since tutti_server_create(). */
typedef struct tutti_server_report {
    size_t size; /**< sizeof(tutti_server_report), set by the caller           */
    int64_t clock; /**< of a worker: its pushes; of a server: its updates       */
    int64_t slowest; /**< clock of the slowest worker that is not finished, in the last
                          parameters pulled; of a server: now                    */
    bool over; /**< no worker was still training when the last parameters were
                    pulled; of a server: now                                     */
    int64_t pushes; /**< sent; of a server: received                             */
    int64_t pulls; /**< received; of a server: answered                         */
    int64_t staleness; /**< largest clock - slowest of a worker's pulls             */
    int64_t histogram[TUTTI_SERVER_STALENESS_LAST +
            1]; /**< pulls by clock - slowest   */
    int64_t sent_bytes; /**< of gradients, parameters and headers                    */
    int64_t received_bytes; /**< likewise                                            */
    int64_t wait_ns; /**< inside push, pull and finish; of a server: asleep       */
} tutti_server_report;

/* ------------------------------------------------------------------- calls */

/** The parameters of a model on servers, as one rank sees them. Opaque. */
typedef struct tutti_server tutti_server;

/**
 * Divides the parameters among the servers, which get the chief's values. Collective over the
 * world: if one rank fails, all do. Makes a process set for each pair of a server and another
 * rank.
 *
 * A server needs memory for its part, once more with momentum, and once more for every worker
 * and evaluator; a worker or evaluator needs memory for all parameters once more.
 * @param params   n parameters, float32 or float64, copied, their memory borrowed: `value`
 *                 (not on servers) is where pulls write, `gradient` (of chief and workers) is
 *                 what a push sends. Shapes and compressors are not used
 * @param options  NULL for the defaults; copied
 * @param[out] ps  destroyed with tutti_server_destroy(), before tutti_finalize()
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names the parameter or setting, its value and the
 *         rank; also if no server, no worker, or several chiefs are left),
 *         TUTTI_ERR_UNSUPPORTED (another type, or a server rank has no background thread:
 *         tutti_has_background()), TUTTI_ERR_MISMATCH (ranks differ in parameters or
 *         settings), TUTTI_ERR_NO_MEMORY, TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED
 */
TUTTI_MUST_USE tutti_status tutti_server_create(tutti *t, const tutti_param *params,
        size_t n, const tutti_server_options *options, tutti_server **ps);

/**
 * Releases it. Collective over the world. NULL is allowed.
 * @return TUTTI_OK; TUTTI_ERR_INVALID if this rank is not finished (a server: has not served)
 *         and nothing has failed: nothing has changed
 */
tutti_status tutti_server_destroy(tutti_server *ps);

/** The role of this rank; never TUTTI_ROLE_BY_RANK. */
tutti_role tutti_server_role(const tutti_server *ps);

/**
 * Sums and updates until all workers and evaluators are finished. On server ranks, once. The
 * thread sleeps while nothing arrives.
 * @return TUTTI_OK; TUTTI_ERR_INVALID (no server, or a second time);
 *         TUTTI_ERR_CONTEXT_FAILED (a rank died), or another status if the server cannot go
 *         on, for example TUTTI_ERR_FINALIZED because a worker finalized without
 *         tutti_server_finish(); the context then fails, so that no rank waits for it
 */
TUTTI_MUST_USE tutti_status tutti_server_serve(tutti_server *ps);

/**
 * Sends the gradients to the servers; on chief and workers. When it returns, the gradients may
 * be written again. One thread of a rank at a time calls this and the following functions.
 * @return TUTTI_OK; TUTTI_ERR_INVALID (another role, before the first pull, or finished);
 *         TUTTI_ERR_CONTEXT_FAILED, ...: see tutti_wait(). If servers are left with different
 *         clocks, the context fails
 */
TUTTI_MUST_USE tutti_status tutti_server_push(tutti_server *ps);

/**
 * Receives the parameters from the servers into `value`, as soon as the mode allows it. On
 * chief, workers and evaluators. An evaluator never waits for a worker, and never delays one.
 * @return as tutti_server_push(); TUTTI_ERR_PROTOCOL if a server broke the bound of staleness
 */
TUTTI_MUST_USE tutti_status tutti_server_pull(tutti_server *ps);

/** tutti_server_push() and tutti_server_pull() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_server_step(tutti_server *ps);

/**
 * No push follows. A worker waits until all workers are finished and then receives the final
 * parameters, which are the same on all workers; an evaluator does not wait and receives the
 * present ones.
 * @return as tutti_server_pull(); TUTTI_ERR_INVALID also when finished before
 */
TUTTI_MUST_USE tutti_status tutti_server_finish(tutti_server *ps);

/**
 * Sets the learning rate that goes with the following pushes of this rank. With ASYNC and SSP,
 * n workers update n times per clock, each with a gradient of its own: the rate that corresponds
 * to one of SYNC is 1/n of that.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (not finite)
 */
tutti_status tutti_server_set_rate(tutti_server *ps, double rate);

/**
 * Reads the counters. On a server after tutti_server_serve().
 * @param[in,out] report  report->size set; only the fields within it are written
 * @return TUTTI_OK, TUTTI_ERR_INVALID
 */
TUTTI_MUST_USE tutti_status tutti_server_report_get(
        const tutti_server *ps, tutti_server_report *report);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
