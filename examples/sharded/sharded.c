/*
 * A sharded optimizer (ZeRO-1): every rank has all parameters, and keeps and updates the state of
 * its own part alone. The result is that of the optimizer that is not sharded.
 *
 *   tuttirun -np 2 sharded
 *   tuttirun -np 2 sharded --whole
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

#include "../common/common.h"
#include "../digits/batches.h"
#include "../digits/small.h"

enum {
    EPOCHS = 20,
    BATCH = 60, /* images per step over all ranks */
    SEED = 1
};

/** What a rank trains with. */
struct trainer {
    tutti *t;
    struct dataset data;
    struct batches batches;
    struct network net;
    tutti_reducer *reducer;
    tutti_optimizer *optimizer;
    double loss; /* of the last step, over the whole batch */
    int64_t wait_ns;
};

static void load(struct trainer *trainer)
{
    char error[512];

    if (!dataset_load(&trainer->data, NULL, error, sizeof error)) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_INVALID, "%s", error));
    }
    if (!batches_init(&trainer->batches, &trainer->data, SEED, tutti_rank(trainer->t),
                tutti_size(trainer->t)) ||
            !network_init(&trainer->net, small_shapes, SMALL_LAYERS, BATCH)) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    network_randomize(&trainer->net, SEED); /* the same on all ranks */
}

/** The parameters, their values with them, and the optimizer that updates these. */
static void create_optimizer(struct trainer *trainer, bool sharded)
{
    const char *const names[SMALL_LAYERS] = { "hidden", "classes" };
    tutti_param params[SMALL_LAYERS] = { { .name = NULL } };
    tutti_optimizer_options options;

    for (int l = 0; l < SMALL_LAYERS; l++) {
        params[l].name = names[l];
        params[l].value = trainer->net.layers[l].weights;
        params[l].count = (int64_t)trainer->net.layers[l].parameters;
        params[l].dtype = TUTTI_FLOAT64;
    }
    check(trainer->t,
            tutti_reducer_create(
                    trainer->t, params, SMALL_LAYERS, NULL, &trainer->reducer));
    for (int l = 0; l < SMALL_LAYERS; l++) {
        trainer->net.layers[l].gradients =
                tutti_reducer_gradient(trainer->reducer, (size_t)l);
    }
    tutti_optimizer_options_default(&options);
    options.kind = TUTTI_OPTIMIZER_ADAMW;
    options.learning_rate = 1e-2;
    options.weight_decay = 1e-2;
    options.sharded = sharded;
    check(trainer->t,
            tutti_optimizer_create(trainer->reducer, &options, &trainer->optimizer));
}

/** One step on this rank's part of a batch. */
static void train_step(struct trainer *trainer, int epoch, int first)
{
    double images[BATCH * DATA_PIXELS];
    int labels[BATCH];
    int part = batches_load(&trainer->batches, epoch, first, BATCH, images, labels);
    struct network *net = &trainer->net;
    tutti_step_report report = { .size = sizeof report };

    network_forward(net, images, part);
    /* divided by the batch per rank, so that the average is the mean over the batch */
    trainer->loss =
            network_loss(net, labels, part, (double)BATCH / tutti_size(trainer->t));
    check(trainer->t, tutti_reducer_average(trainer->reducer, "loss", &trainer->loss));
    for (int l = SMALL_LAYERS - 1; l >= 0; l--) {
        network_backward(net, l, part);
        check(trainer->t, tutti_reducer_ready(trainer->reducer, (size_t)l));
    }
    check(trainer->t, tutti_optimizer_step(trainer->optimizer, &report));
    trainer->wait_ns += report.wait_ns;
}

static void print_summary(struct trainer *trainer, double seconds)
{
    int64_t here;
    int64_t whole;

    tutti_optimizer_memory(trainer->optimizer, &here, &whole);
    printf("sharded: %d ranks, accuracy %.2f %%, loss %.6f, %.0f images/s, waiting and "
           "updating %.1f %%, optimizer state %lld of %lld bytes\n",
            tutti_size(trainer->t),
            100 * held_out_accuracy(&trainer->net, &trainer->data), trainer->loss,
            (double)EPOCHS *
                    (double)(trainer->data.train - trainer->data.train % BATCH) /
                    seconds,
            1e-7 * (double)trainer->wait_ns / seconds, (long long)here,
            (long long)whole);
}

int main(int argc, char **argv)
{
    struct trainer trainer = { .t = NULL };
    double begin;

    check(NULL, tutti_init(&trainer.t, NULL));
    load(&trainer);
    create_optimizer(&trainer, argc < 2 || strcmp(argv[1], "--whole") != 0);
    begin = now();
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        batches_shuffle(&trainer.batches, epoch);
        for (int first = 0; first + BATCH <= trainer.data.train; first += BATCH) {
            train_step(&trainer, epoch, first);
        }
    }
    if (tutti_rank(trainer.t) == 0) {
        print_summary(&trainer, now() - begin);
    }
    check(trainer.t, tutti_optimizer_destroy(trainer.optimizer));
    check(trainer.t, tutti_reducer_destroy(trainer.reducer));
    check(NULL, tutti_finalize(trainer.t));
    network_fini(&trainer.net);
    batches_fini(&trainer.batches);
    dataset_fini(&trainer.data);
    return EXIT_SUCCESS;
}
