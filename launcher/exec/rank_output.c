#include "launcher/exec/rank_output.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/session/loop.h"

enum {
    READ_BYTES = 1 << 16 /* at once: what a pipe holds */
};

static_assert((int)LINES_SHOWN_MAX <= (int)LINK_LINES_MAX, "a line fits a message");

static const char *stream_name(const struct output *output)
{
    return output->plan.stream == 1 ? "stdout" : "stderr";
}

/* Sends the first bytes of the batch. */
static void send_front(struct output *output, size_t len)
{
    const struct link_message message = {
        .type = LINK_OUTPUT,
        .output = { .stream = output->plan.stream,
                .time = (uint64_t)output->now,
                .lines = { .text = output->batch, .len = len } },
    };

    if (len > 0) {
        link_put(output->plan.out, &message);
        output->batch_len -= len;
        memmove(output->batch, output->batch + len, output->batch_len);
    }
}

static void send_batch(struct output *output)
{
    send_front(output, output->batch_len);
}

/*
 * How much of a batch of bytes is sent. Where other ranks write to the same file, that is whole lines,
 * so that they do not mix; a line that fills the batch is sent in parts.
 */
static size_t ready_bytes(const struct output *output)
{
    const char *last = memrchr(output->batch, '\n', output->batch_len);

    if (output->plan.is_alone ||
            (last == NULL && output->batch_len == LINK_LINES_MAX)) {
        return output->batch_len;
    }
    return last == NULL ? 0 : (size_t)(last - output->batch) + 1;
}

static void take_bytes(struct output *output, const char *bytes, size_t len)
{
    while (len > 0) {
        const size_t part = size_min(len, LINK_LINES_MAX - output->batch_len);

        memcpy(output->batch + output->batch_len, bytes, part);
        output->batch_len += part;
        send_front(output, ready_bytes(output));
        bytes += part;
        len -= part;
    }
}

static void take_line(void *to, const char *line, size_t len)
{
    struct output *output = to;

    if (output->plan.tail != NULL) {
        tail_add(output->plan.tail, line, len);
    }
    if (output->plan.forward != LINK_FORWARD_LINES ||
            !rate_take(&output->rate, len, output->now)) {
        return;
    }
    if (output->batch_len + len > LINK_LINES_MAX) {
        send_batch(output);
    }
    memcpy(output->batch + output->batch_len, line, len);
    output->batch_len += len;
}

static void report_dropped(struct output *output)
{
    uint64_t count = rate_take_dropped(&output->rate);

    if (count == 0) {
        return;
    }
    link_put_note(output->plan.out,
            "rank %d: %" PRIu64
            " lines of %s not shown, for it writes more than %" PRIu64
            " bytes per second; %s%s",
            output->plan.rank, count, stream_name(output), output->rate.per_second,
            output->log.fd >= 0 ? "see " : "they are lost without --log-dir",
            output->log.fd >= 0 ? output->log.path : "");
}

/* A rank goes on without its log, but it is said. */
static void report_log(struct output *output, tutti_status status)
{
    if (status != TUTTI_OK) {
        link_put_note(
                output->plan.out, "rank %d: %s", output->plan.rank, tutti_last_error());
    }
}

tutti_status output_init(struct output *output, const struct output_plan *plan)
{
    tutti_status status;

    *output = (struct output){ .plan = *plan, .fd = -1, .log = { .fd = -1 } };
    rate_init(&output->rate, plan->bytes_per_second, 0);
    output->batch = mem_alloc(LINK_LINES_MAX);
    if (output->batch == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the rank's output");
    }
    status = lines_init(&output->lines, take_line, output);
    if (status == TUTTI_OK && plan->folder[0] != '\0') {
        report_log(
                output, log_file_open(&output->log, plan->folder, stream_name(output)));
    }
    return status;
}

void output_fini(struct output *output)
{
    fd_close(&output->fd);
    log_file_close(&output->log);
    lines_fini(&output->lines);
    mem_free(output->batch);
    *output = (struct output){ .fd = -1, .log = { .fd = -1 } };
}

void output_read(struct output *output, int64_t now)
{
    char bytes[READ_BYTES];
    ssize_t len = read(output->fd, bytes, sizeof bytes);

    output->now = now;
    if (len > 0) {
        report_log(output, log_file_write(&output->log, bytes, (size_t)len));
        lines_feed(&output->lines, bytes, (size_t)len, now);
        if (output->plan.forward == LINK_FORWARD_BYTES) {
            take_bytes(output, bytes, (size_t)len);
        } else {
            send_batch(output);
        }
    } else if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
        /* A terminal without writers says EIO. */
        (void)close(output->fd);
        output->fd = -1;
        output_flush(output, now);
    }
}

void output_tick(struct output *output, int64_t now)
{
    output->now = now;
    lines_tick(&output->lines, now);
    if (output->plan.forward == LINK_FORWARD_LINES) {
        send_batch(output);
    }
    if (now >= rate_due(&output->rate)) {
        report_dropped(output);
    }
}

int64_t output_due(const struct output *output)
{
    int64_t lines = lines_due(&output->lines);
    int64_t rate = rate_due(&output->rate);

    return lines < rate ? lines : rate;
}

void output_flush(struct output *output, int64_t now)
{
    output->now = now;
    lines_end(&output->lines);
    send_batch(output);
    report_dropped(output);
}
