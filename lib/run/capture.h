/*
 * Operations whose stream is being captured in a CUDA graph. They are put into the graph while a
 * thread waits for some of them in tutti_wait_stream(), on the stream that it names; then they
 * are done as far as this process is concerned.
 */
#ifndef TUTTI_RUN_CAPTURE_H
#define TUTTI_RUN_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

struct batch;
struct tutti;

/** Zeroed: nobody waits. */
struct captures {
    tutti_stream stream; /* that batches are put on; lock                            */
    uint32_t threads; /* that wait with it; lock                                  */
    _Atomic uint32_t
            issuing; /* batches that are being put there; written by the engine */
};

/**
 * Refuses an operation of a graph that tutti_wait_stream() cannot wait for.
 * @param way_out  "use ..."
 * @return TUTTI_ERR_INVALID
 */
tutti_status capture_refuse(const struct tutti *t, const char *name,
        tutti_stream stream, const char *way_out);

/**
 * From now on captured batches go to this stream, until capture_leave(); it must not be used
 * before capture_is_idle().
 * Errors: TUTTI_ERR_INVALID: another thread waits with another stream.
 */
tutti_status capture_enter(struct tutti *t, tutti_stream stream);
void capture_leave(struct tutti *t);
/** True when no batch is being put on the stream, or the context has failed. @param t  struct tutti */
bool capture_is_idle(void *t);

/** Engine: gives a batch its stream. Errors: nobody waits, and its turn has come. */
tutti_status capture_begin(struct tutti *t, struct batch *batch);
/** Engine: it is in the graph. */
void capture_end(struct tutti *t);

#endif
