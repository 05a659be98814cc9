/*
 * The metrics of a run in files: JSON lines, and events for TensorBoard.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "loop/trainer.h"

tutti_status metrics_log_open(tutti_trainer *trainer)
{
    const char *directory = trainer->options.log_directory;
    const int64_t steps = trainer->position.steps;
    tutti_status status = tutti_events_open(directory, NULL, &trainer->events);

    if (status == TUTTI_OK) {
        status = log_file_open(&trainer->lines, directory, "metrics.jsonl", false);
    }
    if (status == TUTTI_OK &&
            steps > 0) { /* readers forget later steps of a former run */
        status = tutti_events_restart(trainer->events, steps + 1);
    }
    return status;
}

static void count_error(tutti_trainer *trainer, tutti_status status)
{
    if (status != TUTTI_OK && trainer->lost_reports++ == 0) {
        tutti_log(trainer->group.t, TUTTI_LOG_WARN,
                "metrics are lost, the run goes on: %s", tutti_last_error());
    }
}

/** One line of JSON, which has no NaN and no infinity: they are null. */
static tutti_status write_line(tutti_trainer *trainer)
{
    json_t *line =
            json_pack("{s:I, s:I, s:f}", "step", (json_int_t)trainer->position.steps,
                    "epoch", (json_int_t)trainer->position.epochs, "time",
                    (double)clock_ns(CLOCK_REALTIME) * 1e-9);
    tutti_status status;
    char *text;
    size_t bytes;

    for (int i = 0; i < trainer->metric_count; i++) {
        const struct metric *metric = &trainer->metrics[i];

        if (metric->fresh) {
            (void)json_object_set_new(line, metric->name,
                    isfinite(metric->value) ? json_real(metric->value) : json_null());
        }
    }
    text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    if (text == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a line of JSON");
    }
    bytes = strlen(text);
    text[bytes] = '\n'; /* in place of the zero */
    status = log_file_append(&trainer->lines, text, bytes + 1);
    free(text);
    return status;
}

void metrics_log_write(tutti_trainer *trainer)
{
    tutti_status status;

    if (trainer->events == NULL) {
        return;
    }
    status = write_line(trainer);
    for (int i = 0; i < trainer->metric_count && status == TUTTI_OK; i++) {
        const struct metric *metric = &trainer->metrics[i];

        if (metric->fresh) {
            status = tutti_events_scalar(trainer->events, metric->name,
                    trainer->position.steps, metric->value);
        }
    }
    if (status == TUTTI_OK) {
        status = tutti_events_metrics(
                trainer->events, trainer->group.t, trainer->position.steps);
    }
    count_error(trainer, status);
    (void)tutti_set_last_error(TUTTI_OK, "%s", ""); /* no old message later */
}

void metrics_log_close(tutti_trainer *trainer)
{
    tutti_status written = tutti_events_close(trainer->events);
    tutti_status closed = log_file_close(&trainer->lines);

    count_error(trainer, written != TUTTI_OK ? written : closed);
    trainer->events = NULL;
}
