/*
 * One process, n threads: each thread is a rank with the whole network and a part of every
 * batch, as with TensorFlow's MirroredStrategy. Needs no launcher and no MPI.
 *
 *   threads 4
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/trainer.h>

#include "../common/common.h"
#include "../digits/batches.h"
#include "../digits/small.h"

enum {
    RANKS_MAX = 16,
    EPOCHS = 40,
    BATCH = 60, /* images per step over all ranks */
    SEED = 1
};

/** One rank's thread. */
struct rank {
    pthread_t thread;
    tutti *t;
    const struct dataset *data; /* of all ranks */
    struct network net; /* a copy for each rank */
    struct batches batches;
    tutti_reducer *reducer;
    double loss; /* of the last step, over the whole batch */
    double seconds;
    int64_t wait_ns; /* for gradients of other ranks */
};

/** Builds the rank's copy of the network; all draw the same first parameters. */
static void build(struct rank *self)
{
    const char *const names[SMALL_LAYERS] = { "hidden", "classes" };
    tutti_param params[SMALL_LAYERS] = { { .name = NULL } };

    if (!network_init(&self->net, small_shapes, SMALL_LAYERS, BATCH) ||
            !batches_init(&self->batches, self->data, SEED, tutti_rank(self->t),
                    tutti_size(self->t))) {
        check(self->t, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    network_randomize(&self->net, SEED);
    for (int l = 0; l < SMALL_LAYERS; l++) {
        params[l].name = names[l];
        params[l].count = (int64_t)self->net.layers[l].parameters;
        params[l].dtype = TUTTI_FLOAT64;
    }
    check(self->t,
            tutti_reducer_create(self->t, params, SMALL_LAYERS, NULL, &self->reducer));
    for (int l = 0; l < SMALL_LAYERS; l++) {
        self->net.layers[l].gradients =
                tutti_reducer_gradient(self->reducer, (size_t)l);
    }
}

/** One step on this rank's part of a batch. */
static void train_step(struct rank *self, int epoch, int first)
{
    double images[BATCH * DATA_PIXELS];
    int labels[BATCH];
    int part = batches_load(&self->batches, epoch, first, BATCH, images, labels);
    tutti_step_report report = { .size = sizeof report };

    network_forward(&self->net, images, part);
    /* divided by the batch per rank, so that the average is the mean over the batch */
    self->loss =
            network_loss(&self->net, labels, part, (double)BATCH / tutti_size(self->t));
    check(self->t, tutti_reducer_average(self->reducer, "loss", &self->loss));
    for (int l = SMALL_LAYERS - 1; l >= 0; l--) {
        network_backward(&self->net, l, part);
        check(self->t, tutti_reducer_ready(self->reducer, (size_t)l));
    }
    check(self->t, tutti_reducer_wait(self->reducer, &report));
    self->wait_ns += report.wait_ns;
    network_update(&self->net, 0.1, 0.9, 1e-4);
}

static void *rank_main(void *argument)
{
    struct rank *self = argument;
    double begin;

    build(self);
    begin = now();
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        batches_shuffle(&self->batches, epoch);
        for (int first = 0; first + BATCH <= self->data->train; first += BATCH) {
            train_step(self, epoch, first);
        }
    }
    self->seconds = now() - begin;
    check(self->t, tutti_reducer_destroy(self->reducer));
    check(NULL, tutti_finalize(self->t)); /* collective: every thread its own */
    return NULL;
}

int main(int argc, char **argv)
{
    long ranks = argc > 1 ? strtol(argv[1], NULL, 10) : 2;
    struct rank rank[RANKS_MAX] = { { .t = NULL } };
    tutti *contexts[RANKS_MAX];
    struct dataset data;
    char error[512];
    int64_t wait_ns = 0;

    if (ranks < 1 || ranks > RANKS_MAX) {
        (void)fprintf(stderr, "usage: threads [1 to %d ranks]\n", RANKS_MAX);
        return EXIT_FAILURE;
    }
    if (!dataset_load(&data, NULL, error, sizeof error)) {
        (void)fprintf(stderr, "threads: %s\n", error);
        return EXIT_FAILURE;
    }
    check(NULL, tutti_init_local((int)ranks, contexts, NULL));
    for (long i = 0; i < ranks; i++) {
        rank[i].t = contexts[i];
        rank[i].data = &data;
        if (pthread_create(&rank[i].thread, NULL, rank_main, &rank[i]) != 0) {
            (void)fprintf(stderr, "threads: cannot start thread %ld\n", i);
            return EXIT_FAILURE;
        }
    }
    for (long i = 0; i < ranks; i++) {
        (void)pthread_join(rank[i].thread, NULL);
        wait_ns += rank[i].wait_ns;
    }
    printf("threads: %ld ranks, accuracy %.2f %%, loss %.6f, %.0f images/s, waiting "
           "for "
           "gradients %.1f %%\n",
            ranks, 100 * held_out_accuracy(&rank[0].net, &data), rank[0].loss,
            (double)EPOCHS * (double)(data.train - data.train % BATCH) /
                    rank[0].seconds,
            1e-7 * (double)wait_ns / (rank[0].seconds * (double)ranks));
    for (long i = 0; i < ranks; i++) {
        network_fini(&rank[i].net);
        batches_fini(&rank[i].batches);
    }
    dataset_fini(&data);
    return EXIT_SUCCESS;
}
