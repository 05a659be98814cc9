/*
 * A context over UCX, whose libraries take signals, takes none of the program's, and starts while they
 * come, as those of a profiler.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <tutti/tutti.h>

static void own(int number)
{
    (void)number;
}

/* Rank 0 waits for the other meanwhile. */
static tutti_status start(tutti **t)
{
    const struct itimerval often = { { .tv_usec = 1000 }, { .tv_usec = 1000 } };
    tutti_status status;

    (void)setitimer(ITIMER_REAL, &often, NULL);
    if (strcmp(getenv("RANK"), "1") == 0) {
        for (int tick = 0; tick < 100; tick++) {
            (void)pause();
        }
    }
    status = tutti_init(t, NULL);
    (void)setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
    return status;
}

int main(void)
{
    struct sigaction before[32];
    int taken = 0;
    tutti *t;

    (void)signal(SIGSEGV, own);
    (void)signal(SIGALRM, own);
    for (int s = 1; s < 32; s++) {
        (void)sigaction(s, NULL, &before[s]);
    }
    if (start(&t) != TUTTI_OK || tutti_size(t) != 2) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    for (int s = 1; s < 32; s++) {
        struct sigaction after;

        if (sigaction(s, NULL, &after) == 0 &&
                after.sa_handler != before[s].sa_handler) {
            (void)fprintf(stderr, "signal %d is taken\n", s);
            taken++;
        }
    }
    return tutti_finalize(t) == TUTTI_OK ? taken : 1;
}
