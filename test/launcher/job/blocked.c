/*
 * Of three ranks only rank 1 goes on, and does what its argument says: it waits for rank 2
 * (stall), calls tutti_abort() (abort) or dies (killed). The others stay outside tutti; rank 2
 * comes when it is asked to end, which is too late. It makes the file that is named next, so
 * rank 1 knows that it is outside: blocked WHAT FILE
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

static void hear(int number)
{
    (void)number;
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
        (void)signal(SIGTERM, hear);
        (void)close(creat(argv[2], 0600));
        (void)pause();
    }
    while (tutti_rank(t) == 0) {
        (void)pause();
    }
    while (tutti_rank(t) == 1 && access(argv[2], F_OK) != 0) {
        (void)usleep(1000);
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
