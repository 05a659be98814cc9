/*
 * Rounds of large reductions, by several threads of each rank at once.
 */
#include "test/helped.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/context.h"
#include "test/suite/buffer.h"
#include "test/suite/pattern.h"

enum {
    THREADS = 3,
    CALLS = 4, /* of a thread in a round */
    COUNT = 150001,
    MANY_CORES = 1000000
};

/** An application thread of a rank. */
struct caller {
    tutti *t;
    int index;
    int round;
    bool failed;
    pthread_t thread;
};

tutti_config *helped_config(void)
{
    tutti_config *config = NULL;

    if (tutti_config_create(&config) != TUTTI_OK ||
            tutti_config_set(config, "reduce_threads", "4") != TUTTI_OK ||
            tutti_config_set(config, "spin_us", "2000") != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        tutti_config_destroy(config);
        return NULL;
    }
    return config;
}

/* One sum, whose bits depend on the order of its terms; true when they are right. */
static bool call_once(tutti *t, const struct pattern *pattern, bool in_place)
{
    const size_t bytes = COUNT * tutti_dtype_size(pattern->dtype);
    struct buffer input;
    struct buffer output;
    struct buffer want;
    char name[32];
    bool right;

    buffer_init(&input, bytes);
    buffer_init(&output, bytes);
    buffer_init(&want, bytes);
    pattern_fill(pattern, tutti_rank(t), input.data, COUNT);
    pattern_fill(pattern, tutti_rank(t), output.data, COUNT);
    (void)snprintf(name, sizeof name, "of %u", pattern->salt);
    right = tutti_allreduce(t, name, in_place ? output.data : input.data, output.data,
                    COUNT, pattern->dtype, pattern->op, NULL) == TUTTI_OK;
    pattern_expect(pattern, tutti_size(t), (struct scales){ 1, 1 }, want.data, COUNT);
    right = right && memcmp(output.data, want.data, bytes) == 0 &&
            buffer_is_intact(&output) && buffer_is_intact(&input);
    buffer_fini(&input);
    buffer_fini(&output);
    buffer_fini(&want);
    return right;
}

static void *call_often(void *argument)
{
    static const struct pattern patterns[THREADS] = {
        { TUTTI_FLOAT32, TUTTI_SUM, 0 },
        { TUTTI_BFLOAT16, TUTTI_AVERAGE, 0 },
        { TUTTI_FLOAT64, TUTTI_SUM, 0 },
    };
    struct caller *caller = argument;

    /* Every second buffer is memory that the other ranks can address. */
    buffer_mix(caller->t);
    for (int call = 0; call < CALLS; call++) {
        struct pattern pattern = patterns[caller->index];

        pattern.salt = (uint32_t)(call * THREADS + caller->index);
        if (!call_once(caller->t, &pattern, (call + caller->round) % 2 == 0)) {
            (void)fprintf(stderr, "rank %d: a sum of %s is wrong: %s\n",
                    tutti_rank(caller->t), tutti_dtype_name(pattern.dtype),
                    tutti_last_error());
            caller->failed = true;
        }
    }
    buffer_mix(NULL);
    return NULL;
}

static bool run_round(tutti *t, int round)
{
    struct caller callers[THREADS];
    bool right = true;

    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){ .t = t, .index = i, .round = round };
        if (pthread_create(&callers[i].thread, NULL, call_often, &callers[i]) != 0) {
            (void)fprintf(stderr, "cannot start thread %d\n", i);
            abort();
        }
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(callers[i].thread, NULL);
        right = right && !callers[i].failed;
    }
    return right;
}

/* What threads have done for the engine, on the rank where it was the least. */
static int64_t least_help(tutti *t)
{
    tutti_stats stats = { .size = sizeof stats };
    int64_t helped = -1;

    if (tutti_stats_get(t, &stats) == TUTTI_OK) {
        helped = (int64_t)stats.shared_pieces;
    }
    if (tutti_allreduce(t, "help", &helped, &helped, 1, TUTTI_INT64, TUTTI_MIN, NULL) !=
            TUTTI_OK) {
        return -1;
    }
    return helped;
}

bool helped_run(tutti *t)
{
    bool right = true;
    int round = 0;
    int64_t help;

    t->driver.helpers.load.allowed = MANY_CORES;
    do {
        right = run_round(t, round++) && right;
        help = least_help(t);
    } while (help == 0);
    if (tutti_rank(t) == 0) {
        printf("%d ranks: %d rounds, at least %lld pieces by other threads\n",
                tutti_size(t), round, (long long)help);
    }
    return right && help > 0;
}
