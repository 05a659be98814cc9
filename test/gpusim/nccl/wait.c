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

void comm_report_hang(nccl_comm comm, const char *what, uint64_t missing)
{
    char ranks[256] = "";

    for (int rank = 0; rank < comm->ranks; rank++) {
        const size_t used = strlen(ranks);

        if ((missing >> rank & 1) != 0 && rank != comm->rank) {
            (void)snprintf(ranks + used, sizeof ranks - used, "%s %d%s",
                    used == 0 ? " for rank" : ",", rank,
                    segment_state(&comm->segment, rank) == SEGMENT_GONE
                            ? " (which has left)"
                            : "");
        }
    }
    comm_report_fatal("HANG: rank %d of communicator %04llx waits in %s%s", comm->rank,
            (unsigned long long)comm->number, what, ranks);
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
