/*
 * Playing scenes between negotiators.
 */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/unit.h"

bool scene_init(struct scene *scene, enum scene_way way, int size, int capacity)
{
    const int nodes[SCENE_RANKS_MAX] = { 0 };

    *scene = (struct scene){ .stall_rank = -1 };
    for (int r = 0; r < size; r++) {
        scene->world_ranks[r] = 10 + r;
    }
    if (!tree_shape_init(&scene->shape, size, nodes, 2)) {
        return false;
    }
    for (int r = 0; r < size; r++) {
        const struct negotiator_config config = { .size = size,
            .rank = r,
            .shape = &scene->shape,
            .world_ranks = scene->world_ranks,
            .number_capacity = capacity,
            .row_count_bytes_max = SIZE_MAX,
            .stall_ns = 1000,
            .board = way == SCENE_BOARD };

        if (negotiator_init(&scene->ranks[r], &config) != TUTTI_OK) {
            scene_fini(scene);
            return false;
        }
        scene->ranks[r].now_ns = 1;
        scene->size = r + 1;
    }
    return true;
}

struct scene *scene_begin(enum scene_way way, int size, int capacity)
{
    static struct scene scene;

    assert_true(scene_init(&scene, way, size, capacity));
    return &scene;
}

void scene_fini(struct scene *scene)
{
    for (int r = 0; r < scene->size; r++) {
        negotiator_fini(&scene->ranks[r]);
    }
    while (scene->first != NULL) {
        struct scene_message *message = scene->first;

        scene->first = message->next;
        free(message);
    }
    while (scene->submissions != NULL) {
        struct scene_submission *submission = scene->submissions;

        scene->submissions = submission->next;
        free(submission);
    }
    tree_shape_fini(&scene->shape);
    scene->size = 0;
}

struct request scene_collective(int collective, const char *name, int64_t count)
{
    const size_t len = strlen(name);
    union {
        const char *name;
        void *any;
    } cookie = { .name = name };

    return (struct request){ .collective = collective,
        .name = name,
        .name_len = len,
        .hash = request_hash(collective, name, len),
        .meta = { .count = count,
                .dtype = TUTTI_FLOAT32,
                .op = TUTTI_SUM,
                .prescale = 1,
                .postscale = 1 },
        .cookie = cookie.any };
}

struct request scene_request(const char *name, int64_t count)
{
    return scene_collective(TUTTI_ALLREDUCE, name, count);
}

struct request scene_leave(int collective)
{
    struct request request = scene_collective(
            collective, collective == META_JOIN ? "join" : "finalize", 0);

    request.meta = (struct meta){ .prescale = 1, .postscale = 1 };
    return request;
}

static void succeeds(tutti_status status)
{
    assert_int_equal(status, TUTTI_OK);
}

/* Submits a copy of the request, which lives as long as the scene. */
static tutti_status try_submit(
        struct scene *scene, int rank, const struct request *request)
{
    struct scene_submission *submission = calloc(1, sizeof *submission);

    assert_non_null(submission);
    submission->request = *request;
    submission->next = scene->submissions;
    scene->submissions = submission;
    return negotiator_submit(&scene->ranks[rank], &submission->request);
}

void scene_submit(struct scene *scene, int rank, const struct request *request)
{
    succeeds(try_submit(scene, rank, request));
}

static void send_message(
        struct scene *scene, int from, int to, const uint8_t *bytes, size_t len)
{
    struct scene_message *message = calloc(1, sizeof *message + len);

    assert_non_null(message);
    message->from = from;
    message->to = to;
    message->len = len;
    memcpy(message->bytes, bytes, len);
    if (scene->first == NULL) {
        scene->first = message;
    } else {
        scene->last->next = message;
    }
    scene->last = message;
}

static void take_outcomes(struct scene *scene, int rank)
{
    const struct negotiator *n = &scene->ranks[rank];

    for (size_t i = 0; i < n->outbox.outcome_count; i++) {
        const struct outcome *outcome = &n->outbox.outcomes[i];
        struct scene_end *end = &scene->ends[scene->end_count++ % SCENE_ENDS_MAX];

        *end = (struct scene_end){ .rank = rank,
            .name = outcome->cookie != NULL ? outcome->cookie : "without",
            .mixed = outcome->mixed };
        if (outcome->error != NULL) {
            end->status = outcome->error->status;
            memcpy(end->text, outcome->error->text, sizeof end->text);
        }
    }
}

static void run_action(struct scene *scene, int rank, const struct action *action)
{
    const struct negotiator *n = &scene->ranks[rank];
    const uint8_t *bytes = n->outbox.arena.data + action->offset;

    switch (action->kind) {
    case ACTION_SEND:
        send_message(scene, rank, action->to, bytes, action->len);
        break;
    case ACTION_LOG:
        for (int i = 0; i < n->tree.near_count; i++) {
            send_message(scene, rank, n->tree.near[i], bytes, action->len);
        }
        break;
    case ACTION_SHOW:
        scene->boards[rank][action->index] = action->shown;
        break;
    case ACTION_STALL:
        scene->stall_rank = rank;
        (void)snprintf(scene->stall, sizeof scene->stall, "%.*s", (int)action->len,
                (const char *)bytes);
        break;
    }
}

tutti_status scene_try_flush(struct scene *scene, int rank)
{
    struct negotiator *n = &scene->ranks[rank];
    const tutti_status status = negotiator_flush(n);

    if (status != TUTTI_OK) {
        return status;
    }
    for (size_t i = 0; i < n->outbox.action_count; i++) {
        run_action(scene, rank, &n->outbox.actions[i]);
    }
    take_outcomes(scene, rank);
    negotiator_clear(n);
    /* The check takes time in proportion to the names. */
    assert_true(n->names.by_name.count > 100 || negotiator_is_valid(n));
    return TUTTI_OK;
}

tutti_status scene_try_say(struct scene *scene, int rank, const struct request *request)
{
    const tutti_status status = try_submit(scene, rank, request);

    return status == TUTTI_OK ? scene_try_flush(scene, rank) : status;
}

void scene_say(struct scene *scene, int rank, const struct request *request)
{
    succeeds(scene_try_say(scene, rank, request));
}

void scene_cancel(struct scene *scene, int rank, const struct request *request)
{
    succeeds(negotiator_cancel(&scene->ranks[rank], request));
    succeeds(scene_try_flush(scene, rank));
}

void scene_tick(struct scene *scene, int rank, int64_t now_ns)
{
    scene->ranks[rank].now_ns = now_ns;
    succeeds(negotiator_tick(&scene->ranks[rank]));
    succeeds(scene_try_flush(scene, rank));
}

/* Reads the words of a child; *news when one is not what the rank knows. */
static tutti_status look_at(struct scene *scene, int rank, int child, bool *news)
{
    struct negotiator *n = &scene->ranks[rank];
    const uint64_t *words = scene->boards[n->tree.children[child]];
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < negotiator_words(n) && status == TUTTI_OK; i++) {
        if (words[i] != negotiator_seen(n, child, i)) {
            *news = true;
            status = negotiator_shown(n, child, i, words[i]);
        }
    }
    return status;
}

tutti_status scene_try_deliver(struct scene *scene)
{
    struct scene_message *message = scene->first;
    struct negotiator *n = &scene->ranks[message->to];
    const int child = tree_child_index(&n->tree, message->from);
    tutti_status status = TUTTI_OK;
    bool news;

    scene->first = message->next;
    if (child >= 0) {
        status = look_at(scene, message->to, child, &news);
    }
    if (status == TUTTI_OK) {
        status = negotiator_receive(n, message->from, message->bytes, message->len);
    }
    if (status == TUTTI_OK) {
        status = scene_try_flush(scene, message->to);
    }
    free(message);
    return status;
}

void scene_deliver(struct scene *scene, int count)
{
    for (int i = 0; i < count; i++) {
        succeeds(scene_try_deliver(scene));
    }
}

static tutti_status look_everywhere(struct scene *scene)
{
    tutti_status status = TUTTI_OK;
    bool news = true;

    while (news && status == TUTTI_OK) {
        news = false;
        for (int r = 0; r < scene->size && status == TUTTI_OK; r++) {
            for (int c = 0; c < scene->ranks[r].tree.child_count && status == TUTTI_OK;
                    c++) {
                status = look_at(scene, r, c, &news);
            }
            status = status == TUTTI_OK ? scene_try_flush(scene, r) : status;
        }
    }
    return status;
}

tutti_status scene_try_run(struct scene *scene)
{
    tutti_status status = look_everywhere(scene);

    while (scene->first != NULL && status == TUTTI_OK) {
        status = scene_try_deliver(scene);
        if (scene->first == NULL && status == TUTTI_OK) {
            status = look_everywhere(scene);
        }
    }
    return status;
}

void scene_run(struct scene *scene)
{
    succeeds(scene_try_run(scene));
}

void scene_play(struct scene *scene, int rank, const struct request *request)
{
    scene_say(scene, rank, request);
    scene_run(scene);
}

void scene_play_each(
        struct scene *scene, int first, int last, const struct request *request)
{
    for (int r = first; r <= last; r++) {
        scene_play(scene, r, request);
    }
}

void scene_all_ready(struct scene *scene, const struct request *request)
{
    scene_clear(scene);
    for (int r = 0; r < scene->size; r++) {
        scene_say(scene, r, request);
    }
    scene_run(scene);
    assert_int_equal(scene_count(scene, request->name, TUTTI_OK), scene->size);
    scene_clear(scene);
}

void scene_clear(struct scene *scene)
{
    scene->end_count = 0;
}

int scene_count(const struct scene *scene, const char *name, tutti_status status)
{
    int count = 0;

    for (int i = 0; i < scene->end_count && i < SCENE_ENDS_MAX; i++) {
        count += strcmp(scene->ends[i].name, name) == 0 &&
                        scene->ends[i].status == status
                ? 1
                : 0;
    }
    return count;
}
