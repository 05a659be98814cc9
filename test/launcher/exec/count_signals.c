/*
 * Counts the signals that reach a program: writes "ready", and on SIGTERM how often
 * SIGUSR1 came.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    sigset_t mask;
    int count = 0;
    int number = 0;

    /* As real-time signals are not, these are merged while they are blocked; each is
     * taken before the next one is sent. */
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGUSR1);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &mask, NULL);
    printf("ready, %s\n", isatty(STDOUT_FILENO) ? "terminal" : "pipe");
    (void)fflush(stdout);
    while (sigwait(&mask, &number) == 0 && number != SIGTERM) {
        count++;
        printf("heard %d\n", count);
        (void)fflush(stdout);
    }
    printf("counted %d\n", count);
    return EXIT_SUCCESS;
}
