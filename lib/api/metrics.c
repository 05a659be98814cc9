/*
 * Metrics for programs: told, and written to files.
 */
#include <time.h>

#include "api/call.h"
#include "run/context.h"

tutti_status tutti_metrics_visit(tutti *t, tutti_metric_callback callback, void *user)
{
    const tutti_status status = call_check_context(t);
    struct metrics_source source;

    if (status != TUTTI_OK) {
        return status;
    }
    if (callback == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_metrics_visit: callback is NULL");
    }
    source = observer_metrics(t);
    metrics_visit(&source, 1, callback, user);
    return TUTTI_OK;
}

tutti_status tutti_metrics_write(
        tutti *t, const char *path, tutti_metrics_format format)
{
    struct wire_writer text = { .data = NULL };
    struct metrics_source source;
    struct timespec now = { 0 };
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (path == NULL || (int)format < 0 || format > TUTTI_METRICS_JSON) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_metrics_write: %s, format %d; give a path and a "
                "tutti_metrics_format",
                path == NULL ? "path is NULL" : path, (int)format);
    }
    source = observer_metrics(t);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    metrics_format(
            &text, format, &source, 1, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    status = metrics_save(path, format, &text);
    wire_writer_fini(&text);
    return status;
}
