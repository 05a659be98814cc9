/*
 * The training loop: what it calls when, what it reports, and how it ends on all ranks.
 */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/trainer/loop.h>

#include "ranks.h"
#include "test/unit/unit.h"

enum {
    RANKS = 3,
    STEPS_PER_EPOCH = 4,
};

static const double accuracies[] = { 0.5, 0.75, 0.625, 0.75, 0.6875, 1 };

/** What one rank is to do, and what it saw. */
struct run {
    tutti *t;
    int64_t fail_at; /* the step callback fails there on rank 1; -1: never      */
    int64_t stop_at; /* rank 2 asks to stop there                               */
    bool fail_evaluation; /* on rank 1                                       */
    int evaluations;
    char events[400]; /* a letter for each call: hooks, s and v for callbacks  */
};

static void note(struct run *run, char letter)
{
    size_t used = strlen(run->events);

    if (used + 1 < sizeof run->events) {
        run->events[used] = letter;
        run->events[used + 1] = '\0';
    }
}

/** The loss of rank r in step s is s + r, over r + 1 samples. */
static tutti_status step(
        void *user, const tutti_batch *batch, tutti_trainer *trainer, double *loss)
{
    struct run *run = user;
    int rank = tutti_rank(run->t);

    note(run, 's');
    if (batch->step == run->fail_at && rank == 1) {
        return tutti_set_last_error(TUTTI_ERR_SYSTEM, "sample 17 is torn");
    }
    if (batch->step == run->stop_at && rank == 2) {
        tutti_trainer_stop(trainer);
    }
    *loss = (double)batch->step + rank;
    return batch->count == rank + 1 && batch->epoch == batch->step / STEPS_PER_EPOCH
            ? tutti_trainer_metric(trainer, "own", rank)
            : TUTTI_ERR_INTERNAL;
}

static tutti_status evaluate(void *user, tutti_trainer *trainer)
{
    struct run *run = user;
    int rank = tutti_rank(run->t);
    double accuracy = accuracies[run->evaluations++ % 6];

    note(run, 'v');
    if (run->fail_evaluation && rank == 1) {
        return TUTTI_ERR_NO_MEMORY;
    }
    /* other ranks are inside a collective when that one fails */
    if (tutti_barrier(run->t, "evaluation", NULL) != TUTTI_OK) {
        return TUTTI_ERR_CONTEXT_FAILED;
    }
    /* the mean over the ranks is the accuracy, and of no rank alone */
    return tutti_trainer_metric(trainer, "accuracy", accuracy + (rank - 1) * 0.125);
}

static tutti_status hook(void *user, tutti_trainer *trainer, tutti_trainer_event event)
{
    static const char letters[] = "SREBX";

    (void)trainer;
    note(user, letters[event]);
    return TUTTI_OK;
}

/** A run of two epochs on rank t that shows nothing. */
static struct run prepare(tutti *t, tutti_trainer_options *options)
{
    tutti_trainer_options_default(options);
    options->batch = tutti_rank(t) + 1;
    options->epochs = 2;
    options->steps_per_epoch = STEPS_PER_EPOCH;
    options->step = step;
    options->evaluate = evaluate;
    options->progress = TUTTI_PROGRESS_NONE;
    return (struct run){ .t = t, .fail_at = -1, .stop_at = -1 };
}

/** Runs, on one rank, and destroys. */
static tutti_status train(
        struct run *run, tutti_trainer_options *options, tutti_trainer_summary *summary)
{
    const tutti_trainer_hook hooks[] = { { .call = hook, .user = run } };
    tutti_trainer *trainer;
    tutti_status status;

    options->user = run;
    options->hooks = hooks;
    options->hook_count = 1;
    *summary = (tutti_trainer_summary){ .size = sizeof *summary };
    status = tutti_trainer_create(run->t, options, &trainer);
    if (!CHECK(status == TUTTI_OK)) {
        return status;
    }
    status = tutti_trainer_run(trainer, summary);
    tutti_trainer_destroy(trainer);
    return status;
}

static char directory[64];

/** A line of metrics.jsonl; NULL if there are fewer. */
static json_t *line(int number)
{
    char path[128];
    char text[1000];
    json_t *object = NULL;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    file = fopen(path, "r");
    for (int i = 0; file != NULL && i <= number; i++) {
        if (fgets(text, sizeof text, file) == NULL) {
            text[0] = '\0';
        }
    }
    if (file != NULL) {
        object = json_loads(text, 0, NULL);
        (void)fclose(file);
    }
    return object;
}

static double field(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/** Of the two steps before that step, over the samples of all ranks. */
static double mean_loss(int end)
{
    return (6.0 * (end - 2 + end - 1) + 2 * (1 * 2 + 2 * 3)) / 12;
}

static char shown[2000];

static void collect(void *user, const char *text)
{
    (void)user;
    (void)snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s", text);
}

static void whole_run(tutti *t, void *user)
{
    tutti_trainer_options options;
    tutti_trainer_summary summary;
    struct run run = prepare(t, &options);

    (void)user;
    options.log_directory = directory;
    options.report_every = 2;
    options.progress = TUTTI_PROGRESS_AUTO;
    options.output = collect;
    options.monitor = (tutti_monitor){ .metric = "val_accuracy", .maximize = true };
    CHECK(train(&run, &options, &summary) == TUTTI_OK);
    CHECK(strcmp(run.events, "sSsSRsSsSvBREsSsSRsSsSvBREX") == 0);
    CHECK(summary.end == TUTTI_TRAINER_FINISHED && summary.steps == 8 &&
            summary.epochs == 2 && summary.samples == 8 * 6);
    CHECK(summary.best == 0.75 && summary.best_step == 8 && summary.lost_reports == 0);
    CHECK(summary.loss == mean_loss(8));
    CHECK(summary.communication > 0 && summary.communication <= 1);
}

static int make_directory(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof directory, "/tmp/tutti-loop-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

UNIT_TEST_WITH(
        a_run_calls_reports_and_writes_in_order, make_directory, remove_directory)
{
    static const int steps[] = { 2, 4, 6, 8 };
    json_t *last;

    assert_int_equal(ranks_run(RANKS, whole_run, NULL), 0);
    for (int i = 0; i < 4; i++) {
        json_t *object = line(i);

        assert_int_equal(field(object, "step"), steps[i]);
        assert_int_equal(field(object, "epoch"), steps[i] / STEPS_PER_EPOCH);
        assert_true(field(object, "loss") == mean_loss(steps[i]));
        assert_true(field(object, "own") == 1);
        assert_true(field(object, "samples_per_s") > 0);
        assert_true((json_object_get(object, "val_accuracy") == NULL) == (i % 2 == 0));
        json_decref(object);
    }
    last = line(3);
    assert_true(field(last, "val_accuracy") == 0.75);
    json_decref(last);
    assert_null(line(4));
    assert_non_null(strstr(shown, "epoch 1/2, step 2: loss 1.8333, own 1, "));
    assert_non_null(
            strstr(shown, "epoch 2/2, step 8: loss 7.8333, own 1, val_accuracy 0.75"));
    assert_non_null(strstr(shown, "\nfinished: 2 epochs, 8 steps, 48 samples; "));
    assert_non_null(strstr(shown, "; best val_accuracy 0.75 at step 8\n"));
    assert_null(strchr(shown, '\r'));
}

ON_RANKS(a_run_that_no_longer_improves_ends_early_on_all_ranks, RANKS)
{
    tutti_trainer_options options;
    tutti_trainer_summary summary;
    struct run run = prepare(t, &options);

    options.epochs = 100;
    options.monitor = (tutti_monitor){
        .metric = "val_accuracy",
        .maximize = true,
        .patience = 3,
    };
    CHECK(train(&run, &options, &summary) == TUTTI_OK);
    CHECK(summary.end == TUTTI_TRAINER_EARLY && summary.epochs == 5);
    CHECK(summary.best == 0.75 && summary.best_step == 8);
}

ON_RANKS(one_rank_stops_all_after_the_same_step_and_they_can_go_on, RANKS)
{
    tutti_trainer_options options;
    tutti_trainer_summary summary = { .size = sizeof summary };
    struct run run = prepare(t, &options);
    tutti_trainer *trainer;

    run.stop_at = 5;
    options.user = &run;
    if (!CHECK(tutti_trainer_create(t, &options, &trainer) == TUTTI_OK)) {
        return;
    }
    CHECK(tutti_trainer_run(trainer, &summary) == TUTTI_OK);
    CHECK(summary.end == TUTTI_TRAINER_STOPPED && summary.steps == 6 &&
            summary.epochs == 1);
    CHECK(tutti_trainer_run(trainer, &summary) == TUTTI_OK);
    CHECK(summary.end == TUTTI_TRAINER_FINISHED && summary.steps == 8);
    CHECK(strcmp(run.events, "ssssvssssv") == 0);
    tutti_trainer_destroy(trainer);
}

static void failing_step(tutti *t, void *user)
{
    tutti_trainer_options options;
    tutti_trainer_summary summary;
    struct run run = prepare(t, &options);
    tutti_status status;

    (void)user;
    run.fail_at = 5;
    status = train(&run, &options, &summary);
    CHECK(status == (tutti_rank(t) == 1 ? TUTTI_ERR_SYSTEM : TUTTI_ERR_CONTEXT_FAILED));
    CHECK(strstr(tutti_last_error(), "the step callback failed in step 5") &&
            strstr(tutti_last_error(), "sample 17 is torn"));
    CHECK(tutti_rank(t) == 1 || strstr(tutti_last_error(), "rank 1"));
}

static void failing_evaluation(tutti *t, void *user)
{
    tutti_trainer_options options;
    tutti_trainer_summary summary;
    struct run run = prepare(t, &options);
    tutti_status status;

    (void)user;
    run.fail_evaluation = true;
    status = train(&run, &options, &summary);
    CHECK(status ==
            (tutti_rank(t) == 1 ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_CONTEXT_FAILED));
    CHECK(strstr(tutti_last_error(), "the evaluation failed in step 4") != NULL);
}

UNIT_TEST(a_callback_that_fails_on_one_rank_ends_the_run_on_all)
{
    assert_int_equal(ranks_run(RANKS, failing_step, NULL), 0);
    assert_int_equal(ranks_run(RANKS, failing_evaluation, NULL), 0);
}

/** What all ranks find out together ends the run, and not the job. */
ON_RANKS(bad_use_is_an_error_on_all_ranks_and_the_job_goes_on, RANKS)
{
    tutti_trainer_options options;
    tutti_trainer_summary summary;
    struct run run = prepare(t, &options);
    tutti_schedule schedule = { .kind = TUTTI_SCHEDULE_CONSTANT };
    tutti_shard_options data;
    tutti_trainer *trainer;

    options.epochs += tutti_rank(t) == 1;
    CHECK(tutti_trainer_create(t, &options, &trainer) == TUTTI_ERR_MISMATCH);
    CHECK(strstr(tutti_last_error(), "epochs: rank 0 gave 2, rank 1 gave 3"));
    run = prepare(t, &options);
    schedule.learning_rate = tutti_rank(t);
    options.schedule = &schedule;
    CHECK(tutti_trainer_create(t, &options, &trainer) == TUTTI_ERR_MISMATCH);
    CHECK(strstr(tutti_last_error(), "schedule.learning_rate: rank 0 gave 0"));

    run = prepare(t, &options);
    options.log_directory = "/dev/null/logs";
    CHECK(train(&run, &options, &summary) == TUTTI_ERR_SYSTEM);
    CHECK(strstr(tutti_last_error(), "rank 0: cannot create the directory /dev/null"));

    run = prepare(t, &options);
    options.monitor.metric = "accuracy"; /* it is val_accuracy */
    CHECK(train(&run, &options, &summary) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(),
            "there are communication, learning_rate, loss, own, "
            "samples_per_s, val_accuracy"));

    run = prepare(t, &options);
    options.batch = 0;
    CHECK(tutti_trainer_create(t, &options, &trainer) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "batch is 0") != NULL);
    options.batch = 1;
    options.epochs = 0;
    CHECK(tutti_trainer_create(t, &options, &trainer) == TUTTI_ERR_INVALID);
    options.steps = 1;
    options.step = NULL;
    CHECK(tutti_trainer_create(t, &options, &trainer) == TUTTI_ERR_INVALID);

    run = prepare(t, &options);
    tutti_shard_options_default(&data); /* without the number of samples */
    options.shard_options = &data;
    options.batch = 1;
    CHECK(tutti_trainer_create(t, &options, &trainer) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "samples") != NULL);

    run = prepare(t, &options);
    data.samples = 3 * RANKS - 1;
    data.tail = TUTTI_TAIL_EVEN;
    options.shard_options = &data;
    options.batch = 3;
    CHECK(train(&run, &options, &summary) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "an epoch has no step") != NULL);
}

enum {
    SAMPLES = 16,
};

static atomic_int seen[SAMPLES];

static tutti_status take(
        void *user, const tutti_batch *batch, tutti_trainer *trainer, double *loss)
{
    (void)user;
    (void)trainer;
    for (int64_t i = 0; i < batch->count; i++) {
        (void)atomic_fetch_add(&seen[batch->indices[i]], 1);
        *loss += (double)batch->indices[i] / (double)batch->count;
    }
    return TUTTI_OK;
}

static void uneven(tutti *t, void *user)
{
    tutti_trainer_options options;
    tutti_trainer_summary summary;
    tutti_shard_options data;
    struct run run = prepare(t, &options);

    (void)user;
    tutti_shard_options_default(&data);
    data.samples = SAMPLES;
    data.tail = TUTTI_TAIL_UNEVEN;
    options.batch = 5; /* one step of 15, and one of which a single rank has a sample */
    options.evaluate = NULL;
    options.step = take;
    if (CHECK(tutti_shard_create(t, &data, &options.shard) == TUTTI_OK)) {
        CHECK(train(&run, &options, &summary) == TUTTI_OK);
        CHECK(summary.steps == 4 && summary.epochs == 2 && summary.samples == 32);
        CHECK(fabs(summary.loss - (SAMPLES - 1) / 2.0) <
                1e-12); /* weighted by samples */
        tutti_shard_destroy(options.shard);
    }
}

UNIT_TEST(an_epoch_ends_when_no_rank_has_samples_left)
{
    assert_int_equal(ranks_run(RANKS, uneven, NULL), 0);
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(seen[i], 2); /* once in each epoch */
    }
}

static void full_disk(tutti *t, void *user)
{
    tutti_trainer_options options;
    tutti_trainer_summary summary;
    struct run run = prepare(t, &options);

    (void)user;
    options.log_directory = directory;
    CHECK(train(&run, &options, &summary) == TUTTI_OK);
    CHECK(summary.lost_reports == (tutti_rank(t) == 0 ? 2 : 0));
}

UNIT_TEST_WITH(a_run_goes_on_when_the_disk_of_its_log_is_full, make_directory,
        remove_directory)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(ranks_run(RANKS, full_disk, NULL), 0);
}
