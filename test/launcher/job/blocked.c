/*
 * Of three ranks only rank 1 goes on, and does what its argument says: it waits for rank 2
 * (stall), calls tutti_abort() (abort) or dies (killed). The others stay outside tutti; rank 2
 * comes when it is asked to end, which is too late. Each writes a byte to FILE, so rank 1 knows
 * that they are outside: blocked WHAT FILE
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/tutti.h>

static void say_outside(const char *file)
{
    const int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);

    (void)!write(fd, "x", 1);
    (void)close(fd);
}

static void wait_for_both(const char *file)
{
    struct stat about;

    while (stat(file, &about) != 0 || about.st_size < 2) {
        (void)usleep(1000);
    }
}

/* SIGTERM is blocked, so it does not come before it is waited for. */
static void wait_for_term(const char *file)
{
    sigset_t term;
    int number;

    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, NULL);
    say_outside(file);
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
        say_outside(argv[2]);
        for (;;) {
            (void)pause();
        }
    }
    if (tutti_rank(t) == 1) {
        wait_for_both(argv[2]);
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
