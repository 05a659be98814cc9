/*
 * Parameter servers: the last ranks keep the parameters, the others train on the handwritten
 * digits.
 *
 *   tuttirun -np 3 parameter_server sync
 *   tuttirun -np 4 parameter_server ssp 4 2        staleness 4, two servers
 *   tuttirun --roles parameter_server async 0 roles  roles of TF_CONFIG
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

#include "../common/common.h"
#include "../digits/batches.h"
#include "../digits/small.h"

enum {
    LAYERS = 4,
    EPOCHS = 20,
    BATCH = 32, /* images per step over all workers */
    SEED = 1
};

/** Two convolutions, a hidden layer, and the classes. */
static const struct layer_shape shapes[LAYERS] = {
    { .side = 8, .channels = 1, .kernel = 3, .stride = 1, .padding = 1, .outputs = 16 },
    { .side = 8,
            .channels = 16,
            .kernel = 3,
            .stride = 2,
            .padding = 1,
            .outputs = 32 },
    { .side = 4, .channels = 32, .kernel = 4, .stride = 1, .outputs = 64 },
    { .side = 1, .channels = 64, .kernel = 1, .stride = 1, .outputs = DATA_CLASSES },
};

/** What a rank trains with. */
struct trainer {
    tutti *t;
    tutti_server *ps;
    tutti_server_mode mode;
    struct dataset data;
    struct batches batches;
    struct network net;
    double *gradients;
    int workers;
};

/** How many ranks train, and which of them this is (-1: none). */
static int find_worker(struct trainer *trainer, tutti_role role)
{
    int size = tutti_size(trainer->t);
    int32_t trains = role == TUTTI_ROLE_CHIEF || role == TUTTI_ROLE_WORKER;
    int32_t *all = calloc((size_t)size, sizeof *all);
    int before = 0;

    if (all == NULL) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
        return -1;
    }
    check(trainer->t,
            tutti_allgather(
                    trainer->t, "trains", &trains, all, 1, 1, NULL, TUTTI_INT32, NULL));
    for (int r = 0; r < size; r++) {
        before += r < tutti_rank(trainer->t) ? all[r] : 0;
        trainer->workers += all[r];
    }
    free(all);
    return trains != 0 ? before : -1;
}

/** The servers, which apply momentum and weight decay themselves. */
static void create_server(struct trainer *trainer, const tutti_server_options *options)
{
    struct network *net = &trainer->net;
    const char *const names[LAYERS] = { "layer0", "layer1", "layer2", "layer3" };
    tutti_param params[LAYERS] = { { .name = NULL } };

    trainer->gradients = calloc(net->parameters, sizeof *trainer->gradients);
    if (trainer->gradients == NULL) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    for (int l = 0; l < LAYERS; l++) {
        struct layer *layer = &net->layers[l];

        layer->gradients = trainer->gradients + (layer->weights - net->values);
        params[l] = (tutti_param){ .name = names[l],
            .value = layer->weights,
            .gradient = layer->gradients,
            .count = (int64_t)layer->parameters,
            .dtype = TUTTI_FLOAT64 };
    }
    check(trainer->t,
            tutti_server_create(trainer->t, params, LAYERS, options, &trainer->ps));
}

static void load(struct trainer *trainer)
{
    char error[512];

    if (!dataset_load(&trainer->data, NULL, error, sizeof error)) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_INVALID, "%s", error));
    }
    if (!network_init(&trainer->net, shapes, LAYERS, BATCH)) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    network_randomize(&trainer->net, SEED + (uint64_t)tutti_rank(trainer->t));
}

/** One step on this worker's part of a batch, with the mean gradient of that part. */
static void train_step(struct trainer *trainer, int epoch, int first)
{
    double images[BATCH * DATA_PIXELS];
    int labels[BATCH];
    int part = batches_load(&trainer->batches, epoch, first, BATCH, images, labels);
    struct network *net = &trainer->net;

    network_forward(net, images, part);
    (void)network_loss(net, labels, part, part);
    for (int l = LAYERS - 1; l >= 0; l--) {
        network_backward(net, l, part);
    }
    check(trainer->t, tutti_server_step(trainer->ps));
}

static void train(struct trainer *trainer, int worker)
{
    int steps = trainer->data.train / BATCH;
    /* In SYNC a step updates once, else once for each worker. */
    double peak = 0.03 / (trainer->mode == TUTTI_SERVER_SYNC ? 1 : trainer->workers);
    tutti_server_report report = { .size = sizeof report };
    double begin = now();
    double seconds;

    if (!batches_init(
                &trainer->batches, &trainer->data, SEED, worker, trainer->workers)) {
        check(trainer->t, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    check(trainer->t, tutti_server_pull(trainer->ps));
    for (int step = 0; step < EPOCHS * steps; step++) {
        double done = (double)step / (EPOCHS * steps);

        if (step % steps == 0) {
            batches_shuffle(&trainer->batches, 1 + step / steps);
        }
        check(trainer->t,
                tutti_server_set_rate(
                        trainer->ps, peak * 0.5 * (1 + cos(acos(-1.0) * done))));
        train_step(trainer, 1 + step / steps, step % steps * BATCH);
    }
    check(trainer->t, tutti_server_finish(trainer->ps));
    seconds = now() - begin;
    batches_fini(&trainer->batches);
    check(trainer->t, tutti_server_report_get(trainer->ps, &report));
    if (worker == 0) {
        printf("parameter_server: %d workers, accuracy %.2f %%, %.0f images/s, "
               "communication "
               "%.1f %%, largest staleness %lld, sent %lld and received %lld bytes\n",
                trainer->workers,
                100 * held_out_accuracy(&trainer->net, &trainer->data),
                EPOCHS * steps * BATCH / seconds,
                1e-7 * (double)report.wait_ns / seconds, (long long)report.staleness,
                (long long)report.sent_bytes, (long long)report.received_bytes);
    }
}

/** Looks at the parameters as often as it can. */
static void evaluate(struct trainer *trainer)
{
    tutti_server_report report = { .size = sizeof report };

    while (!report.over) {
        check(trainer->t, tutti_server_pull(trainer->ps));
        check(trainer->t, tutti_server_report_get(trainer->ps, &report));
        printf("evaluator: clock %lld, accuracy %.2f %%\n", (long long)report.slowest,
                100 * held_out_accuracy(&trainer->net, &trainer->data));
    }
    check(trainer->t, tutti_server_finish(trainer->ps));
}

/** MODE [STALENESS [SERVERS | roles]] */
static void read_arguments(const struct trainer *trainer, int argc, char **argv,
        tutti_server_options *options)
{
    const char *mode = argc > 1 ? argv[1] : "ssp";

    tutti_server_options_default(options);
    options->momentum = 0.9;
    options->weight_decay = 3e-3;
    options->mode = strcmp(mode, "sync") == 0 ? TUTTI_SERVER_SYNC
            : strcmp(mode, "async") == 0      ? TUTTI_SERVER_ASYNC
                                              : TUTTI_SERVER_SSP;
    options->staleness = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 4;
    if (argc > 3 && strcmp(argv[3], "roles") == 0) {
        check(trainer->t,
                tutti_role_from_environment(trainer->t, &options->role, NULL));
    } else if (argc > 3) {
        options->servers = (int)strtol(argv[3], NULL, 10);
    }
}

int main(int argc, char **argv)
{
    struct trainer trainer = { .t = NULL };
    tutti_server_options options;
    tutti_role role;
    int worker;

    check(NULL, tutti_init(&trainer.t, NULL));
    read_arguments(&trainer, argc, argv, &options);
    trainer.mode = options.mode;
    load(&trainer);
    create_server(&trainer, &options);
    role = tutti_server_role(trainer.ps);
    worker = find_worker(&trainer, role);
    if (role == TUTTI_ROLE_SERVER) {
        check(trainer.t, tutti_server_serve(trainer.ps));
    } else if (role == TUTTI_ROLE_EVALUATOR) {
        evaluate(&trainer);
    } else {
        train(&trainer, worker);
    }
    check(trainer.t, tutti_server_destroy(trainer.ps));
    check(NULL, tutti_finalize(trainer.t));
    network_fini(&trainer.net);
    dataset_fini(&trainer.data);
    free(trainer.gradients);
    return EXIT_SUCCESS;
}
