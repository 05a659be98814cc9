/*
 * Queries, statistics, and the end of a context.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/plugin.h"
#include "base/mem.h"
#include "base/text.h"
#include "observe/report.h"
#include "ops/gpu/find.h"
#include "ops/reduce/reduce.h"
#include "run/context.h"
#include "run/driver.h"
#include "run/failure.h"
#include "run/start.h"

void tutti_log(const tutti *t, tutti_log_level level, const char *format, ...)
{
    char line[ERROR_TEXT_MAX];
    va_list args;

    if (!log_enabled(&t->log, level)) {
        return;
    }
    va_start(args, format);
    if (vsnprintf(line, sizeof line, format, args) > 0) {
        log_write(&t->log, level, "%s", line);
    }
    va_end(args);
}

int tutti_rank(const tutti *t)
{
    return t->rank;
}

int tutti_size(const tutti *t)
{
    return t->size;
}

int tutti_local_rank(const tutti *t)
{
    return nodes_local(&t->peers.nodes, t->rank);
}

int tutti_local_size(const tutti *t)
{
    return nodes_ranks(&t->peers.nodes, nodes_of(&t->peers.nodes, t->rank));
}

int tutti_node(const tutti *t)
{
    return nodes_of(&t->peers.nodes, t->rank);
}

int tutti_node_count(const tutti *t)
{
    return t->peers.nodes.count;
}

bool tutti_has_background(const tutti *t)
{
    return t->driver.has_background;
}

static bool has_vectors(const char *name)
{
    int which;

    return text_to_choice(name, config_find("kernels")->range, &which) &&
            which > CONFIG_KERNELS_SCALAR && reduce_has((enum config_kernels)which);
}

bool tutti_has_feature(const char *feature)
{
    static const char *const features[] = { "hwloc", "shm", "hier" };
    char path[PLUGIN_PATH_MAX];
    const char *mpi;

    if (feature != NULL && strcmp(feature, "cuda") == 0) {
        return gpu_has_kernels();
    }
    for (size_t i = 0; feature != NULL && i < sizeof features / sizeof *features; i++) {
        if (strcmp(feature, features[i]) == 0) {
            return true;
        }
    }
    for (int i = 0; feature != NULL && (mpi = plugin_mpi_name(i)) != NULL; i++) {
        if ((strcmp(feature, mpi) == 0 || strcmp(feature, "mpi") == 0) &&
                plugin_path(mpi, path)) {
            return true;
        }
    }
    return feature != NULL && has_vectors(feature);
}

tutti_status tutti_stats_get(tutti *t, tutti_stats *stats)
{
    tutti_stats all = { 0 };
    size_t size;
    const tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (stats == NULL || stats->size < sizeof stats->size) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_stats_get: set stats->size to sizeof(tutti_stats) first");
    }
    size = size_min(stats->size, sizeof all);
    observer_stats(t, &all);
    all.size = stats->size;
    memcpy(stats, &all, size);
    return TUTTI_OK;
}

tutti_status tutti_timeline_start(tutti *t, const char *folder)
{
    const tutti_status status = call_check_context(t);

    return status == TUTTI_OK ? timeline_start(t, folder) : status;
}

tutti_status tutti_timeline_stop(tutti *t)
{
    const tutti_status status = call_check_context(t);

    if (status == TUTTI_OK) {
        timeline_stop(t);
    }
    return status;
}

tutti_status tutti_abort(tutti *t, const char *text)
{
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (text == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_abort: text is NULL");
    }
    failure_set(t, t->rank, text);
    /* Whoever drives now tells the others; if nobody does, this turn. */
    driver_poke(t);
    return TUTTI_OK;
}

/*
 * Waits alone are gathered, by a collective like any other, while the context still lives. All
 * ranks are about to wait for each other anyway. One that finalizes without taking part, as
 * without memory, ends it for all, with an error.
 */
static void report(tutti *t)
{
    const struct report_waits own = report_waits(t);
    struct report_waits *waits = mem_calloc((size_t)t->size, sizeof *waits);
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    if (t->rank == 0) {
        report_log(t);
    }
    if (waits != NULL) {
        status = tutti_allgather(t, "tutti report", &own, waits, 1,
                sizeof own / sizeof(uint64_t), NULL, TUTTI_UINT64, NULL);
    }
    if (t->rank == 0) {
        report_log_waits(t, &own, status == TUTTI_OK ? waits : NULL);
    }
    mem_free(waits);
}

tutti_status tutti_finalize(tutti *t)
{
    const tutti_status status = t != NULL ? call_check_context(t) : TUTTI_OK;

    if (t == NULL || status != TUTTI_OK) {
        return status;
    }
    if (t->config.exit_report) {
        report(t);
    }
    return context_finalize(t);
}
