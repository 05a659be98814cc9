/*
 * Metrics as text: for Prometheus and as JSON lines.
 *
 *     Prometheus 0.0.4   samples of one name stand together, behind its help and type; buckets
 *                        of a histogram count all that are not longer
 *     JSON lines         a line for each sample
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/draft.h"
#include "base/error.h"
#include "base/text.h"
#include "observe/metrics.h"

enum {
    PATH_BYTES = 4096,
    NUMBER_BYTES = 40,
    FILE_MODE = 0666
};

struct formatting {
    struct wire_writer *out;
    const char *last; /* name of the sample before; NULL: none */
    char time[NUMBER_BYTES]; /* as the format has it           */
};

static void put_text(struct wire_writer *out, const char *text)
{
    wire_put_bytes(out, text, strlen(text));
}

static void put_number(struct wire_writer *out, double value)
{
    char text[NUMBER_BYTES];

    put_text(out, text_from_real(value, text, sizeof text) ? text : "0");
}

static void put_count(struct wire_writer *out, uint64_t value)
{
    char text[NUMBER_BYTES];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_text(out, text);
}

/* Between quotes. JSON has no control characters; what is none of ASCII is kept as it is. */
static void put_quoted(struct wire_writer *out, const char *text)
{
    put_text(out, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            put_text(out, "\\");
        }
        wire_put_bytes(out, (unsigned char)*text < ' ' ? "?" : text, 1);
    }
    put_text(out, "\"");
}

/* ---------------------------------------------------------------- Prometheus */

static void put_labels(
        struct wire_writer *out, const tutti_metric *metric, const char *bound)
{
    put_text(out, "{");
    for (size_t i = 0; i < metric->label_count; i++) {
        put_text(out, i == 0 ? "" : ",");
        put_text(out, metric->labels[i].name);
        put_text(out, "=");
        put_quoted(out, metric->labels[i].value);
    }
    if (bound != NULL) {
        put_text(out, ",le=");
        put_quoted(out, bound);
    }
    put_text(out, "} ");
}

static void put_sample(struct wire_writer *out, const tutti_metric *metric,
        const char *suffix, const char *bound)
{
    put_text(out, metric->name);
    put_text(out, suffix);
    put_labels(out, metric, bound);
}

static void put_histogram(struct wire_writer *out, const tutti_metric *metric)
{
    for (size_t i = 0; i <= metric->bucket_count; i++) {
        char bound[NUMBER_BYTES] = "+Inf";

        if (i < metric->bucket_count) {
            (void)text_from_real(metric->bounds[i], bound, sizeof bound);
        }
        put_sample(out, metric, "_bucket", bound);
        put_count(out, metric->buckets[i]);
        put_text(out, "\n");
    }
    put_sample(out, metric, "_sum", NULL);
    put_number(out, metric->value);
    put_text(out, "\n");
    put_sample(out, metric, "_count", NULL);
    put_count(out, metric->count);
    put_text(out, "\n");
}

static const char *type_of(const tutti_metric *metric)
{
    return metric->kind == TUTTI_METRIC_COUNTER  ? "counter"
            : metric->kind == TUTTI_METRIC_GAUGE ? "gauge"
                                                 : "histogram";
}

static void put_prometheus(void *user, const tutti_metric *metric)
{
    struct formatting *formatting = user;
    struct wire_writer *out = formatting->out;

    if (formatting->last == NULL || strcmp(formatting->last, metric->name) != 0) {
        put_text(out, "# HELP ");
        put_text(out, metric->name);
        put_text(out, " ");
        put_text(out, metric->help);
        put_text(out, "\n# TYPE ");
        put_text(out, metric->name);
        put_text(out, " ");
        put_text(out, type_of(metric));
        put_text(out, "\n");
        formatting->last = metric->name;
    }
    if (metric->kind == TUTTI_METRIC_HISTOGRAM) {
        put_histogram(out, metric);
    } else {
        put_sample(out, metric, "", NULL);
        put_number(out, metric->value);
        put_text(out, "\n");
    }
}

/* ---------------------------------------------------------------- JSON lines */

static void put_buckets(struct wire_writer *out, const tutti_metric *metric)
{
    put_text(out, ",\"count\":");
    put_count(out, metric->count);
    put_text(out, ",\"buckets\":[");
    for (size_t i = 0; i <= metric->bucket_count; i++) {
        put_text(out, i == 0 ? "[" : ",[");
        if (i < metric->bucket_count) {
            put_number(out, metric->bounds[i]);
        } else {
            put_text(out, "null");
        }
        put_text(out, ",");
        put_count(out, metric->buckets[i]);
        put_text(out, "]");
    }
    put_text(out, "]");
}

static void put_json(void *user, const tutti_metric *metric)
{
    const struct formatting *formatting = user;
    struct wire_writer *out = formatting->out;

    put_text(out, "{\"time\":");
    put_text(out, formatting->time);
    put_text(out, ",\"name\":");
    put_quoted(out, metric->name);
    put_text(out, ",\"labels\":{");
    for (size_t i = 0; i < metric->label_count; i++) {
        put_text(out, i == 0 ? "" : ",");
        put_quoted(out, metric->labels[i].name);
        put_text(out, ":");
        put_quoted(out, metric->labels[i].value);
    }
    put_text(out,
            metric->kind == TUTTI_METRIC_HISTOGRAM ? "},\"sum\":" : "},\"value\":");
    put_number(out, metric->value);
    if (metric->kind == TUTTI_METRIC_HISTOGRAM) {
        put_buckets(out, metric);
    }
    put_text(out, "}\n");
}

/* ----------------------------------------------------------------------- all */

void metrics_format(struct wire_writer *out, tutti_metrics_format format,
        const struct metrics_source *sources, size_t count, double time)
{
    static const tutti_metric_callback writers[] = {
        [TUTTI_METRICS_PROMETHEUS] = put_prometheus,
        [TUTTI_METRICS_JSON] = put_json,
    };
    struct formatting formatting = { .out = out };

    (void)snprintf(formatting.time, sizeof formatting.time, "%lld.%03d",
            (long long)time, (int)((time - (double)(long long)time) * 1000));
    metrics_visit(sources, count, writers[format], &formatting);
}

static bool write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t done = write(fd, bytes, len);

        if (done <= 0 && errno != EINTR) {
            return false;
        }
        bytes += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

tutti_status metrics_save(
        const char *path, tutti_metrics_format format, const struct wire_writer *text)
{
    const bool replaces = format == TUTTI_METRICS_PROMETHEUS;
    char draft[PATH_BYTES];
    bool done;
    int fd;

    if (text->failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the metrics of %s", path);
    }
    fd = replaces ? draft_open(path, draft, sizeof draft)
                  : open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, FILE_MODE);
    if (fd < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "write metrics to %s", path);
    }
    done = write_all(fd, text->data, text->len);
    done = close(fd) == 0 && done;
    if (!done || (replaces && rename(draft, path) != 0)) {
        const tutti_status status =
                error_set_errno(TUTTI_ERR_SYSTEM, "write metrics to %s", path);

        if (replaces) {
            (void)unlink(draft);
        }
        return status;
    }
    return TUTTI_OK;
}
