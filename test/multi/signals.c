/*
 * A context over UCX, whose libraries take signals, takes none of the program's.
 */
#include <signal.h>
#include <stdio.h>

#include <tutti/tutti.h>

static void own(int number)
{
    (void)number;
}

int main(void)
{
    struct sigaction before[32];
    int taken = 0;
    tutti *t;

    (void)signal(SIGSEGV, own);
    for (int s = 1; s < 32; s++) {
        (void)sigaction(s, NULL, &before[s]);
    }
    if (tutti_init(&t, NULL) != TUTTI_OK || tutti_size(t) != 2) {
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
