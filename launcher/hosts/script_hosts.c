/*
 * Runs a program that prints hosts. It has a process group of its own, so that what it
 * started ends with it.
 */
#include "launcher/hosts/script_hosts.h"

#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/hosts/resolver.h"
#include "launcher/process.h"
#include "launcher/program.h"
#include "launcher/signals.h"

enum {
    DEFAULT_MS = 60000,
    COMPLAINT_LIMIT = 500 /* bytes of its stderr that are shown */
};

/* Its exit status in words, with the last line of what it said. */
static tutti_status check_end(const struct process *process, const char *file)
{
    char said[COMPLAINT_LIMIT];

    if (process->status == 0) {
        return TUTTI_OK;
    }
    process_last_words(process, said, sizeof said);
    return error_set(TUTTI_ERR_INVALID, "%s %s %d; it said on stderr: %s", file,
            process->signal == 0 ? "ended with status" : "was ended by signal",
            process->signal == 0 ? process->status : process->signal,
            said[0] == '\0' ? "nothing" : said);
}

tutti_status script_hosts_take(
        const struct process *process, const char *name, struct host_list *hosts)
{
    FILE *file;
    tutti_status status = check_end(process, name);

    if (status != TUTTI_OK) {
        return status;
    }

    if (process->out.len == 0) {
        return error_set(TUTTI_ERR_INVALID, "%s names no host", name);
    }
    if (process->out.is_cut) {
        return error_set(TUTTI_ERR_INVALID, "%s prints too much", name);
    }
    file = fmemopen(process->out.text, process->out.len, "r");
    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read from %s", name);
    }
    status = host_list_read_stream(hosts, file, name);
    (void)fclose(file);
    return status;
}

tutti_status script_hosts(
        const struct source_facts *facts, const char *file, struct host_list *hosts)
{
    const int limit_ms = facts->script_ms > 0 ? facts->script_ms : DEFAULT_MS;
    const int64_t until_ns = clock_ns() + (int64_t)limit_ms * 1000000;
    char path[PATH_MAX];
    char *const argv[] = { path, NULL };
    struct process process = { .pid = 0 };
    sigset_t before;
    tutti_status status = program_find(
            file, environment_get(facts->environment, "PATH"), path, sizeof path);

    signals_hold(&before); /* it is to end before we do */
    if (status == TUTTI_OK) {
        status = process_start_group(&process, argv, facts->environment);
    }
    if (status == TUTTI_OK) {
        status = process_finish(&process, until_ns)
                ? script_hosts_take(&process, path, hosts)
                : error_set(TUTTI_ERR_INVALID,
                          "%s has not ended within %g s, and was killed", path,
                          limit_ms / 1000.0);
    }
    process_fini(&process);
    signals_let(&before);
    return status;
}

/* --host-discovery-script, as horovodrun has it: lines "host" or "host:slots". */
static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    const char *file = facts->options->host_discovery_script;
    tutti_status status;

    if (file == NULL) {
        return TUTTI_OK;
    }
    status = script_hosts(facts, file, &placement->hosts);
    if (status == TUTTI_OK) {
        resolver_describe(placement, "%.200s", file);
    }
    return status;
}

const struct resolver resolver_script = {
    .name = "the discovery script",
    .resolve = resolve,
};
