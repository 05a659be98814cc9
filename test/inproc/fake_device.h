/*
 * A device for tests, on host memory, and a backend for it. Its events pass, and its batches
 * are issued, when the test says so; every reference is counted.
 */
#ifndef TUTTI_TEST_FAKE_DEVICE_H
#define TUTTI_TEST_FAKE_DEVICE_H

#include <pthread.h>

#include "ops/device.h"

enum {
    FAKE_BLOCKS_MAX = 64,
    FAKE_FOLLOWS_MAX = 4096
};

/** A stream that waited for an event. */
struct fake_follow {
    tutti_stream stream;
    uint64_t event; /* its number */
};

/** All of it under its lock. */
struct fake_device {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything, for fake_await_issued()                */
    bool held; /* events do not pass                                           */
    bool gated; /* batches are not issued                                      */
    bool lost; /* passed() says so                                            */
    bool full; /* record() has no memory                                        */
    tutti_stream foreign; /* a stream that is refused; NULL: none             */
    int quits_needed; /* quit() and cancel() say false so often; then nothing is held */
    int quits; /* calls of these                                              */
    uint64_t made; /* events                                                   */
    int references; /* of all events                                           */
    int given; /* blocks of memory that are handed out                        */
    int started; /* batches                                                   */
    int issued; /* batches                                                    */
    size_t events_of_last; /* op_batch.after_count of the last batch           */
    size_t runs_of_last; /* its op_batch.run_count                            */
    struct fake_follow follows[FAKE_FOLLOWS_MAX];
    int follow_count;
    struct {
        char *memory;
        size_t bytes;
    } blocks[FAKE_BLOCKS_MAX];
};

void fake_device_init(struct fake_device *fake);
void fake_device_fini(struct fake_device *fake);
/** The interface of the core over it. */
struct device fake_device(struct fake_device *fake);

/** Takes batches of device memory of a set of one; native is the fake_device. */
extern const struct op_backend op_fake;

/** Device memory that is not of tutti_alloc(). */
void *fake_memory(struct fake_device *fake, size_t bytes);
/** Events pass, or do not. */
void fake_hold(struct fake_device *fake, bool held);
/** Batches are issued, or are not. */
void fake_gate(struct fake_device *fake, bool gated);
/** Waits until so many batches were issued. */
void fake_await_issued(struct fake_device *fake, int issued);
/** quits_needed from now on. */
void fake_need_quits(struct fake_device *fake, int quits);
/** A number under the lock. */
int fake_get(struct fake_device *fake, const int *number);
/** Events that were made so far. */
uint64_t fake_made(struct fake_device *fake);

#endif
