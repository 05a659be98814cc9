/*
 * The library's own metrics in event files.
 */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "loop/trainer.h"

/** What a visit writes to. */
struct writing {
    tutti_events *events;
    int64_t step;
    tutti_status status;
};

/* "tutti/bytes_total/allreduce/shm/1048576": the values of all labels but the rank. */
static void make_tag(
        const tutti_metric *metric, const char *suffix, char tag[TUTTI_EVENTS_TAG_MAX])
{
    static const char prefix[] = "tutti_";
    const char *name = metric->name;
    size_t used;

    name += strncmp(name, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    used = (size_t)snprintf(tag, TUTTI_EVENTS_TAG_MAX, "tutti/%s%s", name, suffix);
    for (size_t i = 1; i < metric->label_count && used < TUTTI_EVENTS_TAG_MAX; i++) {
        used += (size_t)snprintf(tag + used, TUTTI_EVENTS_TAG_MAX - used, "/%s",
                metric->labels[i].value);
    }
}

static void write_scalar(void *user, const tutti_metric *metric)
{
    struct writing *writing = user;
    const bool is_histogram = metric->kind == TUTTI_METRIC_HISTOGRAM;
    char tag[TUTTI_EVENTS_TAG_MAX];

    if (writing->status != TUTTI_OK || metric->value == 0) {
        return;
    }
    make_tag(metric, is_histogram ? "_sum" : "", tag);
    writing->status =
            tutti_events_scalar(writing->events, tag, writing->step, metric->value);
    if (writing->status == TUTTI_OK && is_histogram) {
        make_tag(metric, "_count", tag);
        writing->status = tutti_events_scalar(
                writing->events, tag, writing->step, (double)metric->count);
    }
}

tutti_status tutti_events_metrics(tutti_events *events, tutti *t, int64_t step)
{
    struct writing writing = { .events = events, .step = step };
    tutti_status status;

    if (events == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_events_metrics: the writer is NULL");
    }
    status = tutti_metrics_visit(t, write_scalar, &writing);
    return status == TUTTI_OK ? writing.status : status;
}
