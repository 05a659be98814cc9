/*
 * A rank ends while the others wait for it: they get an error that names it. Under a launcher that
 * lets the others live, which some only do when the process was not killed.
 *
 *   peer_death killed|exited submitted|silent|finalizing
 *
 * SIGPIPE, which MPI may cause when it writes to the dead rank, does not kill them.
 * submitted, silent: the others wait in a batch that the rank has taken part in, or in one
 * that it never submits. finalizing: in tutti_finalize().
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/mpi.h>

enum {
    COUNT = 8 << 20,
    ROUNDS = 20,
    HANG_SECONDS = 1000
};

static void give_up(const char *what)
{
    (void)fprintf(stderr, "peer_death: %s: %s\n", what, tutti_last_error());
    _Exit(1);
}

static tutti_status sum(tutti *t, float *values)
{
    return tutti_allreduce(
            t, "sum", values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

/* The victim ends in the middle of a batch, or before it. */
static void die(tutti *t, float *values, bool submitted, bool killed)
{
    const struct timespec moment = { .tv_nsec = 4000000 };
    tutti_request request;

    if (submitted) {
        if (tutti_allreduce_async(t, "sum", values, values, COUNT, TUTTI_FLOAT32,
                    TUTTI_SUM, NULL, &request) != TUTTI_OK) {
            give_up("submit");
        }
        /* The background thread begins, and has not ended. */
        (void)nanosleep(&moment, NULL);
    }
    if (killed) {
        (void)raise(SIGKILL);
    }
    _Exit(0);
}

static void survive(tutti *t, float *values, int victim, bool finalizing)
{
    char by_memory[48]; /* what is said, as the death is seen first in shared memory */
    char by_messages[48]; /* ... or by UCX */
    const int rank = tutti_rank(t);
    tutti_status status = finalizing ? tutti_finalize(t) : TUTTI_OK;

    while (status == TUTTI_OK) {
        status = sum(t, values);
    }
    (void)snprintf(by_memory, sizeof by_memory, "rank %d (process ", victim);
    (void)snprintf(by_messages, sizeof by_messages,
            "rank %d is gone: its process has ended", victim);
    if (status != TUTTI_ERR_CONTEXT_FAILED ||
            (strstr(tutti_last_error(), by_messages) == NULL &&
                    (strstr(tutti_last_error(), by_memory) == NULL ||
                            strstr(tutti_last_error(), "has died") == NULL))) {
        give_up("the death was not noticed as it should be");
    }
    (void)printf("rank %d noticed\n", rank);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    const bool killed = argc == 3 && strcmp(argv[1], "killed") == 0;
    const bool submitted = argc == 3 && strcmp(argv[2], "submitted") == 0;
    tutti_status status = TUTTI_OK;
    void *memory = NULL;
    float *values;
    tutti *t;

    (void)alarm(HANG_SECONDS);
    if (tutti_init(&t, NULL) != TUTTI_OK || raise(SIGPIPE) != 0 ||
            tutti_alloc(t, COUNT * sizeof *values, TUTTI_HOST, &memory) != TUTTI_OK) {
        give_up("init");
    }
    values = memory;
    for (int i = 0; i < ROUNDS && status == TUTTI_OK; i++) {
        status = sum(t, values); /* the victim may be faster */
    }
    if (tutti_rank(t) == tutti_size(t) - 1) {
        if (status != TUTTI_OK) {
            give_up("sum");
        }
        die(t, values, submitted, killed);
    }
    survive(t, values, tutti_size(t) - 1,
            argc == 3 && strcmp(argv[2], "finalizing") == 0);
    /* MPI cannot be finalized in order without the dead rank. */
    _Exit(0);
}
