#include "launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <tutti/trainer/elastic.h>

enum kind {
    ASKS = 1,
    ENDS = 2,
    SUSPENDS = 4
};

static const struct {
    int number;
    enum kind kind;
} signals[] = { { SIGUSR1, ASKS }, { SIGUSR2, ASKS }, { SIGINT, ENDS },
    { SIGTERM, ENDS }, { SIGHUP, ENDS }, { SIGQUIT, ENDS }, { SIGTSTP, SUSPENDS } };

/* What exec is to restore: a process has one such state. */
static sigset_t inherited_mask;
static struct sigaction inherited_pipe;
static volatile sig_atomic_t terminated = 128 + SIGTERM; /* exit status */

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* One that is blocked is kept although it is ignored: such ones are left out. */
static sigset_t set_of(unsigned kinds)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if ((kinds & signals[i].kind) != 0 && !is_ignored(signals[i].number)) {
            (void)sigaddset(&set, signals[i].number);
        }
    }
    return set;
}

static void leave(int number)
{
    _exit(number == SIGTERM ? terminated : 128 + number);
}

void signals_begin(void)
{
    sigset_t set = set_of(ASKS);

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        const int number = signals[i].number;

        /* The first process of a container ends by no signal that it does not handle. */
        if (getpid() == 1 && signals[i].kind == ENDS && !is_ignored(number)) {
            (void)signal(number, leave);
        }
    }
    (void)sigaddset(&set, SIGXFSZ); /* a file that may not grow is an error */
    (void)pthread_sigmask(SIG_BLOCK, &set, &inherited_mask);
    (void)sigdelset(&inherited_mask, SIGCHLD);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigaction(SIGPIPE, NULL, &inherited_pipe);
}

void signals_restore(void)
{
    (void)sigaction(SIGPIPE, &inherited_pipe, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &inherited_mask, NULL);
}

void signals_hold(sigset_t *before)
{
    const sigset_t set = set_of(ENDS);

    (void)pthread_sigmask(SIG_BLOCK, &set, before);
}

void signals_let(const sigset_t *before)
{
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

void signals_let_all(void)
{
    const sigset_t set = set_of(ENDS);

    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int signals_open_held(void)
{
    const sigset_t set = set_of(ENDS);

    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int signals_open(int also)
{
    sigset_t set = set_of(ASKS | ENDS | SUSPENDS);

    if (also != 0) {
        (void)sigaddset(&set, also);
    }
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

void signals_leave_again(void)
{
    terminated = TUTTI_EXIT_AGAIN;
    if (!is_ignored(SIGTERM)) {
        (void)signal(SIGTERM, leave);
    }
}
