/*
 * The digits, with fewer bytes between the ranks:
 *
 *   tuttirun -np 2 compression METHOD [EPOCHS]
 *
 * METHOD is a compressor (none, fp16, bf16, top-k, power-sgd, sign, adasum) or trains most steps
 * without communication (local-sgd, diloco). Every rank takes its part of the same batches; see
 * examples/digits for a trainer with all the rest.
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
    BATCH = 60, /* images per step over all ranks */
    LAYERS = 4,
    PARAMS = 2 * LAYERS, /* of each layer weights and bias */
    SEED = 1
};

struct method {
    const char *name;
    const tutti_compressor *(*compressor)(void); /* NULL: local steps */
    int period; /* of local steps */
    bool diloco;
    double rate; /* at the start; 0: 0.1. DiLoCo multiplies it by about 7, Adasum by up to the ranks */
};

static const struct method methods[] = {
    { .name = "none", .compressor = tutti_compress_none },
    { .name = "fp16", .compressor = tutti_compress_fp16 },
    { .name = "bf16", .compressor = tutti_compress_bf16 },
    { .name = "top-k", .compressor = tutti_compress_top_k },
    { .name = "power-sgd", .compressor = tutti_compress_power_sgd },
    { .name = "sign", .compressor = tutti_compress_sign },
    { .name = "adasum", .compressor = tutti_compress_adasum, .rate = 0.05 },
    { .name = "local-sgd", .period = 5 },
    { .name = "diloco", .period = 25, .diloco = true, .rate = 0.01 },
};

/** Everything one rank trains with. */
struct trainer {
    tutti *job;
    const struct method *method;
    struct dataset data;
    struct batches batches;
    struct network net;
    double *gradients; /* of the network, [net.parameters] */
    double *images; /* this rank's part of a batch */
    int labels[BATCH];
    tutti_reducer *reducer; /* of a compressor */
    tutti_local_sgd *local; /* of local steps */
    int64_t sent; /* bytes given to collectives */
    double waited; /* seconds */
};

static void create_reducer(struct trainer *trainer)
{
    static char names[PARAMS][16];
    int64_t shapes[LAYERS][2];
    tutti_param params[PARAMS] = { { .name = NULL } };
    tutti_reducer_options options;

    for (int p = 0; p < PARAMS; p++) {
        const struct layer *layer = &trainer->net.layers[p / 2];
        bool bias = p % 2 == 1;

        (void)snprintf(
                names[p], sizeof names[p], "%s%d", bias ? "bias" : "weights", p / 2);
        shapes[p / 2][0] = (int64_t)layer->inputs;
        shapes[p / 2][1] = (int64_t)layer->outputs;
        params[p].name = names[p];
        params[p].dtype = TUTTI_FLOAT32;
        params[p].count = (int64_t)(layer->outputs * (bias ? 1 : layer->inputs));
        params[p].ndim = bias ? 0 : 2; /* PowerSGD wants to know the matrix */
        params[p].dims = bias ? NULL : shapes[p / 2];
    }
    tutti_reducer_options_default(&options);
    options.compressor = trainer->method->compressor();
    check(trainer->job,
            tutti_reducer_create(
                    trainer->job, params, PARAMS, &options, &trainer->reducer));
}

static void create_local(struct trainer *trainer)
{
    tutti_param param = { .name = "parameters",
        .value = trainer->net.values,
        .count = (int64_t)trainer->net.parameters,
        .dtype = TUTTI_FLOAT64 };
    tutti_local_sgd_options options;

    if (trainer->method->diloco) {
        tutti_local_sgd_options_diloco(&options);
    } else {
        tutti_local_sgd_options_default(&options);
    }
    options.period = trainer->method->period;
    check(trainer->job,
            tutti_local_sgd_create(trainer->job, &param, 1, &options, &trainer->local));
}

/** The network of examples/digits, with equal parameters on all ranks. */
static void prepare(struct trainer *trainer)
{
    static const struct layer_shape shapes[LAYERS] = {
        { .side = 8,
                .channels = 1,
                .kernel = 3,
                .stride = 1,
                .padding = 1,
                .outputs = 16 },
        { .side = 8,
                .channels = 16,
                .kernel = 3,
                .stride = 2,
                .padding = 1,
                .outputs = 32 },
        { .side = 4, .channels = 32, .kernel = 4, .stride = 1, .outputs = 64 },
        { .side = 1,
                .channels = 64,
                .kernel = 1,
                .stride = 1,
                .outputs = DATA_CLASSES },
    };
    char error[512] = "out of memory";
    double *at;

    if (!dataset_load(&trainer->data, NULL, error, sizeof error) ||
            !network_init(&trainer->net, shapes, LAYERS, BATCH) ||
            !batches_init(&trainer->batches, &trainer->data, SEED,
                    tutti_rank(trainer->job), tutti_size(trainer->job))) {
        check(trainer->job, tutti_set_last_error(TUTTI_ERR_INVALID, "%s", error));
    }
    trainer->gradients = calloc(trainer->net.parameters, sizeof *trainer->gradients);
    trainer->images = calloc((size_t)BATCH * DATA_PIXELS, sizeof *trainer->images);
    if (trainer->gradients == NULL || trainer->images == NULL) {
        check(trainer->job, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    at = trainer->gradients;
    for (int l = 0; l < LAYERS; l++) {
        trainer->net.layers[l].gradients = at;
        at += trainer->net.layers[l].parameters;
    }
    network_randomize(&trainer->net, SEED);
}

/** The backward pass, with each gradient on its way as soon as it is there. */
static void average_gradients(struct trainer *trainer, int part)
{
    tutti_step_report report = { .size = sizeof report };

    for (int p = PARAMS; p-- > 0;) {
        const struct layer *layer = &trainer->net.layers[p / 2];
        size_t weights = layer->inputs * layer->outputs;
        size_t count = p % 2 == 1 ? layer->outputs : weights;
        const double *from = layer->gradients + (p % 2 == 1 ? weights : 0);
        float *to = tutti_reducer_gradient(trainer->reducer, (size_t)p);

        if (p % 2 == 1) {
            network_backward(&trainer->net, p / 2, part);
        }
        for (size_t i = 0; i < count; i++) {
            to[i] = (float)from[i];
        }
        check(trainer->job, tutti_reducer_ready(trainer->reducer, (size_t)p));
    }
    check(trainer->job, tutti_reducer_wait(trainer->reducer, &report));
    trainer->sent += report.sent_bytes;
    trainer->waited += (double)report.wait_ns * 1e-9;
    for (int p = 0; p < PARAMS; p++) {
        const struct layer *layer = &trainer->net.layers[p / 2];
        size_t weights = layer->inputs * layer->outputs;
        size_t count = p % 2 == 1 ? layer->outputs : weights;
        double *to = layer->gradients + (p % 2 == 1 ? weights : 0);
        const float *from = tutti_reducer_gradient(trainer->reducer, (size_t)p);

        for (size_t i = 0; i < count; i++) {
            to[i] = from[i];
        }
    }
}

static void train_step(struct trainer *trainer, int part, double rate)
{
    bool met = false;
    double begin;

    network_forward(&trainer->net, trainer->images, part);
    (void)network_loss(&trainer->net, trainer->labels, part, part);
    if (trainer->reducer != NULL) {
        average_gradients(trainer, part);
    } else {
        for (int l = LAYERS; l-- > 0;) {
            network_backward(&trainer->net, l, part);
        }
    }
    network_update(&trainer->net, rate, 0.9, 3e-3);
    if (trainer->local != NULL) {
        begin = now();
        check(trainer->job, tutti_local_sgd_step(trainer->local, &met));
        trainer->waited += now() - begin;
        trainer->sent += met ? (int64_t)(trainer->net.parameters * sizeof(double)) : 0;
    }
}

static void train(struct trainer *trainer, int epochs)
{
    int steps = trainer->data.train / BATCH;
    double highest = trainer->method->rate > 0.0 ? trainer->method->rate : 0.1;

    for (int step = 0; step < epochs * steps; step++) {
        double rate = 0.5 * highest * (1.0 + cos(acos(-1.0) * step / (epochs * steps)));
        int part;

        if (step % steps == 0) {
            batches_shuffle(&trainer->batches, step / steps);
        }
        part = batches_load(&trainer->batches, step / steps, step % steps * BATCH,
                BATCH, trainer->images, trainer->labels);
        train_step(trainer, part, rate);
    }
}

static void run(struct trainer *trainer, int epochs)
{
    double begin = now();
    double seconds;
    double sent;
    double whole = floor((double)trainer->data.train / BATCH) *
            (double)(trainer->net.parameters * sizeof(float));

    if (trainer->method->compressor != NULL) {
        create_reducer(trainer);
    } else {
        create_local(trainer);
    }
    train(trainer, epochs);
    seconds = now() - begin;
    sent = (double)trainer->sent / epochs;
    if (tutti_rank(trainer->job) == 0) {
        printf("%s: accuracy %.2f %%, %.0f images/s, %.1f %% of the time in "
               "communication, "
               "%.3f MB sent per epoch, %.1f %% saved\n",
                trainer->method->name,
                100.0 * held_out_accuracy(&trainer->net, &trainer->data),
                epochs * (double)trainer->data.train / seconds,
                100.0 * trainer->waited / seconds, sent * 1e-6,
                100.0 * (1.0 - sent / whole));
    }
    tutti_local_sgd_destroy(trainer->local);
    check(trainer->job, tutti_reducer_destroy(trainer->reducer));
}

static const struct method *find_method(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(methods[i].name, name) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct trainer trainer = { .method = find_method(argc > 1 ? argv[1] : "") };
    long epochs = argc > 2 ? strtol(argv[2], NULL, 10) : 50;

    if (trainer.method == NULL || epochs < 1 || epochs > 1000) {
        (void)fprintf(stderr,
                "usage: compression METHOD [EPOCHS]\n"
                "METHOD: none fp16 bf16 top-k power-sgd sign adasum local-sgd "
                "diloco\n");
        return 2;
    }
    check(NULL, tutti_init(&trainer.job, NULL));
    prepare(&trainer);
    run(&trainer, (int)epochs);
    check(NULL, tutti_finalize(trainer.job));
    network_fini(&trainer.net);
    batches_fini(&trainer.batches);
    dataset_fini(&trainer.data);
    free(trainer.gradients);
    free(trainer.images);
    return 0;
}
