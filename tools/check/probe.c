/*
 * Why ssh does not get to a host.
 */
#include "tools/check/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "launcher/process.h"
#include "tools/check/check_connect.h"

enum {
    LINE_BYTES = 1024
};

static const int64_t limit_ns = INT64_C(8000000000);

/* What follows "key " in a line; NULL when it is another key. */
static const char *value_of(const char *line, const char *key)
{
    size_t len = strlen(key);

    return strncmp(line, key, len) == 0 && line[len] == ' ' ? line + len + 1 : NULL;
}

bool probe_take_line(struct seen *seen, const char *line)
{
    const char *host = value_of(line, "hostname");
    const char *port = value_of(line, "port");
    const char *proxy = value_of(line, "proxycommand");
    const char *jump = value_of(line, "proxyjump");

    if (host != NULL) {
        (void)snprintf(seen->probe_host, sizeof seen->probe_host, "%s", host);
    }
    if (port != NULL) {
        (void)snprintf(seen->probe_port, sizeof seen->probe_port, "%s", port);
    }
    return (proxy == NULL || strcmp(proxy, "none") == 0) &&
            (jump == NULL || strcmp(jump, "none") == 0);
}

/* Runs all that were started to their ends. */
static void finish(struct process *processes, size_t count)
{
    int64_t until = clock_ns() + limit_ns;

    for (size_t i = 0; i < count; i++) {
        if (processes[i].pid > 0) {
            (void)process_finish(&processes[i], until);
        }
    }
}

/* Starts a command, which is released, without input. */
static void start(
        struct process *process, struct arguments *command, char *const *environment)
{
    if (!command->failed &&
            process_start(process, command->items, environment) == TUTTI_OK) {
        process_close_input(process);
    }
    arguments_fini(command);
}

/* "ssh -G ... HOST": what its configuration makes of the name. */
static void ask_configuration(struct process *process, const struct seen *seen,
        const struct findings_yardstick *yardstick, char *const *environment)
{
    struct arguments command = { .items = NULL };

    ssh_command(&yardstick->way, seen->name, &command);
    arguments_add(&command, "-G");
    start(process, &command, environment);
}

static void ask_connection(struct process *process, const struct seen *seen,
        const struct findings_yardstick *yardstick, char *const *environment)
{
    struct arguments command = { .items = NULL };

    arguments_add(&command, yardstick->self);
    arguments_add(&command, "--check-connect");
    arguments_add(&command, seen->probe_host);
    arguments_add(&command, seen->probe_port);
    start(process, &command, environment);
}

static bool is_direct(struct process *process, struct seen *seen)
{
    char line[LINE_BYTES];
    bool is = true;

    while (process_take_line(process, line, sizeof line)) {
        is = probe_take_line(seen, line) && is;
    }
    return is && seen->probe_host[0] != '\0' && seen->probe_port[0] != '\0';
}

static bool is_wanted(const struct seen *seen)
{
    return !seen->has_facts && !seen->is_here && seen->status == 255;
}

static void probe_all(struct seen *const *hosts, size_t count,
        const struct findings_yardstick *yardstick, char *const *environment,
        struct process *processes)
{
    for (size_t i = 0; i < count; i++) {
        if (is_wanted(hosts[i])) {
            ask_configuration(&processes[i], hosts[i], yardstick, environment);
        }
    }
    finish(processes, count);
    for (size_t i = 0; i < count; i++) {
        bool asks = processes[i].pid > 0 && is_direct(&processes[i], hosts[i]);

        process_fini(&processes[i]);
        if (asks) {
            ask_connection(&processes[i], hosts[i], yardstick, environment);
        }
    }
    finish(processes, count);
    for (size_t i = 0; i < count; i++) {
        if (processes[i].pid > 0 && processes[i].signal == 0 &&
                process_take_line(
                        &processes[i], hosts[i]->probe, sizeof hosts[i]->probe)) {
            hosts[i]->probe_status = processes[i].status;
        }
        process_fini(&processes[i]);
    }
}

void probe_hosts(struct seen *const *hosts, size_t count,
        const struct findings_yardstick *yardstick, char *const *environment)
{
    struct process *processes = mem_calloc(count, sizeof *processes);

    if (processes != NULL) {
        probe_all(hosts, count, yardstick, environment, processes);
    }
    mem_free(processes);
}
