/*
 * Making a context (start.c), and leaving a job in good order (stop.c).
 */
#ifndef TUTTI_RUN_START_H
#define TUTTI_RUN_START_H

#include "run/context.h"
#include "topo/machine.h"

/** What it takes to make a context; what is moved in belongs to it from then on. */
struct context_spec {
    struct config config; /* moved                                              */
    struct log log;
    char warnings[ERROR_TEXT_MAX]; /* about the configuration, a line each            */
    int rank, size;
    struct nodes nodes; /* moved                                              */
    struct nodes
            caches; /* moved; groups of ranks of a node that share a cache, or all of
                            a node; empty where nobody asks                     */
    char cache_id[MACHINE_CACHE_TEXT_MAX]; /* of this rank's cache; "": none  */
    char cpu[MACHINE_CPU_TEXT_MAX]; /* the model of its processor; "": unknown */
    struct transport transport; /* moved                                              */
    struct planner_limits limits;
    size_t chunk_bytes;
    struct op_link link; /* zeroed: one node, or not measured                  */
    struct memory memory;
    bool expects_gpus; /* for start-up: a rank of the job may have one         */
    bool are_connected; /* all ranks have met in the backend of device memory    */
    struct device device; /* zeroed: none; what is behind it outlives the context */
    struct board board; /* zeroed: none; what is behind it outlives the context */
    struct doorbell *bell; /* NULL, or one that outlives the context: peers ring it */
    struct failure_page
            failure_page; /* zeroed: no tuttirun; closed by the context         */
    bool any_thread; /* the transports may be called from any thread       */
    const struct op_backend *backends[DISPATCHER_BACKENDS_MAX]; /* best first       */
    void *natives[DISPATCHER_BACKENDS_MAX];
    int backend_count;
    /*
     * All ranks learn whether one has failed to start: gives TUTTI_OK where none has. NULL:
     * nobody else can.
     */
    tutti_status (*agree)(void *user, tutti_status mine);
    /*
     * Called last, also when starting fails; when failed, messages may be under way. An error
     * says how the job's resources could not be left in order.
     */
    tutti_status (*release)(void *user, bool failed);
    void *user; /* argument of both */
};

/** Asks spec->agree, if there is one. */
static inline tutti_status context_spec_agree(
        const struct context_spec *spec, tutti_status mine)
{
    return spec->agree == NULL ? mine : spec->agree(spec->user, mine);
}

/**
 * Makes a context and starts its background thread, on all ranks or on none. Takes over what
 * spec moves, in any case.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM (no thread), errors of open() and
 *         of agree()
 */
tutti_status context_create(struct tutti **created, struct context_spec *spec);
/** Frees a spec that was not given to context_create(). */
void context_spec_fini(struct context_spec *spec);

/**
 * Collective over the world: waits until all ranks leave and everything in flight is
 * over; then frees the context, also when it had failed.
 * @return TUTTI_OK, TUTTI_ERR_CONTEXT_FAILED; TUTTI_ERR_THREAD in a callback of the context,
 *         or where MPI's thread level forbids it: nothing has changed then
 */
tutti_status context_finalize(struct tutti *t);
/** Stops threads and frees everything; no collective. @return what release() said */
tutti_status context_destroy(struct tutti *t);

#endif
