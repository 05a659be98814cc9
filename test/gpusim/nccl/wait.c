/*
 * Waiting for other ranks, and the report when it takes too long.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/comm.h"

enum {
    NS_PER_S = 1000000000,
    PAUSE_NS = 100000000 /* a wait looks again after this, whatever its bell says */
};

bool comm_pause(nccl_comm comm, uint32_t seen, struct patience *patience)
{
    int64_t limit = (int64_t)gpusim_option("GPUSIM_HANG_S", 100) * NS_PER_S;

    if (patience->since == 0) {
        patience->since = clock_ns();
    }
    if (comm->segment.shared != NULL) {
        segment_sleep(&comm->segment, seen, PAUSE_NS);
    } else {
        clock_sleep_ns(NS_PER_S / 1000);
    }
    if (patience->reported || clock_ns() - patience->since < limit) {
        return false;
    }
    patience->reported = true;
    return true;
}

void comm_say(nccl_comm comm, const char *format, ...)
{
    char text[SEGMENT_TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)pthread_mutex_lock(&comm->lock);
    memcpy(segment_rank(&comm->segment, comm->rank)->doing, text, sizeof text);
    (void)pthread_mutex_unlock(&comm->lock);
}

/* Adds formatted text behind what is there; what does not fit is cut off. */
static void add(char *text, size_t capacity, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t capacity, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text + used, capacity - used, format, arguments);
    va_end(arguments);
}

static const char *state_text(enum segment_state state)
{
    static const char *const texts[] = {
        [SEGMENT_ABSENT] = "has not called ncclCommInitRank",
        [SEGMENT_CLAIMED] = "is in ncclCommInitRank",
        [SEGMENT_TOLD] = "is in ncclCommInitRank",
        [SEGMENT_READY] = "is idle",
        [SEGMENT_REFUSED] = "has refused the communicator",
        [SEGMENT_GONE] = "has left the communicator",
    };

    return texts[state];
}

void comm_report_hang(nccl_comm comm, const char *what, uint64_t missing)
{
    char text[2048] = "";
    char doing[SEGMENT_TEXT_BYTES];
    enum segment_state state;
    int rank;

    for (rank = 0; comm->segment.shared != NULL && rank < comm->ranks; rank++) {
        if ((missing >> rank & 1) == 0 || rank == comm->rank) {
            continue;
        }
        state = segment_state(&comm->segment, rank);
        memcpy(doing, segment_rank(&comm->segment, rank)->doing, sizeof doing);
        doing[sizeof doing - 1] = '\0';
        add(text, sizeof text, "%srank %d, which %s", text[0] == '\0' ? "" : "; ", rank,
                state == SEGMENT_READY && doing[0] != '\0' ? doing : state_text(state));
    }
    comm_report_fatal("HANG: rank %d of communicator %04llx waits in %s for %s",
            comm->rank, (unsigned long long)comm->number, what,
            text[0] == '\0' ? "other ranks" : text);
}

_Noreturn void comm_report_fatal(const char *format, ...)
{
    char text[3072];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    gpusim_report("%s", text);
    (void)fflush(NULL);
    _exit(97);
}
