/*
 * Ends what a subreaper was left with.
 */
#include "launcher/join/leftovers.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "launcher/exec/keeper.h"
#include "launcher/exec/procs.h"

enum {
    GRACE_MS = 2000, /* daemons end themselves when their master is gone */
    TERM_MS = 2000, /* between SIGTERM and SIGKILL                      */
    NAP_MS = 5,
    KILL_ROUNDS = 50 /* of 100 ms; what survives that hangs in the kernel */
};

/* Reaps until there is no child (true), or for so long. */
static bool reap_for(int ms)
{
    int64_t end = clock_ns() + (int64_t)ms * 1000000;

    do {
        pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0 && errno == ECHILD) {
            return true;
        }
        if (pid == 0) {
            clock_sleep_ns((int64_t)NAP_MS * 1000000);
        }
    } while (clock_ns() < end);
    return false;
}

void leftovers_end(void)
{
    if (reap_for(GRACE_MS)) {
        return;
    }
    (void)procs_signal_descendants(SIGTERM, KEEPER_NAME);
    if (reap_for(TERM_MS)) {
        return;
    }
    /* Killed ones may have left children to us. */
    for (int i = 0; i < KILL_ROUNDS; i++) {
        (void)procs_signal_descendants(SIGKILL, KEEPER_NAME);
        if (reap_for(100)) {
            return;
        }
    }
}
