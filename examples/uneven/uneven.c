/*
 * Uneven data: rank r has r + 1 parts of the training images. A rank that has used up its own
 * joins, and the others average without it until all have joined.
 *
 *   tuttirun -np 3 uneven
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/trainer.h>

#include "../common/common.h"
#include "../digits/batches.h"
#include "../digits/small.h"

enum {
    EPOCHS = 40,
    BATCH = 20, /* images per step of each rank */
    SEED = 1
};

/** What a rank trains with. */
struct trainer {
    tutti *t;
    struct dataset data;
    struct batches batches; /* of all images: each rank takes a range of its own */
    int first; /* of the range */
    int end;
    struct network net;
    tutti_reducer *reducer;
    double loss; /* of the last step of this rank */
    int64_t wait_ns;
};

static void load(struct trainer *trainer)
{
    int rank = tutti_rank(trainer->t);
    int parts = tutti_size(trainer->t) * (tutti_size(trainer->t) + 1) / 2;
    char error[512];

    if (!dataset_load(&trainer->data, NULL, error, sizeof error)) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_INVALID, "%s", error));
    }
    if (!batches_init(&trainer->batches, &trainer->data, SEED, 0, 1) ||
            !network_init(&trainer->net, small_shapes, SMALL_LAYERS, BATCH)) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    trainer->first = batches_part(trainer->data.train, rank * (rank + 1) / 2, parts);
    trainer->end =
            batches_part(trainer->data.train, (rank + 1) * (rank + 2) / 2, parts);
}

static void create_reducer(struct trainer *trainer)
{
    const char *const names[SMALL_LAYERS] = { "hidden", "classes" };
    tutti_param params[SMALL_LAYERS] = { { .name = NULL } };
    tutti_reducer_options options;

    for (int l = 0; l < SMALL_LAYERS; l++) {
        params[l].name = names[l];
        params[l].count = (int64_t)trainer->net.layers[l].parameters;
        params[l].dtype = TUTTI_FLOAT64;
    }
    tutti_reducer_options_default(&options);
    options.uneven = true;
    check(trainer->t,
            tutti_reducer_create(
                    trainer->t, params, SMALL_LAYERS, &options, &trainer->reducer));
    for (int l = 0; l < SMALL_LAYERS; l++) {
        trainer->net.layers[l].gradients =
                tutti_reducer_gradient(trainer->reducer, (size_t)l);
    }
}

/** One step; its average is over the ranks that still have data. */
static void train_step(struct trainer *trainer, int epoch, int first, int batch)
{
    double images[BATCH * DATA_PIXELS];
    int labels[BATCH];
    tutti_step_report report = { .size = sizeof report };

    (void)batches_load(&trainer->batches, epoch, first, batch, images, labels);
    network_forward(&trainer->net, images, batch);
    trainer->loss = network_loss(&trainer->net, labels, batch, batch);
    for (int l = SMALL_LAYERS - 1; l >= 0; l--) {
        network_backward(&trainer->net, l, batch);
        check(trainer->t, tutti_reducer_ready(trainer->reducer, (size_t)l));
    }
    check(trainer->t, tutti_reducer_wait(trainer->reducer, &report));
    trainer->wait_ns += report.wait_ns;
    network_update(&trainer->net, 0.02, 0.9, 1e-4);
}

/** This rank's images, a barrier that the others need not wait for, and the newest values. */
static void train_epoch(struct trainer *trainer, int epoch)
{
    int64_t parameters = (int64_t)trainer->net.parameters;
    double begin;
    int last;

    batches_shuffle(&trainer->batches, epoch);
    for (int first = trainer->first; first < trainer->end; first += BATCH) {
        int left = trainer->end - first;

        train_step(trainer, epoch, first, left < BATCH ? left : BATCH);
    }
    begin = now();
    check(trainer->t, tutti_reducer_join(trainer->reducer, &last));
    check(trainer->t,
            tutti_broadcast(trainer->t, "values", trainer->net.values, parameters,
                    TUTTI_FLOAT64, last, NULL));
    check(trainer->t,
            tutti_broadcast(trainer->t, "velocity", trainer->net.velocity, parameters,
                    TUTTI_FLOAT64, last, NULL));
    trainer->wait_ns += (int64_t)(1e9 * (now() - begin));
}

int main(void)
{
    struct trainer trainer = { .t = NULL };
    double begin;
    double seconds;

    check(NULL, tutti_init(&trainer.t, NULL));
    load(&trainer);
    create_reducer(&trainer);
    network_randomize(&trainer.net, SEED); /* the same on all ranks */
    begin = now();
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        train_epoch(&trainer, epoch);
    }
    seconds = now() - begin;
    printf("uneven: rank %d of %d with %d images: accuracy %.2f %%, loss %.4f, %.0f "
           "images/s, waiting %.1f %%\n",
            tutti_rank(trainer.t), tutti_size(trainer.t), trainer.end - trainer.first,
            100 * held_out_accuracy(&trainer.net, &trainer.data), trainer.loss,
            EPOCHS * (trainer.end - trainer.first) / seconds,
            1e-7 * (double)trainer.wait_ns / seconds);
    check(trainer.t, tutti_reducer_destroy(trainer.reducer));
    check(NULL, tutti_finalize(trainer.t));
    network_fini(&trainer.net);
    batches_fini(&trainer.batches);
    dataset_fini(&trainer.data);
    return EXIT_SUCCESS;
}
