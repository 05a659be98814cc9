/*
 * Each rank starts on a thread. The allgather is memory, and breaks off when a rank gives up.
 */
#include "oob.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "inject.h"
#include "job.h"

enum {
    GIVEN_MAX = 1 << 12 /* bytes of a rank */
};

struct table {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int given, rounds;
    bool is_broken;
    unsigned char bytes[2][JOB_RANKS][GIVEN_MAX]; /* nobody is two rounds ahead */
};

struct starter {
    struct table *table;
    const tutti_config *config;
    int rank, ranks;
    tutti **t;
    tutti_status status;
    char words[300];
    pthread_t thread;
};

static int allgather(void *user, const void *mine, void *all, size_t bytes)
{
    const struct starter *starter = user;
    struct table *table = starter->table;
    int round, result = 0;

    if (bytes > GIVEN_MAX) {
        return 1;
    }
    (void)pthread_mutex_lock(&table->lock);
    round = table->rounds;
    memcpy(table->bytes[round % 2][starter->rank], mine, bytes);
    if (++table->given == starter->ranks) {
        table->given = 0;
        table->rounds++;
        (void)pthread_cond_broadcast(&table->changed);
    }
    while (table->rounds == round && !table->is_broken) {
        (void)pthread_cond_wait(&table->changed, &table->lock);
    }
    result = table->rounds == round;
    for (int r = 0; r < starter->ranks && result == 0; r++) {
        memcpy((unsigned char *)all + (size_t)r * bytes, table->bytes[round % 2][r],
                bytes);
    }
    (void)pthread_mutex_unlock(&table->lock);
    return result;
}

static void *run(void *argument)
{
    struct starter *starter = argument;
    struct table *table = starter->table;

    starter->status = tutti_init_oob(starter->t, starter->rank, starter->ranks,
            allgather, starter, starter->config);
    if (starter->status != TUTTI_OK) {
        (void)strncpy(starter->words, tutti_last_error(), sizeof starter->words - 1);
        (void)pthread_mutex_lock(&table->lock);
        table->is_broken = true;
        (void)pthread_cond_broadcast(&table->changed);
        (void)pthread_mutex_unlock(&table->lock);
    }
    return NULL;
}

tutti_status oob_start(int ranks, tutti **contexts, const tutti_config *config)
{
    static struct table table; /* large */
    struct starter starters[JOB_RANKS];
    const struct starter *failed = NULL;

    inject_exempt(true);
    table.given = 0;
    table.rounds = 0;
    table.is_broken = false;
    (void)pthread_mutex_init(&table.lock, NULL);
    (void)pthread_cond_init(&table.changed, NULL);
    for (int i = 0; i < ranks; i++) {
        starters[i] = (struct starter){ .table = &table,
            .config = config,
            .rank = i,
            .ranks = ranks,
            .t = &contexts[i] };
        if (pthread_create(&starters[i].thread, NULL, run, &starters[i]) != 0) {
            abort();
        }
    }
    inject_exempt(false);
    for (int i = 0; i < ranks; i++) {
        (void)pthread_join(starters[i].thread, NULL);
        failed = failed == NULL && starters[i].status != TUTTI_OK ? &starters[i]
                                                                  : failed;
    }
    (void)pthread_mutex_destroy(&table.lock);
    (void)pthread_cond_destroy(&table.changed);
    if (failed == NULL) {
        return TUTTI_OK;
    }
    for (int i = 0; i < ranks; i++) {
        if (starters[i].status == TUTTI_OK) { /* it has found out too late */
            (void)tutti_finalize(contexts[i]);
        }
    }
    return tutti_set_last_error(failed->status, "%s", failed->words);
}
