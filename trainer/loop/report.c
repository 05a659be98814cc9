/*
 * Reports of a run, and what it shows while it goes on: a bar on a terminal, lines elsewhere.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"
#include "loop/trainer.h"
#include "options.h"

enum {
    BAR_CELLS = 20,
    COLUMNS_DEFAULT = 80,
    DRAW_NS = 100000000,
};

/** Text that is put together in pieces, and cut where it is full. */
struct text {
    char bytes[1024];
    size_t used;
};

TUTTI_PRINTF(2, 3)
static void text_add(struct text *text, const char *format, ...)
{
    size_t room = sizeof text->bytes - text->used;
    va_list arguments;
    int bytes;

    va_start(arguments, format);
    bytes = vsnprintf(text->bytes + text->used, room, format, arguments);
    va_end(arguments);
    if (bytes > 0) {
        text->used += (size_t)bytes < room ? (size_t)bytes : room - 1;
    }
}

/* ------------------------------------------------------------------ the bar and lines */

/** Writes text. What cannot be written is left out: nobody is there to read it. */
static void put(const tutti_trainer *trainer, const struct text *text)
{
    const tutti_trainer_options *options = &trainer->options;
    size_t done = 0;
    ssize_t wrote = 0;

    if (options->output != NULL) {
        options->output(options->output_user, text->bytes);
        return;
    }
    while (done < text->used && (wrote >= 0 || errno == EINTR)) {
        wrote = write(options->output_fd, text->bytes + done, text->used - done);
        done += wrote > 0 ? (size_t)wrote : 0;
    }
}

void progress_draw(tutti_trainer *trainer, double done, const char *text)
{
    struct winsize window = { .ws_col = 0 };
    struct text line = { .used = 0 };
    size_t columns = COLUMNS_DEFAULT;
    double share = fmin(fmax(done, 0), 1);
    int cells = (int)(share * BAR_CELLS);

    if (trainer->options.output == NULL &&
            ioctl(trainer->options.output_fd, TIOCGWINSZ, &window) == 0 &&
            window.ws_col > 0) {
        columns = window.ws_col;
    }
    text_add(&line, "\r%3d %% [%.*s%s%*s] %s", (int)(share * 100), cells,
            "====================", cells < BAR_CELLS ? ">" : "",
            cells < BAR_CELLS ? BAR_CELLS - 1 - cells : 0, "", text);
    if (line.used > columns) { /* a second line could not be erased */
        line.used = columns;
    }
    text_add(&line, "\x1b[K"); /* erases what is left of a longer one */
    put(trainer, &line);
    trainer->drawn = true;
    trainer->drawn_ns = clock_ns(CLOCK_MONOTONIC);
}

void progress_line(tutti_trainer *trainer, const char *text)
{
    struct text line = { .used = 0 };

    if (trainer->options.progress == TUTTI_PROGRESS_NONE) {
        return;
    }
    text_add(&line, "%s%.900s\n", trainer->drawn ? "\r\x1b[K" : "", text);
    put(trainer, &line);
    trainer->drawn = false;
}

/* ---------------------------------------------------------------------------- reports */

static struct lap lap_now(const tutti_trainer *trainer)
{
    tutti_stats stats = { .size = sizeof stats };

    (void)!tutti_stats_get(trainer->group.t, &stats);
    return (struct lap){
        .seconds = (double)clock_ns(CLOCK_MONOTONIC) * 1e-9,
        .waited = (double)stats.wait_ns * 1e-9,
        .samples = (double)trainer->position.samples,
        .steps = (double)trainer->position.steps,
    };
}

/** What was since then; the time is more than 0. */
static struct lap lap_since(const tutti_trainer *trainer, const struct lap *begin)
{
    struct lap lap = lap_now(trainer);

    lap.seconds = fmax(lap.seconds - begin->seconds, 1e-9);
    lap.waited = fmin(lap.waited - begin->waited, lap.seconds); /* threads may wait */
    lap.samples -= begin->samples;
    lap.steps -= begin->steps;
    return lap;
}

void report_begin(tutti_trainer *trainer)
{
    tutti_trainer_options *options = &trainer->options;

    if (trainer->group.rank != 0) {
        options->progress = TUTTI_PROGRESS_NONE;
    }
    if (options->progress == TUTTI_PROGRESS_AUTO) {
        options->progress = options->output == NULL && isatty(options->output_fd) == 1
                ? TUTTI_PROGRESS_BAR
                : TUTTI_PROGRESS_LINES;
    }
    trainer->run = lap_now(trainer);
    trainer->report = trainer->run;
}

/** Adds what the loop itself measures. What is equal on all ranks counts on the first alone. */
static tutti_status add_own(tutti_trainer *trainer)
{
    const struct measures *measures = &trainer->measures;
    const struct lap lap = lap_since(trainer, &trainer->report);
    const double once = trainer->group.rank == 0;
    const struct {
        const char *name;
        double value;
        double weight;
    } own[] = {
        { "loss", measures->loss_sum / measures->loss_weight,
                measures->loss_weight > 0 ? once : 0 },
        { "learning_rate", trainer->learning_rate,
                isnan(trainer->learning_rate) ? 0 : once },
        { METRICS_RATE, lap.samples / lap.seconds, once },
        { METRICS_SHARE, lap.waited / lap.seconds, 1 },
    };
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < sizeof own / sizeof *own && status == TUTTI_OK; i++) {
        status = metrics_add(trainer, own[i].name, own[i].value, own[i].weight);
    }
    return status;
}

/** "epoch 3/10, step 240", of what is being done. */
static void add_position(struct text *text, const tutti_trainer *trainer)
{
    const tutti_trainer_options *options = &trainer->options;
    const struct position *position = &trainer->position;

    if (options->epochs > 0) {
        bool between = position->epoch_steps == 0 && position->epochs > 0;

        text_add(text, "epoch %lld/%lld, ",
                (long long)position->epochs + (between ? 0 : 1),
                (long long)options->epochs);
    }
    text_add(text, "step %lld", (long long)position->steps);
    if (options->steps > 0) {
        text_add(text, "/%lld", (long long)options->steps);
    }
}

static void show_line(tutti_trainer *trainer)
{
    const struct metric *loss = metrics_find(trainer, "loss");
    struct text text = { .used = 0 };

    add_position(&text, trainer);
    text_add(&text, ": ");
    if (loss != NULL && loss->fresh) {
        text_add(&text, "loss %.5g, ", loss->value);
    }
    for (int i = 0; i < trainer->metric_count; i++) {
        const struct metric *metric = &trainer->metrics[i];
        bool elsewhere = metric == loss || strcmp(metric->name, METRICS_RATE) == 0 ||
                strcmp(metric->name, METRICS_SHARE) == 0;

        if (metric->fresh && !elsewhere) {
            text_add(&text, "%s %.5g, ", metric->name, metric->value);
        }
    }
    text_add(&text, "%.5g samples/s, %.1f %% communication",
            tutti_trainer_value(trainer, METRICS_RATE),
            tutti_trainer_value(trainer, METRICS_SHARE) * 100);
    progress_line(trainer, text.bytes);
}

tutti_status report_make(tutti_trainer *trainer)
{
    tutti_status status = trainer_ended(trainer, add_own(trainer), "the report");

    if (status == TUTTI_OK) {
        status = metrics_average(trainer);
    }
    if (status == TUTTI_OK) {
        trainer->measures.loss_sum = 0;
        trainer->measures.loss_weight = 0;
        trainer->report = lap_now(trainer);
        metrics_log_write(trainer);
        show_line(trainer);
    }
    return status;
}

/** Steps with which the run is finished; inside an epoch. */
static int64_t total_steps(const tutti_trainer *trainer)
{
    const tutti_trainer_options *options = &trainer->options;
    const struct position *position = &trainer->position;
    int64_t length = options->steps_per_epoch;
    int64_t total;

    if (options->shard != NULL) {
        length = position->epoch_steps +
                tutti_shard_steps(options->shard, options->batch);
    }
    total = position->steps - position->epoch_steps +
            (options->epochs - position->epochs) * length;
    return options->steps > 0 && (options->epochs == 0 || options->steps < total)
            ? options->steps
            : total;
}

void report_progress(tutti_trainer *trainer)
{
    const int64_t steps = trainer->position.steps;
    const int64_t total = total_steps(trainer);
    const struct measures *measures = &trainer->measures;
    struct lap lap;
    double left; /* seconds */
    struct text text = { .used = 0 };

    if (trainer->options.progress != TUTTI_PROGRESS_BAR ||
            (trainer->drawn &&
                    clock_ns(CLOCK_MONOTONIC) - trainer->drawn_ns < DRAW_NS)) {
        return;
    }
    lap = lap_since(trainer, &trainer->run);
    left = lap.seconds / lap.steps * (double)(total - steps);
    add_position(&text, trainer);
    if (measures->loss_weight > 0) {
        text_add(&text, ", loss %.5g", measures->loss_sum / measures->loss_weight);
    }
    text_add(&text, ", %.5g samples/s, %lld:%02d left", lap.samples / lap.seconds,
            (long long)(left / 60), (int)fmod(left, 60));
    progress_draw(trainer, (double)steps / (double)total, text.bytes);
}

static void show_summary(tutti_trainer *trainer, const tutti_trainer_summary *summary)
{
    static const char *const ends[] = {
        [TUTTI_TRAINER_FINISHED] = "finished",
        [TUTTI_TRAINER_EARLY] = "ended early",
        [TUTTI_TRAINER_STOPPED] = "stopped",
    };
    struct text text = { .used = 0 };

    text_add(&text, "%s: %lld epochs, %lld steps, %lld samples", ends[summary->end],
            (long long)summary->epochs, (long long)summary->steps,
            (long long)summary->samples);
    if (summary->skipped > 0) {
        text_add(&text, ", %lld steps skipped because of overflow",
                (long long)summary->skipped);
    }
    text_add(&text, "; this run: %.2f s, %.5g samples/s, %.1f %% communication",
            summary->seconds, summary->samples_per_s, summary->communication * 100);
    if (summary->best_step >= 0) {
        text_add(&text, "; best %s %.5g at step %lld", trainer->options.monitor.metric,
                summary->best, (long long)summary->best_step);
    }
    if (summary->lost_reports > 0) {
        text_add(&text, "; %lld reports could not be written",
                (long long)summary->lost_reports);
    }
    progress_line(trainer, text.bytes);
}

void report_end(tutti_trainer *trainer, tutti_trainer_summary *summary)
{
    const struct position *position = &trainer->position;
    const struct lap lap = lap_since(trainer, &trainer->run);
    const tutti_trainer_summary all = {
        .size = summary->size,
        .end = monitor_exhausted(trainer) ? TUTTI_TRAINER_EARLY
                : trainer->stopping       ? TUTTI_TRAINER_STOPPED
                                          : TUTTI_TRAINER_FINISHED,
        .steps = position->steps,
        .epochs = position->epochs,
        .samples = position->samples,
        .skipped = position->skipped,
        .seconds = lap.seconds,
        .samples_per_s = lap.samples / lap.seconds,
        .communication = lap.waited / lap.seconds,
        .loss = tutti_trainer_value(trainer, "loss"),
        .best = trainer->measures.best,
        .best_step = position->best_step,
        .lost_reports = trainer->lost_reports,
    };

    show_summary(trainer, &all);
    options_give(summary, summary->size, &all, sizeof all);
}
