/*
 * A server: one thread that sleeps until a callback has something for it.
 *
 * What a client asked for stays in its pair until the mode allows an answer; whether it does can
 * change with every message, so all pairs are looked at after each.
 */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "server/server.h"

/* The callback of all messages: on a thread of tutti. */
static void note(void *user, tutti_status status, const char *message)
{
    struct server_pair *pair = user;
    struct tutti_server *ps = pair->ps;

    pthread_mutex_lock(&ps->lock);
    if (status != TUTTI_OK && ps->status == TUTTI_OK) {
        ps->status = status;
        (void)snprintf(ps->message, sizeof ps->message,
                "parameter server at rank %d, serving rank %d: %s", tutti_rank(ps->t),
                pair->peer, message);
    }
    pair->in_flight = false;
    ps->news = true;
    pthread_cond_signal(&ps->arrived);
    pthread_mutex_unlock(&ps->lock);
}

static void set_in_flight(struct server_pair *pair, bool in_flight)
{
    pthread_mutex_lock(&pair->ps->lock);
    pair->in_flight = in_flight;
    pthread_mutex_unlock(&pair->ps->lock);
}

/* Sends or receives the next message of a pair. */
static tutti_status begin(struct server_pair *pair, enum server_state message)
{
    tutti_status status;

    pair->state = message;
    set_in_flight(pair, true);
    status = server_message(pair, message, note, NULL);
    if (status != TUTTI_OK) {
        set_in_flight(pair, false);
    }
    return status;
}

/* The clock of the slowest worker that is not finished; of the slowest, when all are. */
static int64_t find_slowest(const struct tutti_server *ps, bool *over)
{
    int64_t slowest = INT64_MAX;

    *over = true;
    for (int i = 0; i < ps->worker_count; i++) {
        *over = *over && ps->pairs[i].finished;
    }
    for (int i = 0; i < ps->worker_count; i++) {
        const struct server_pair *pair = &ps->pairs[i];

        if ((*over || !pair->finished) && pair->clock < slowest) {
            slowest = pair->clock;
        }
    }
    return slowest;
}

/* A gradient has come: into the parameters, or held until those of the others are there. */
static void take_push(struct server_pair *pair)
{
    pair->ps->report.pushes++;
    pair->rate = pair->head[HEAD_RATE];
    if (pair->ps->options.mode == TUTTI_SERVER_SYNC) {
        pair->held = true;
        return;
    }
    server_update(pair, 1);
    pair->clock++;
}

/* What follows a message that has ended. */
static tutti_status take_message(struct server_pair *pair)
{
    bool in_flight;

    pthread_mutex_lock(&pair->ps->lock);
    in_flight = pair->in_flight;
    pthread_mutex_unlock(&pair->ps->lock);
    if (in_flight || pair->state > SERVER_MESSAGES) {
        return TUTTI_OK;
    }
    if (pair->state == SERVER_HEAD) {
        pair->state = SERVER_ASKED;
        pair->finished = pair->head[HEAD_ASK] == SERVER_ASKS_FINISH;
        return TUTTI_OK;
    }
    if (pair->state == SERVER_PUSH) {
        take_push(pair);
    } else if (pair->finished) {
        pair->state = SERVER_DONE;
        pair->ps->left--;
        return TUTTI_OK;
    }
    return begin(pair, SERVER_HEAD);
}

/* Updates when every worker that goes on has pushed. */
static void update_in_step(struct tutti_server *ps)
{
    struct server_pair *sum = NULL;
    int count = 0;

    for (int i = 0; i < ps->worker_count; i++) {
        if (!ps->pairs[i].held && !ps->pairs[i].finished) {
            return;
        }
    }
    /* In the order of the workers, so that all runs add alike. */
    for (int i = 0; i < ps->worker_count; i++) {
        struct server_pair *pair = &ps->pairs[i];

        if (!pair->held) {
            continue;
        }
        if (sum == NULL) {
            sum = pair;
        } else {
            server_add(sum, pair);
        }
        pair->held = false;
        pair->clock++;
        count++;
    }
    if (sum != NULL) {
        server_update(sum, count);
    }
}

/* May a client read the parameters as they are? Only workers ever wait. */
static bool may_read(const struct server_pair *pair)
{
    bool over;
    const int64_t slowest = find_slowest(pair->ps, &over);
    const int64_t pushed = pair->clock + (pair->held ? 1 : 0);

    if (!pair->is_worker) {
        return true;
    }
    return pair->finished ? over : pushed - slowest <= server_bound(pair->ps);
}

static tutti_status send_answer(struct server_pair *pair)
{
    struct tutti_server *ps = pair->ps;
    bool over;

    pair->header[ANSWER_SLOWEST] = (double)find_slowest(ps, &over);
    pair->header[ANSWER_OVER] = over ? 1.0 : 0.0;
    memcpy(pair->part, ps->values, pair->bytes);
    ps->report.pulls++;
    return begin(pair, SERVER_ANSWER);
}

/* What a client asked for, if it can have it now. */
static tutti_status answer(struct server_pair *pair)
{
    if (pair->state != SERVER_ASKED) {
        return TUTTI_OK;
    }
    if (pair->head[HEAD_ASK] == SERVER_ASKS_PUSH) {
        /* A push ahead of the step waits for its memory. */
        return pair->held ? TUTTI_OK : begin(pair, SERVER_PUSH);
    }
    return may_read(pair) ? send_answer(pair) : TUTTI_OK;
}

static tutti_status await_news(struct tutti_server *ps)
{
    const int64_t begin = clock_ns(CLOCK_MONOTONIC);
    tutti_status status;

    pthread_mutex_lock(&ps->lock);
    while (!ps->news) {
        pthread_cond_wait(&ps->arrived, &ps->lock);
    }
    ps->news = false;
    status = ps->status;
    pthread_mutex_unlock(&ps->lock);
    ps->report.wait_ns += clock_ns(CLOCK_MONOTONIC) - begin;
    return status == TUTTI_OK ? status : error_set(status, "%s", ps->message);
}

static tutti_status serve_news(struct tutti_server *ps)
{
    tutti_status status = await_news(ps);

    for (int i = 0; status == TUTTI_OK && i < ps->pair_count; i++) {
        status = take_message(&ps->pairs[i]);
    }
    if (status == TUTTI_OK && ps->options.mode == TUTTI_SERVER_SYNC) {
        update_in_step(ps);
    }
    for (int i = 0; status == TUTTI_OK && i < ps->pair_count; i++) {
        status = answer(&ps->pairs[i]);
    }
    return status;
}

tutti_status tutti_server_serve(tutti_server *ps)
{
    tutti_status status = TUTTI_OK;

    if (ps == NULL || ps->role != TUTTI_ROLE_SERVER || ps->finished) {
        return error_set(TUTTI_ERR_INVALID, "tutti_server_serve(): %s",
                ps == NULL ? "no server is given"
                        : ps->finished
                        ? "this rank has served already"
                        : "this rank is no parameter server; workers call "
                          "tutti_server_step()");
    }
    ps->finished = true;
    ps->left = ps->pair_count;
    for (int i = 0; status == TUTTI_OK && i < ps->pair_count; i++) {
        status = begin(&ps->pairs[i], SERVER_HEAD);
    }
    while (status == TUTTI_OK && ps->left > 0) {
        status = serve_news(ps);
    }
    ps->report.slowest = find_slowest(ps, &ps->report.over);
    return status == TUTTI_OK ? status : server_give_up(ps, status);
}
