/*
 * Bugs on purpose, for tests that must find them. They exist only in programs that link
 * tutti_planted (test/CMakeLists.txt), which compiles the sources that use FAULT() with
 * TUTTI_FAULTS; elsewhere it is false, and nothing is compiled of what it guards.
 */
#ifndef TUTTI_BASE_FAULTS_H
#define TUTTI_BASE_FAULTS_H

#include <stdbool.h>

#ifdef TUTTI_FAULTS

#    include <tutti/tutti.h>

enum fault {
    FAULT_WAIT_STREAM_BEFORE_ISSUE, /* tutti_wait_stream() does not wait for it      */
    FAULT_REMOVED_EVENT_WAIT, /* a stream does not wait for an event           */
    FAULT_SKIPPED_COLLECTIVE, /* world rank 0 leaves its reductions out       */
    FAULT_UNCHECKED_ERROR, /* what NCCL says about errors is not looked at */
    FAULT_COUNT
};

/** True when the bug is there. Any thread. */
bool fault_is_on(enum fault which);

/**
 * Puts a bug into this process: "removed_event_wait", ...; NULL: takes all out. Any
 * thread.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no such bug)
 */
tutti_status tutti_fault_set(const char *name);

#    define FAULT(name) fault_is_on(FAULT_##name)

#else

#    define FAULT(name) false

#endif

#endif
