/*
 * Runs that are resumed from a checkpoint: they end with the bits of an uninterrupted one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/trainer.h>

#include "ranks.h"
#include "test/unit/unit.h"

enum {
    COUNT = 37, /* elements of the parameter */
    SAMPLES = 24,
    BATCH = 2,
    EPOCHS = 6
};

/** Where the parts of a run end, and what it came to. */
struct plan {
    const char *directory;
    int64_t epochs, steps; /* of this run; 0: no such end */
    bool carries; /* the reducer has residuals and a loss scale, which changes */
    float first[COUNT]; /* the parameter on rank 0 at the end */
    int64_t done; /* steps, those before a resume included */
    tutti_status status;
    char error[300];
};

static tutti_status step(
        void *user, const tutti_batch *batch, tutti_trainer *trainer, double *loss)
{
    const float *value = user;
    tutti_reducer *reducer = tutti_trainer_reducer(trainer);
    float *gradient = tutti_reducer_gradient(reducer, 0);
    const float scale = (float)tutti_reducer_loss_scale(reducer);

    for (int i = 0; i < COUNT; i++) {
        gradient[i] = 0.3F * value[i];
        for (int64_t s = 0; s < batch->count; s++) {
            gradient[i] += (float)(1 + (batch->indices[s] * (i + 1)) % 11) / 7;
        }
        gradient[i] *= scale;
    }
    if (scale > 1 && batch->step == 2) {
        gradient[0] = INFINITY;
    }
    *loss = (double)value[0];
    return tutti_reducer_ready(reducer, 0);
}

static void train(tutti *t, void *user)
{
    struct plan *plan = user;
    const tutti_schedule schedule = {
        .kind = TUTTI_SCHEDULE_COSINE, .learning_rate = 0.05, .steps = 100
    };
    float value[COUNT] = { 0 };
    const tutti_param param = {
        .name = "w", .value = value, .count = COUNT, .dtype = TUTTI_FLOAT32
    };
    tutti_trainer_summary summary = { .size = sizeof summary };
    tutti_compression_settings quarter;
    tutti_compressor top_k;
    tutti_reducer_options carrying;
    tutti_optimizer_options adamw;
    tutti_shard_options order;
    tutti_trainer_options options;
    tutti_trainer *trainer = NULL;
    tutti_status status;

    value[0] = (float)tutti_rank(t); /* rank 0's are broadcast */
    tutti_compression_settings_default(&quarter);
    quarter.ratio = 0.25;
    quarter.smallest = 1;
    top_k = tutti_compressor_with(tutti_compress_top_k(), &quarter);
    tutti_reducer_options_default(&carrying);
    carrying.compressor = &top_k;
    carrying.loss_scale = 1024;
    tutti_optimizer_options_default(&adamw);
    tutti_shard_options_default(&order);
    order.samples = SAMPLES;
    order.tail = TUTTI_TAIL_EVEN;
    tutti_trainer_options_default(&options);
    options.params = &param;
    options.param_count = 1;
    options.reducer_options = plan->carries ? &carrying : NULL;
    options.optimizer_options = &adamw;
    options.schedule = &schedule;
    options.shard_options = &order;
    options.batch = BATCH;
    options.epochs = plan->epochs;
    options.steps = plan->steps;
    options.user = value;
    options.step = step;
    options.checkpoint_directory = plan->directory;
    options.resume = plan->directory != NULL;
    options.progress = TUTTI_PROGRESS_NONE;
    (void)CHECK(tutti_trainer_create(t, &options, &trainer) == TUTTI_OK);
    status = tutti_trainer_run(trainer, &summary);
    if (tutti_rank(t) == 0) {
        memcpy(plan->first, value, sizeof value);
        plan->done = summary.steps;
        plan->status = status;
        (void)snprintf(plan->error, sizeof plan->error, "%s", tutti_last_error());
    }
    tutti_trainer_destroy(trainer);
}

static char directory[64];

static void make_directory(void)
{
    (void)snprintf(directory, sizeof directory, "/tmp/tutti-resume-XXXXXX");
    assert_non_null(mkdtemp(directory));
}

static void remove_directory(void)
{
    char file[128];

    for (int i = 0; i <= EPOCHS * SAMPLES; i++) {
        (void)snprintf(file, sizeof file, "%s/step-%012d.safetensors", directory, i);
        (void)unlink(file);
    }
    assert_int_equal(rmdir(directory), 0);
}

/* Runs `plan` on `before` ranks, and goes on to the end with `after`. */
static struct plan interrupted(int before, struct plan plan, int after)
{
    plan.directory = directory;

    make_directory();
    assert_int_equal(ranks_run(before, train, &plan), 0);
    assert_int_equal(plan.status, TUTTI_OK);
    plan.epochs = EPOCHS;
    plan.steps = 0;
    assert_int_equal(ranks_run(after, train, &plan), 0);
    assert_int_equal(plan.status, TUTTI_OK);
    remove_directory();
    return plan;
}

UNIT_TEST(test_a_resumed_run_has_the_bits_of_a_whole_one)
{
    const int ranks = 2;

    for (int carries = 0; carries <= 1; carries++) {
        struct plan whole = { .epochs = EPOCHS, .carries = carries != 0 };
        /* at the end of an epoch, and in the middle of one */
        struct plan parts[] = { { .epochs = 3 }, { .epochs = EPOCHS, .steps = 8 } };

        assert_int_equal(ranks_run(ranks, train, &whole), 0);
        assert_int_equal(whole.done, EPOCHS * SAMPLES / (BATCH * ranks));
        for (int i = 0; i < 2; i++) {
            struct plan resumed;

            parts[i].carries = carries != 0;
            resumed = interrupted(ranks, parts[i], ranks);
            assert_int_equal(resumed.done, whole.done);
            assert_memory_equal(resumed.first, whole.first, sizeof whole.first);
        }
    }
}

UNIT_TEST(test_another_number_of_ranks_goes_on)
{
    const struct plan plan = { .epochs = 3, .carries = true };

    /* 3 epochs of 6 steps on 2 ranks, then 3 of 12 on one, or of 4 on three */
    assert_int_equal(interrupted(2, plan, 1).done, 18 + 36);
    assert_int_equal(interrupted(2, plan, 3).done, 18 + 12);
}

UNIT_TEST(test_a_checkpoint_that_cannot_be_written_is_named)
{
    struct plan plan = { .directory = "/dev/null/run", .epochs = 1 };

    assert_int_equal(ranks_run(2, train, &plan), 0);
    assert_true(plan.status != TUTTI_OK);
    assert_non_null(strstr(plan.error, "/dev/null/run"));
}
