/*
 * Whether processes of a job may read each other's memory (process_vm_readv), as MPI does
 * for large messages within a host. Ranks are siblings, and a process may read its own
 * children where it may not read siblings (Yama's ptrace_scope 1), so it takes two
 * children to find out: one has the memory, the other reads it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/check/local_facts.h"

enum {
    LIMIT_MS = 2000, /* within which the one is read */
    BYTES = 6
};

/* At an address that parent and children share. */
static int read_memory(pid_t sibling, char *text)
{
    char copy[BYTES] = "";
    struct iovec here = { .iov_base = copy, .iov_len = BYTES };
    struct iovec there = { .iov_base = text, .iov_len = BYTES };
    const ssize_t got = process_vm_readv(sibling, &here, 1, &there, 1, 0);

    if (got < 0) {
        return errno;
    }
    return got == BYTES && memcmp(copy, text, BYTES) == 0 ? 0 : EIO;
}

/* Reads in a child. @return errno there */
static int ask_reader(pid_t sibling, char *text)
{
    const pid_t reader = fork();
    int status = 0;

    if (reader == 0) {
        _exit(read_memory(sibling, text));
    }
    return reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status)
            ? WEXITSTATUS(status)
            : ECHILD;
}

uint64_t gather_cma(void)
{
    char text[BYTES] = "tutti";
    const pid_t shows = fork();
    int result;

    if (shows == 0) {
        (void)poll(NULL, 0, LIMIT_MS);
        _exit(0);
    }
    if (shows < 0) {
        return ECHILD;
    }
    result = ask_reader(shows, text);
    (void)kill(shows, SIGKILL);
    (void)waitpid(shows, NULL, 0);
    return (uint64_t)result;
}
