/*
 * What a rank does. All results are checked: an error is reported, never a wrong number.
 */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

enum {
    STEPS = 5, /* of tensors that have numbers after two */
    GRADIENTS = 3,
    LARGE = 40000, /* elements */
    ROWS = 4,
    PARAMS = 2,
    PARAMETER = 37
};

/* A result is wrong although all calls went well. */
static tutti_status wrong(const char *what)
{
    (void)fprintf(stderr, "wrong result: %s\n", what);
    abort();
}

static tutti_status reduce(
        tutti *t, const char *name, float *data, int64_t count, tutti_process_set set)
{
    tutti_options options;
    tutti_status status;
    int ranks = 0;

    tutti_options_default(&options);
    options.process_set = set;
    status = tutti_process_set_info(t, set, &ranks, NULL);
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)(i % 5);
    }
    if (status == TUTTI_OK) {
        status = tutti_allreduce(
                t, name, data, data, count, TUTTI_FLOAT32, TUTTI_SUM, &options);
    }
    for (int64_t i = 0; status == TUTTI_OK && i < count; i++) {
        if (data[i] != (float)(i % 5 * ranks)) {
            return wrong(name);
        }
    }
    return status;
}

/* In memory of tutti_alloc(), and in the program's own, shared. */
static tutti_status reduce_large(tutti *t)
{
    void *memory = NULL;
    float *own = malloc(LARGE * sizeof *own);
    tutti_status status = own == NULL
            ? tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "the program's own")
            : tutti_alloc(t, LARGE * sizeof *own, TUTTI_HOST, &memory);

    if (status == TUTTI_OK) {
        status = reduce(t, "large", memory, LARGE, TUTTI_WORLD);
    }
    if (status == TUTTI_OK) {
        status = tutti_share(t, own, LARGE * sizeof *own);
    }
    if (status == TUTTI_OK) {
        status = reduce(t, "own", own, LARGE, TUTTI_WORLD);
        (void)tutti_unshare(t, own);
    }
    (void)tutti_free(t, memory);
    free(own);
    return status;
}

static tutti_status gather(tutti *t)
{
    const int32_t rank = tutti_rank(t);
    int32_t mine[ROWS];
    int32_t *all = NULL;
    void *output = NULL;
    tutti_request request = TUTTI_REQUEST_NULL;
    int64_t rows[JOB_RANKS];
    tutti_status status;

    for (int i = 0; i < ROWS; i++) {
        mine[i] = rank;
    }
    status = tutti_allgather_async(
            t, "rows", mine, NULL, rank + 1, 1, NULL, TUTTI_INT32, NULL, &request);
    if (status == TUTTI_OK) {
        status = tutti_request_take_output(t, &request, &output, rows, TUTTI_FOREVER);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    all = output;
    if (rows[2] != 3 || all[0] != 0 || all[1] != 1 || all[5] != 2) {
        return wrong("rows");
    }
    return tutti_free(t, output);
}

static tutti_status submit_all(tutti *t, const tutti_tensor *tensors,
        float (*data)[ROWS], int64_t step, tutti_request *requests)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < GRADIENTS && status == TUTTI_OK; i++) {
        for (int j = 0; j < ROWS; j++) {
            data[i][j] = 1;
        }
        status = tutti_submit(
                t, tensors[i], data[i], data[i], step, NULL, NULL, &requests[i]);
    }
    return status;
}

/* Registered tensors, again and again. */
static tutti_status repeat(tutti *t)
{
    static const char *const names[GRADIENTS] = { "a", "b", "c" };
    tutti_tensor_desc desc = { .size = sizeof desc,
        .collective = TUTTI_ALLREDUCE,
        .count = ROWS,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM };
    tutti_tensor tensors[GRADIENTS] = { 0 };
    tutti_request requests[GRADIENTS] = { TUTTI_REQUEST_NULL };
    float data[GRADIENTS][ROWS];
    tutti_status status = TUTTI_OK;
    tutti_status waited;

    for (int i = 0; i < GRADIENTS && status == TUTTI_OK; i++) {
        desc.name = names[i];
        status = tutti_tensor_register(t, &desc, &tensors[i]);
    }
    for (int64_t step = 0; step < STEPS && status == TUTTI_OK; step++) {
        status = submit_all(t, tensors, data, step, requests);
        if (status != TUTTI_OK) {
            (void)tutti_abort(t, "a gradient is missing");
        }
        waited = tutti_wait_all(t, GRADIENTS, requests, TUTTI_FOREVER, NULL);
        status = status == TUTTI_OK ? waited : status;
        if (status == TUTTI_OK && data[GRADIENTS - 1][0] != JOB_RANKS) {
            return wrong("repeat");
        }
    }
    return status;
}

static tutti_status group(tutti *t)
{
    tutti_request requests[2] = { TUTTI_REQUEST_NULL, TUTTI_REQUEST_NULL };
    float data[2] = { 1, 1 };
    tutti_status status = tutti_group_begin(t);
    tutti_status ended;

    if (status != TUTTI_OK) {
        return status;
    }
    status = tutti_allreduce_async(t, "group 0", &data[0], &data[0], 1, TUTTI_FLOAT32,
            TUTTI_AVERAGE, NULL, &requests[0]);
    if (status == TUTTI_OK) {
        status = tutti_allreduce_async(t, "group 1", &data[1], &data[1], 1,
                TUTTI_FLOAT32, TUTTI_SUM, NULL, &requests[1]);
    }
    ended = tutti_group_end(t);
    status = status == TUTTI_OK ? ended : status;
    if (status == TUTTI_OK) {
        status = tutti_wait_all(t, 2, requests, TUTTI_FOREVER, NULL);
    }
    return status == TUTTI_OK && (data[0] != 1 || data[1] != JOB_RANKS) ? wrong("group")
                                                                        : status;
}

/* A set, and some work of it. */
static tutti_status use_set(tutti *t)
{
    static const int members[] = { 2, 0 };
    tutti_process_set set = TUTTI_WORLD;
    float small[ROWS];
    tutti_status status = tutti_process_set_create(t, members, 2, &set);

    if (status == TUTTI_OK && tutti_rank(t) != 1) {
        status = reduce(t, "in the set", small, ROWS, set);
    }
    return status == TUTTI_OK ? tutti_process_set_destroy(t, set) : status;
}

/* A message to the next rank, which is received whatever becomes of that from the one before. */
static tutti_status message(tutti *t)
{
    static int32_t sent[JOB_RANKS]; /* of calls that fail, too */
    static int32_t received[JOB_RANKS];
    const int me = tutti_rank(t);
    const int before = (me + JOB_RANKS - 1) % JOB_RANKS;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status;

    sent[me] = 100 + me;
    status = tutti_send_async(t, "message", &sent[me], 1, TUTTI_INT32,
            (me + 1) % JOB_RANKS, NULL, &request);
    if (status == TUTTI_OK) {
        status = tutti_recv(t, "message", &received[me], 1, TUTTI_INT32, before, NULL);
    }
    if (status == TUTTI_OK) {
        status = tutti_wait(t, &request, TUTTI_FOREVER);
    }
    return status == TUTTI_OK && received[me] != 100 + before ? wrong("message")
                                                              : status;
}

static tutti_status call(tutti *t)
{
    static tutti_status (*const parts[])(
            tutti *) = { use_set, reduce_large, gather, repeat, group, message };
    float small[ROWS];
    tutti_status status = reduce(t, "small", small, ROWS, TUTTI_WORLD);

    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == TUTTI_OK; i++) {
        status = parts[i](t);
    }
    return status == TUTTI_OK ? tutti_join(t, NULL, NULL) : status;
}

/* ---------------------------------------------------------------- the trainer */

static tutti_status step(
        void *user, const tutti_batch *batch, tutti_trainer *trainer, double *loss)
{
    tutti_reducer *reducer = tutti_trainer_reducer(trainer);
    float *gradient = tutti_reducer_gradient(reducer, 0);

    (void)user;
    for (int i = 0; i < PARAMETER; i++) {
        gradient[i] = (float)batch->indices[0];
    }
    *loss = 1;
    return tutti_reducer_ready(reducer, 0);
}

static tutti_status train(tutti *t, const char *directory)
{
    float value[PARAMETER] = { 0 };
    const tutti_param param = {
        .name = "w", .value = value, .count = PARAMETER, .dtype = TUTTI_FLOAT32
    };
    tutti_trainer_summary summary = { .size = sizeof summary };
    tutti_optimizer_options adamw;
    tutti_shard_options order;
    tutti_trainer_options options;
    tutti_trainer *trainer = NULL;
    tutti_status status;

    tutti_optimizer_options_default(&adamw);
    tutti_shard_options_default(&order);
    order.samples = 4 * JOB_RANKS;
    tutti_trainer_options_default(&options);
    options.params = &param;
    options.param_count = 1;
    options.optimizer_options = &adamw;
    options.shard_options = &order;
    options.batch = 2;
    options.epochs = 2;
    options.step = step;
    options.checkpoint_directory = directory;
    options.log_directory = directory;
    options.resume = true;
    options.progress = TUTTI_PROGRESS_NONE;
    status = tutti_trainer_create(t, &options, &trainer);
    if (status == TUTTI_OK) {
        status = tutti_trainer_run(trainer, &summary);
        tutti_trainer_destroy(trainer);
    }
    return status;
}

/* ------------------------------------------- the rest of the trainer's layer */

/* Of a call that a rank makes by itself: the program tells the others. */
static tutti_status alone(tutti *t, tutti_status status)
{
    if (status != TUTTI_OK) {
        (void)tutti_abort(t, tutti_last_error());
    }
    return status;
}

static tutti_status serve(tutti *t, const tutti_param *params)
{
    tutti_server *ps = NULL;
    tutti_status status = tutti_server_create(t, params, PARAMS, NULL, &ps);

    if (status != TUTTI_OK) {
        return status;
    }
    if (tutti_server_role(ps) == TUTTI_ROLE_SERVER) {
        status = tutti_server_serve(ps);
    } else {
        status = tutti_server_pull(ps);
        for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
            status = tutti_server_step(ps);
        }
        if (status == TUTTI_OK) {
            status = tutti_server_finish(ps);
        }
    }
    (void)tutti_server_destroy(ps);
    return status;
}

static tutti_status meet(tutti *t, const tutti_param *params)
{
    tutti_local_sgd_options options;
    tutti_local_sgd *local = NULL;
    tutti_status status;

    tutti_local_sgd_options_diloco(&options);
    options.period = 1;
    status = tutti_local_sgd_create(t, params, PARAMS, &options, &local);
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
        status = tutti_local_sgd_step(local, NULL);
    }
    tutti_local_sgd_destroy(local);
    return status;
}

static tutti_status normalize(tutti *t, const tutti_param *params)
{
    const tutti_batch_shape shape = { .outer = 4, .channels = 3, .inner = 3 };
    float *x = params[0].gradient;
    float y[PARAMETER];
    tutti_batch_norm *bn = NULL;
    tutti_status status = tutti_batch_norm_create(t, "bn", 3, NULL, &bn);

    if (status == TUTTI_OK) {
        status = tutti_batch_norm_forward(bn, &shape, x, NULL, NULL, y);
    }
    if (status == TUTTI_OK) {
        status = tutti_batch_norm_backward(bn, &shape, x, y, NULL, y, NULL, NULL);
    }
    tutti_batch_norm_destroy(bn);
    return status;
}

static tutti_status embed(tutti *t, const tutti_param *params)
{
    const int64_t ids[] = { 4, tutti_rank(t), 4 };
    tutti_sparse mine = { .count = 0 };
    tutti_sparse merged = { .count = 0 };
    tutti_status status =
            alone(t, tutti_embedding_gradient(ids, params[0].gradient, 3, ROWS, &mine));

    if (status == TUTTI_OK) {
        status = tutti_sparse_reduce(t, "rows", &mine, TUTTI_SUM, NULL, &merged);
    }
    if (status == TUTTI_OK && merged.count != JOB_RANKS + 1) {
        status = wrong("sparse rows");
    }
    tutti_sparse_free(&mine);
    tutti_sparse_free(&merged);
    return status;
}

/* A sharded LAMB; of two gradients each rank leaves one out. */
static tutti_status optimize(tutti *t, const tutti_param *params)
{
    tutti_reducer_options options;
    tutti_optimizer_options lamb;
    tutti_reducer *reducer = NULL;
    tutti_optimizer *optimizer = NULL;
    double loss = 1;
    tutti_status status;

    tutti_reducer_options_default(&options);
    options.unused = true;
    options.clip_norm = 1;
    tutti_optimizer_options_default(&lamb);
    lamb.kind = TUTTI_OPTIMIZER_LAMB;
    lamb.sharded = true;
    status = tutti_reducer_create(t, params, PARAMS, &options, &reducer);
    if (status == TUTTI_OK) {
        status = tutti_optimizer_create(reducer, &lamb, &optimizer);
    }
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
        tutti_status ended;

        status = alone(t, tutti_reducer_ready(reducer, (size_t)(tutti_rank(t) % 2)));
        if (status == TUTTI_OK) {
            status = alone(t, tutti_reducer_average(reducer, "loss", &loss));
        }
        ended = tutti_optimizer_step(optimizer, NULL);
        status = status == TUTTI_OK ? ended : status;
    }
    (void)tutti_optimizer_destroy(optimizer);
    (void)tutti_reducer_destroy(reducer);
    return status;
}

/* Compressors, one for each parameter. */
static tutti_status compress(tutti *t, const tutti_param *params)
{
    tutti_param compressed[PARAMS] = { params[0], params[1] };
    tutti_reducer *reducer = NULL;
    tutti_status status;

    compressed[0].compressor = tutti_compress_top_k();
    compressed[1].compressor = tutti_compress_adasum();
    status = tutti_reducer_create(t, compressed, PARAMS, NULL, &reducer);
    for (size_t i = 0; i < PARAMS && status == TUTTI_OK; i++) {
        status = alone(t, tutti_reducer_ready(reducer, i));
    }
    if (reducer != NULL) {
        const tutti_status ended = tutti_reducer_wait(reducer, NULL);

        status = status == TUTTI_OK ? ended : status;
    }
    (void)tutti_reducer_destroy(reducer);
    return status;
}

static tutti_status join(tutti *t, const tutti_param *params)
{
    tutti_reducer_options options;
    tutti_reducer *reducer = NULL;
    tutti_optimizer *optimizer = NULL;
    tutti_status status;

    tutti_reducer_options_default(&options);
    options.uneven = true;
    status = tutti_reducer_create(t, params, PARAMS, &options, &reducer);
    if (status == TUTTI_OK) {
        status = tutti_optimizer_create(reducer, NULL, &optimizer);
    }
    if (status == TUTTI_OK) {
        status = tutti_reducer_join(reducer, NULL);
    }
    (void)tutti_optimizer_destroy(optimizer);
    (void)tutti_reducer_destroy(reducer);
    return status;
}

/* A whole tensor, and one of which each rank has a part. */
static tutti_status keep(tutti *t, const tutti_param *params)
{
    tutti_state_tensor part = {
        .name = "part", .dtype = TUTTI_FLOAT32, .ndim = 1, .dims = &params[1].count
    };
    tutti_state *state = NULL;
    tutti_status status = alone(t, tutti_state_create(t, &state));

    part.count = tutti_part(params[1].count, JOB_RANKS, tutti_rank(t), &part.first);
    part.data = (float *)params[1].value + part.first;
    if (status == TUTTI_OK) {
        status = alone(t,
                tutti_state_register(
                        state, params[0].value, PARAMETER * sizeof(float), "whole"));
    }
    if (status == TUTTI_OK) {
        status = alone(t, tutti_state_register_tensors(state, &part, 1));
    }
    if (status == TUTTI_OK) {
        status = tutti_state_sync(state);
    }
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
        status = tutti_state_commit(state);
    }
    if (status == TUTTI_OK) {
        status = tutti_state_restore(state, NULL);
    }
    if (status == TUTTI_OK) {
        status = tutti_check_hosts(state);
    }
    tutti_state_destroy(state);
    return status;
}

/* A setting that differs: all get the same error, and go on. */
static tutti_status differ(tutti *t, const tutti_param *params)
{
    tutti_server_options options;
    tutti_server *ps = NULL;
    tutti_status status;

    tutti_server_options_default(&options);
    options.momentum = 0.5 / (1 + tutti_rank(t));
    status = tutti_server_create(t, params, PARAMS, &options, &ps);
    return status == TUTTI_ERR_MISMATCH ? TUTTI_OK : status;
}

static tutti_status use_layer(tutti *t)
{
    static tutti_status (*const parts[])(tutti *, const tutti_param *) = { serve, meet,
        normalize, embed, optimize, compress, join, keep, differ };
    float values[PARAMS][PARAMETER] = { { 0 } };
    float gradients[PARAMS][PARAMETER];
    const tutti_param params[PARAMS] = {
        { .name = "w",
                .value = values[0],
                .gradient = gradients[0],
                .count = PARAMETER,
                .dtype = TUTTI_FLOAT32 },
        { .name = "b",
                .value = values[1],
                .gradient = gradients[1],
                .count = PARAMETER,
                .dtype = TUTTI_FLOAT32 },
    };
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < PARAMS * PARAMETER; i++) {
        gradients[i / PARAMETER][i % PARAMETER] = (float)(i % 7);
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == TUTTI_OK; i++) {
        status = parts[i](t, params);
    }
    return status == TUTTI_OK ? alone(t, tutti_barrier(t, "end", NULL)) : status;
}

tutti_status job_run(tutti *t, const struct job *job)
{
    tutti_status status;

    if (job->uses_layer) {
        return use_layer(t);
    }
    if (!job->trains) {
        return call(t);
    }
    status = train(t, job->directory);
    return status == TUTTI_OK ? train(t, job->directory) : status; /* resumes */
}
