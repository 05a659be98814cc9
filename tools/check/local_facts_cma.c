/*
 * Whether processes of a job may read each other's memory (process_vm_readv), as MPI does
 * for large messages within a host. Ranks are siblings, and a process may read its own
 * children where it may not read siblings (Yama's ptrace_scope 1), so it takes two
 * children to find out: one has the memory, the other reads it.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/check/local_facts.h"

enum {
    LIMIT_S = 2 /* within which the one is read */
};

/* At the same address in all of them. */
static const char shown[] = "tutti";

static int read_memory(pid_t sibling)
{
    char copy[sizeof shown] = "";
    struct iovec here = { .iov_base = copy, .iov_len = sizeof copy };
    struct iovec there = { .iov_base = (void *)(uintptr_t)shown,
        .iov_len = sizeof copy };
    const ssize_t got = process_vm_readv(sibling, &here, 1, &there, 1, 0);

    if (got < 0) {
        return errno;
    }
    return got == (ssize_t)sizeof copy && strcmp(copy, shown) == 0 ? 0 : EIO;
}

/* Reads in a child. @return errno there */
static int ask_reader(pid_t sibling)
{
    const pid_t reader = fork();
    int status = 0;

    if (reader == 0) {
        _exit(read_memory(sibling));
    }
    return reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status)
            ? WEXITSTATUS(status)
            : ECHILD;
}

uint64_t gather_cma(void)
{
    const pid_t shows = fork();
    int result;

    if (shows == 0) {
        (void)sleep(LIMIT_S);
        _exit(0);
    }
    if (shows < 0) {
        return ECHILD;
    }
    result = ask_reader(shows);
    (void)kill(shows, SIGKILL);
    (void)waitpid(shows, NULL, 0);
    return (uint64_t)result;
}
