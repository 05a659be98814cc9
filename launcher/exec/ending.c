/*
 * How a program has ended.
 */
#include "launcher/exec/ending.h"

#include <signal.h>
#include <sys/wait.h>

bool ending_was_asked(uint64_t signals)
{
    return (signals &
                   (ending_signal(SIGTERM) | ending_signal(SIGINT) |
                           ending_signal(SIGHUP) | ending_signal(SIGQUIT))) != 0;
}

void ending_describe(const struct ending *ending, struct link_exited *exited)
{
    int status = ending->wait_status;
    bool by_signal = WIFSIGNALED(status);

    exited->was_stopped = ending->was_stopped || ending_was_asked(ending->signals);
    if (ending->setup_errno != 0) {
        exited->ending = LINK_ENDED_SETUP;
        exited->value = (uint32_t)ending->setup_errno;
    } else if (ending->exec_errno != 0) {
        exited->ending = LINK_ENDED_EXEC;
        exited->value = (uint32_t)ending->exec_errno;
    } else if (by_signal) {
        exited->ending = LINK_ENDED_SIGNAL;
        exited->value = (uint32_t)WTERMSIG(status);
        exited->dumped_core = WCOREDUMP(status);
        exited->was_stopped = exited->was_stopped ||
                (ending->signals & ending_signal(WTERMSIG(status))) != 0;
    } else {
        exited->ending = LINK_ENDED_EXIT;
        exited->value = (uint32_t)WEXITSTATUS(status);
    }
}
