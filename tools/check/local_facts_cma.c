/*
 * Whether processes of a job may read each other's memory (process_vm_readv), as MPI does
 * for large messages within a host. Ranks are siblings, and a process may read its own
 * children where it may not read siblings (Yama's ptrace_scope 1), so it takes two
 * children to find out: one shows a page, the other reads it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/process.h"
#include "tools/check/local_facts.h"

enum {
    LINE_MAX_BYTES = 64
};

static const char shown[] = "tutti";
static const int64_t limit_ns = INT64_C(2000000000);

int gather_cma_page(void)
{
    char byte;

    (void)printf("%" PRIuPTR "\n", (uintptr_t)shown);
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}

int gather_cma_read(const char *pid, const char *address)
{
    char copy[sizeof shown] = "";
    struct iovec here = { .iov_base = copy, .iov_len = sizeof copy };
    struct iovec there = { .iov_len = sizeof copy };
    uint64_t number;
    uint64_t place;
    ssize_t got;

    if (!facts_number(pid, &number) || !facts_number(address, &place)) {
        return EINVAL;
    }
    there.iov_base = (void *)(uintptr_t)place; /* NOLINT(performance-no-int-to-ptr) */
    got = process_vm_readv((pid_t)number, &here, 1, &there, 1, 0);
    if (got < 0) {
        return errno;
    }
    return got == (ssize_t)sizeof copy && strcmp(copy, shown) == 0 ? 0 : EIO;
}

static bool read_address(struct process *page, char *line, size_t capacity)
{
    const int64_t until = clock_ns() + limit_ns;
    struct loop loop;
    bool is_read = false;
    bool goes_on = loop_init(&loop) == TUTTI_OK;

    process_watch(page, &loop);
    while (goes_on && !is_read) {
        (void)loop_turn(&loop, until);
        is_read = process_take_line(page, line, capacity);
        goes_on = !page->has_ended && clock_ns() < until;
    }
    page->loop = NULL;
    loop_fini(&loop);
    return is_read;
}

/* Asks another child to read the page that one shows. */
static uint64_t ask_reader(
        const char *self, pid_t shows, const char *address, char *const *environment)
{
    struct arguments command = { .items = NULL };
    struct process reader;
    uint64_t result = ECHILD;

    arguments_add(&command, self);
    arguments_add(&command, "--check-host");
    arguments_add(&command, "read");
    arguments_add_format(&command, "%ld", (long)shows);
    arguments_add(&command, address);
    if (!command.failed &&
            process_run(&reader, command.items, environment, clock_ns() + limit_ns) ==
                    TUTTI_OK) {
        result = (uint64_t)reader.status;
        process_fini(&reader);
    }
    arguments_fini(&command);
    return result;
}

uint64_t gather_cma(const char *self, char *const *environment)
{
    struct arguments command = { .items = NULL };
    char address[LINE_MAX_BYTES];
    struct process page = { .pid = 0 };
    uint64_t result = ECHILD;

    arguments_add(&command, self);
    arguments_add(&command, "--check-host");
    arguments_add(&command, "page");
    if (!command.failed &&
            process_start(&page, command.items, environment) == TUTTI_OK &&
            read_address(&page, address, sizeof address)) {
        result = ask_reader(self, page.pid, address, environment);
    }
    process_fini(&page);
    arguments_fini(&command);
    return result;
}
