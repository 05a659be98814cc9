/*
 * Sleeping on a word: Linux futexes, usable between processes.
 */
#ifndef TUTTI_BASE_FUTEX_H
#define TUTTI_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/**
 * Sleeps while *word == expected, at most timeout_ns (INT64_MAX: for ever). May return
 * early for no reason: callers loop.
 */
void futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
/** Wakes up to n sleepers. */
void futex_wake(_Atomic uint32_t *word, int n);

#endif
