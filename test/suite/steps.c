/*
 * Steps: a tensor that one rank leaves out once is not paired with its next one, whichever
 * way ranks agree on it. It fails on all ranks, which can go on with the name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/buffer.h"
#include "test/suite/gpu.h"
#include "test/suite/suite.h"

enum {
    LAYERS = 4,
    LEFT_OUT = 2, /* the layer                             */
    BEFORE_JOIN = 8
};

/**
 * How the layers are submitted, and when the last rank leaves one out; in a set of its own.
 */
struct way {
    const char *name;
    bool registered;
    bool grouped; /* and then it leaves out all of them          */
    bool reversed; /* ranks of the set are those of the world in reverse */
    int64_t stride;
    int left_out_at; /* iteration; 0 and 1 know no number */
};

static const struct way ways[] = {
    { "by name", false, false, false, 1, 0 },
    { "by number", false, false, false, 1, 2 },
    { "in tens", false, false, false, 10, 5 },
    { "registered", true, false, false, 1, 5 },
    { "grouped", false, true, false, 1, 5 },
    { "reversed", false, false, true, 1, 5 },
};

struct trainer {
    tutti *t;
    struct checks *c;
    const struct way *way;
    tutti_options options;
    tutti_tensor ids[LAYERS];
    int32_t *values; /* [LAYERS] */
    tutti_request requests[LAYERS];
};

static void name_of(const struct trainer *trainer, int layer, char name[64])
{
    (void)snprintf(name, 64, "layer %d %s, left out at %d", layer, trainer->way->name,
            trainer->way->left_out_at);
}

static void make_set(struct trainer *trainer)
{
    const struct checks *c = trainer->c;
    int *ranks = must_alloc((size_t)c->size, sizeof *ranks);

    for (int r = 0; r < c->size; r++) {
        ranks[r] = trainer->way->reversed ? c->size - 1 - r : r;
    }
    EXPECT_OK(trainer->c,
            tutti_process_set_create(
                    trainer->t, ranks, c->size, &trainer->options.process_set));
    free(ranks);
}

static void register_layers(struct trainer *trainer)
{
    char name[64];
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = name,
        .collective = TUTTI_ALLREDUCE,
        .count = 1,
        .dtype = TUTTI_INT32,
        .op = TUTTI_SUM,
        .options = &trainer->options };

    for (int l = 0; l < LAYERS; l++) {
        name_of(trainer, l, name);
        EXPECT_OK(
                trainer->c, tutti_tensor_register(trainer->t, &desc, &trainer->ids[l]));
    }
}

static void submit(struct trainer *trainer, int layer, int64_t step)
{
    int32_t *value = &trainer->values[layer];
    tutti_request *request = &trainer->requests[layer];
    char name[64];

    *value = (int32_t)((trainer->c->rank + 1) * (step + layer));
    if (trainer->way->registered) {
        EXPECT_OK(trainer->c,
                tutti_submit(trainer->t, trainer->ids[layer], value, value, step, NULL,
                        NULL, request));
        return;
    }
    name_of(trainer, layer, name);
    trainer->options.step = step;
    EXPECT_OK(trainer->c,
            tutti_allreduce_async(trainer->t, name, value, value, 1, TUTTI_INT32,
                    TUTTI_SUM, &trainer->options, request));
}

/* All layers but, if `without`, what is left out. */
static void submit_layers(struct trainer *trainer, int64_t step, bool without)
{
    const bool grouped = trainer->way->grouped;

    if (grouped && without) {
        return;
    }
    if (grouped) {
        EXPECT_OK(trainer->c, tutti_group_begin(trainer->t));
    }
    for (int l = 0; l < LAYERS; l++) {
        if (!without || l != LEFT_OUT) {
            submit(trainer, l, step);
        }
    }
    if (grouped) {
        EXPECT_OK(trainer->c, tutti_group_end(trainer->t));
    }
}

static void expect_sum(struct trainer *trainer, int layer, int64_t step)
{
    const int n = trainer->c->size;

    EXPECT_OK(trainer->c, suite_gpu_wait(trainer->t, &trainer->requests[layer]));
    EXPECT(trainer->c, trainer->values[layer] == n * (n + 1) / 2 * (step + layer));
}

/* The words name the tensor, all ranks and both steps, and the way out. */
static void expect_words(struct trainer *trainer, int64_t step)
{
    const int last = trainer->c->size - 1;
    const char *message = tutti_last_error();
    char part[64];

    (void)snprintf(part, sizeof part, "rank %d gave step %lld", last,
            (long long)(step + trainer->way->stride));
    EXPECT(trainer->c, strstr(message, part) != NULL);
    (void)snprintf(part, sizeof part, " gave step %lld", (long long)step);
    EXPECT(trainer->c, strstr(message, part) != NULL);
    EXPECT(trainer->c, strstr(message, "step differs") != NULL);
    EXPECT(trainer->c, strstr(message, "submit it once in each step") != NULL);
    name_of(trainer, LEFT_OUT, part);
    EXPECT(trainer->c, strstr(message, part) != NULL);
}

/* What was left out meets the next one of the last rank, here of this `step`. */
static void expect_mismatch(struct trainer *trainer, int64_t step)
{
    for (int l = 0; l < LAYERS; l++) {
        if (l == LEFT_OUT || trainer->way->grouped) {
            EXPECT_STATUS(trainer->c, TUTTI_ERR_MISMATCH,
                    suite_gpu_wait(trainer->t, &trainer->requests[l]));
        } else {
            expect_sum(trainer, l, step);
        }
        if (l == LEFT_OUT) {
            expect_words(trainer,
                    trainer->c->rank == trainer->c->size - 1
                            ? step - trainer->way->stride
                            : step);
        }
    }
}

static void one_iteration(struct trainer *trainer, int iteration)
{
    const struct way *way = trainer->way;
    const bool is_last = trainer->c->rank == trainer->c->size - 1;
    const bool without = is_last && iteration == way->left_out_at;
    const int64_t step = 5 + iteration * way->stride;

    submit_layers(trainer, step, without);
    if (iteration == way->left_out_at + (is_last ? 1 : 0)) {
        expect_mismatch(trainer, step);
        if (!is_last) {
            return;
        }
        /* The others come with this one now. */
        if (way->grouped) {
            submit_layers(trainer, step, false);
        } else {
            submit(trainer, LEFT_OUT, step);
            expect_sum(trainer, LEFT_OUT, step);
            return;
        }
    }
    for (int l = 0; l < LAYERS; l++) {
        if (!without || (l != LEFT_OUT && !way->grouped)) {
            expect_sum(trainer, l, step);
        }
    }
}

static void left_out(tutti *t, struct checks *c, const struct way *way)
{
    BUFFER_ARRAY(int32_t, values, LAYERS);
    struct trainer trainer = { .t = t, .c = c, .way = way, .values = values };

    checks_step(c, way->name);
    tutti_options_default(&trainer.options);
    make_set(&trainer);
    if (way->registered) {
        register_layers(&trainer);
    }
    for (int i = 0; i < way->left_out_at + 6; i++) {
        one_iteration(&trainer, i);
    }
    for (int l = 0; l < LAYERS && way->registered; l++) {
        EXPECT_OK(c, tutti_tensor_unregister(t, trainer.ids[l]));
    }
    EXPECT_OK(c, tutti_process_set_destroy(t, trainer.options.process_set));
}

/* Steps may be anything that is equal on all ranks. */
static void any_steps(tutti *t, struct checks *c)
{
    static const int64_t steps[] = { 0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 900, 900, 900,
        901, 901, 901, -1, -1, -1, -1, 7, 5, 3, 1, INT64_MAX, INT64_MAX - 1, 0, 12, 88,
        6, 6, 6, 6, 6, 6 };
    const struct way way = { .name = "with any step", .stride = 1 };
    BUFFER_ARRAY(int32_t, values, LAYERS);
    struct trainer trainer = { .t = t, .c = c, .way = &way, .values = values };
    const int n = c->size * (c->size + 1) / 2;
    char name[64];

    checks_step(c, way.name);
    tutti_options_default(&trainer.options);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        for (int l = 0; l < LAYERS; l++) {
            name_of(&trainer, l, name);
            values[l] = (c->rank + 1) * (l + (int)i);
            trainer.options.step = steps[i];
            EXPECT_OK(c,
                    tutti_allreduce_async(t, name, &values[l], &values[l], 1,
                            TUTTI_INT32, TUTTI_SUM, &trainer.options,
                            &trainer.requests[l]));
        }
        for (int l = 0; l < LAYERS; l++) {
            EXPECT_OK(c, suite_gpu_wait(t, &trainer.requests[l]));
            EXPECT(c, values[l] == n * (l + (int)i));
        }
    }
}

/* Who has joined has no step, and has missed none when it comes back. */
static void uneven(tutti *t, struct checks *c)
{
    const struct way way = { .name = "uneven", .stride = 1, .left_out_at = -9 };
    const bool joins = c->rank == c->size - 1;
    BUFFER_ARRAY(int32_t, values, LAYERS);
    struct trainer trainer = { .t = t, .c = c, .way = &way, .values = values };
    const int n = c->size - 1;
    int64_t step;

    checks_step(c, way.name);
    tutti_options_default(&trainer.options);
    for (step = 0; step < BEFORE_JOIN; step++) {
        submit_layers(&trainer, step, false);
        for (int l = 0; l < LAYERS; l++) {
            expect_sum(&trainer, l, step);
        }
    }
    for (; step < 2L * BEFORE_JOIN && !joins; step++) {
        /* Some of them out of turn. */
        submit_layers(&trainer, step == 10 ? 500 : step, false);
        for (int l = 0; l < LAYERS; l++) {
            EXPECT_OK(c, suite_gpu_wait(t, &trainer.requests[l]));
            EXPECT(c, values[l] == n * (n + 1) / 2 * ((step == 10 ? 500 : step) + l));
        }
    }
    EXPECT_OK(c, tutti_join(t, NULL, NULL));
    for (step = 2L * BEFORE_JOIN; step < 3L * BEFORE_JOIN; step++) {
        submit_layers(&trainer, step, false);
        for (int l = 0; l < LAYERS; l++) {
            expect_sum(&trainer, l, step);
        }
    }
}

static void of_a_barrier(tutti *t, struct checks *c)
{
    tutti_options options;

    checks_step(c, "of a barrier");
    tutti_options_default(&options);
    options.step = c->rank == 0 ? 1 : 2;
    EXPECT_STATUS(
            c, TUTTI_ERR_MISMATCH, tutti_barrier(t, "barrier with steps", &options));
    options.step = 2;
    EXPECT_OK(c, tutti_barrier(t, "barrier with steps", &options));
}

void suite_steps(tutti *t, struct checks *c)
{
    any_steps(t, c);
    if (c->size == 1) {
        return;
    }
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        left_out(t, c, &ways[i]);
    }
    uneven(t, c);
    of_a_barrier(t, c);
}
