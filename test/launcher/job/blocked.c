/*
 * Of three ranks only rank 1 goes on, and does what its argument says: it waits for rank 2
 * (stall), calls tutti_abort() (abort) or dies (killed). The others stay outside tutti; rank 2
 * comes when it is asked to end, which is too late. They make FILE.0 and FILE.2, so rank 1 knows
 * that they are outside: blocked WHAT FILE
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

/* Makes the file of this rank. */
static void go_outside(const char *file, int rank)
{
    char name[512];

    (void)snprintf(name, sizeof name, "%s.%d", file, rank);
    (void)close(creat(name, 0600));
}

static void wait_for_rank(const char *file, int rank)
{
    char name[512];

    (void)snprintf(name, sizeof name, "%s.%d", file, rank);
    while (access(name, F_OK) != 0) {
        (void)usleep(1000);
    }
}

/* Here SIGTERM does not come between two calls. */
static void wait_for_term(const char *file)
{
    sigset_t term;
    int number;

    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, NULL);
    go_outside(file, 2);
    (void)sigwait(&term, &number);
}

static const int members[] = { 1, 2 };

int main(int argc, char **argv)
{
    const char *what = argc == 3 ? argv[1] : "";
    tutti_options options;
    int64_t value = 1;
    tutti *t;

    tutti_options_default(&options);
    if (*what == '\0' || tutti_init(&t, NULL) != TUTTI_OK ||
            tutti_process_set_create(t, members, 2, &options.process_set) != TUTTI_OK) {
        (void)fprintf(stderr, "blocked: %s\n", tutti_last_error());
        return 1;
    }
    if (tutti_rank(t) == 2) {
        wait_for_term(argv[2]);
    }
    if (tutti_rank(t) == 0) {
        go_outside(argv[2], 0);
        for (;;) {
            (void)pause();
        }
    }
    if (tutti_rank(t) == 1) {
        wait_for_rank(argv[2], 0);
        wait_for_rank(argv[2], 2);
    }
    if (strcmp(what, "killed") == 0) {
        (void)raise(SIGKILL);
    }
    if (strcmp(what, "abort") == 0) {
        (void)tutti_abort(t, "rank 1 gives up");
    }
    if (tutti_allreduce(t, "pair", &value, &value, 1, TUTTI_INT64, TUTTI_SUM,
                &options) != TUTTI_ERR_CONTEXT_FAILED) {
        return 1;
    }
    return tutti_finalize(t) == TUTTI_ERR_CONTEXT_FAILED ? 3 : 1;
}
