/*
 * The virtual ranks of bench-scale.
 */
#include "tools/scale/world.h"

#include <malloc.h>
#include <math.h>
#include <time.h>

#include "agree/names.h"
#include "agree/protocol.h"
#include "base/mem.h"
#include "test/sim/grow.h"

/* Between the steps of a job. */
#define GAP_NS 1e6

/* Of this process, but for messages under way. */
static int64_t memory_in_use(const struct world *world)
{
    const struct mallinfo2 info = mallinfo2();

    return (int64_t)(info.uordblks + info.hblkhd) - world->mail_bytes;
}

static struct mail *mail_new(struct world *world, size_t len)
{
    struct mail *mail = sim_alloc(1, sizeof *mail + len);

    world->mail_bytes += (int64_t)(malloc_usable_size(mail) + sizeof(size_t));
    mail->len = len;
    return mail;
}

static void mail_free(struct world *world, struct mail *mail)
{
    world->mail_bytes -= (int64_t)(malloc_usable_size(mail) + sizeof(size_t));
    free(mail);
}

static double cpu_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void must(bool done, const char *what)
{
    if (!done) {
        (void)fprintf(stderr, "bench-scale: %s: %s\n", what, tutti_last_error());
        _Exit(2);
    }
}

/* ------------------------------------------------------------------------ set-up */

static void add_member(struct world *world, struct world_set *set, int member)
{
    const struct negotiator_config config = { .size = set->size,
        .rank = member,
        .shape = &set->shape,
        .world_ranks = set->ranks,
        .number_capacity = 16384,
        .row_count_bytes_max = (size_t)32 << 20,
        .stall_ns = 60000000000,
        .lanes = world->plans ? PLAN_LANES_MAX : 1,
        .window = 8,
        .direct = set->size > 1 && set->size <= 16, /* as run/process_set.c decides */
        .limits = { .batch_bytes = 512 << 10, .tensor_bytes = 64 << 10 } };
    const int64_t before = member == 0 ? memory_in_use(world) : 0;

    must(negotiator_init(&set->negotiators[member], &config) == TUTTI_OK, "a rank");
    if (member == 0) {
        world->memory_root += memory_in_use(world) - before;
    }
}

/* The ranks of every stride-th node. */
static void add_set(struct world *world, int index, int fanout, int stride)
{
    struct world_set *set = &world->sets[index];
    const size_t ranks = (size_t)world->ranks;
    int64_t before;

    set->ranks = sim_alloc(ranks, sizeof *set->ranks);
    set->member_of = sim_alloc(ranks, sizeof *set->member_of);
    set->node_of = sim_alloc(ranks, sizeof *set->node_of);
    for (int r = 0; r < world->ranks; r++) {
        const int node = r / world->model->per_node;

        set->member_of[r] = node % stride == 0 ? set->size : -1;
        if (set->member_of[r] >= 0) {
            set->node_of[set->size] = node;
            set->ranks[set->size++] = r;
        }
    }
    must(tree_shape_init(&set->shape, set->size, set->node_of, fanout), "a tree");
    before = memory_in_use(world);
    set->negotiators = sim_alloc((size_t)set->size, sizeof *set->negotiators);
    for (int m = 0; m < set->size; m++) {
        add_member(world, set, m);
    }
    world->memory_all += memory_in_use(world) - before;
}

struct world *world_create(
        const struct model *model, int ranks, int fanout, bool plans, uint64_t seed)
{
    struct world *world = sim_alloc(1, sizeof *world);

    *world = (struct world){ .model = model, .ranks = ranks, .plans = plans };
    network_init(&world->network, model, ranks, seed);
    world->all = sim_alloc((size_t)ranks, sizeof *world->all);
    world->bytes = sim_alloc((size_t)ranks, sizeof *world->bytes);
    for (int r = 0; r < ranks; r++) {
        world->all[r].factor = network_random(&world->network) < model->straggler_chance
                ? model->straggler_factor
                : 1;
    }
    add_set(world, 0, fanout, 1);
    return world;
}

void world_add_set(struct world *world, int fanout, int stride)
{
    add_set(world, 1, fanout, stride);
}

void world_destroy(struct world *world)
{
    for (int s = 0; s < WORLD_SETS; s++) {
        struct world_set *set = &world->sets[s];

        for (int m = 0; m < set->size; m++) {
            negotiator_fini(&set->negotiators[m]);
        }
        tree_shape_fini(&set->shape);
        free(set->negotiators);
        free(set->ranks);
        free(set->member_of);
        free(set->node_of);
    }
    for (int r = 0; r < world->ranks; r++) {
        while (world->all[r].first != NULL) {
            struct mail *mail = world->all[r].first;

            world->all[r].first = mail->next;
            free(mail);
        }
    }
    network_fini(&world->network);
    free(world->all);
    free(world->bytes);
    free(world);
}

/* ---------------------------------------------------------- what a message is about */

/* Reads past an item of announcements; returns how many tensors it is about. */
static uint64_t skip_item(struct wire_reader *in, int64_t **dims, size_t *capacity)
{
    const uint8_t tag = wire_get_u8(in);
    struct name_ref ref;
    struct meta meta;

    (void)wire_get_varint(in);
    if (tag == ITEM_NUMBERS || tag == ITEM_NUMBERS_SUBTREE) {
        (void)wire_get_varint(in);
        return wire_get_varint(in);
    }
    if (tag == ITEM_ARRIVAL) {
        (void)wire_get_varint(in);
        (void)wire_get_varint(in);
        (void)wire_get_u8(in);
        (void)wire_get_varint(in);
        (void)wire_get_varint(in);
    } else if ((tag == ITEM_NAME || tag == ITEM_NAME_SUBTREE) && name_get(in, &ref)) {
        must(meta_get(in, &meta, dims, capacity) == TUTTI_OK, "metadata");
        (void)wire_get_varint(in);
    }
    return tag == ITEM_READ ? 0 : 1;
}

/* Tensors and plans that announcements are about; of a log message outcomes are counted. */
static uint64_t entries_of(const struct mail *mail)
{
    struct wire_reader in;
    uint64_t entries = 0;
    int64_t *dims = NULL;
    size_t capacity = 0;

    wire_reader_init(&in, mail->bytes, mail->len);
    if (wire_get_u8(&in) != KIND_ANNOUNCE) {
        return 1;
    }
    (void)wire_get_varint(&in);
    while (wire_ok(&in) && wire_left(&in) > 0) {
        entries += skip_item(&in, &dims, &capacity);
    }
    mem_free(dims);
    return entries;
}

/* ------------------------------------------------------------------------ a turn */

static void book(struct world *world, int rank, size_t len)
{
    world->all[rank].messages++;
    world->bytes[rank] += (int64_t)len;
}

/* Submits what is due; returns the tensors that this was about. */
static uint64_t submit(struct world *world, struct negotiator *negotiator, int rank)
{
    struct world_rank *r = &world->all[rank];
    const struct call *call = r->call;

    r->call = NULL;
    r->pending = call->count;
    for (int i = 0; i < call->count; i++) {
        must(negotiator_submit(negotiator, &call->requests[i]) == TUTTI_OK, "submit");
    }
    return (uint64_t)call->count;
}

static struct mail *take_mail(struct world_rank *rank)
{
    struct mail *mail = rank->first;

    if (mail != NULL) {
        rank->first = mail->next;
        rank->last = mail->next != NULL ? rank->last : NULL;
    }
    return mail;
}

static double take_in(struct world *world, int rank, uint64_t *entries)
{
    struct world_rank *r = &world->all[rank];
    double host_ns = 0;
    struct mail *mail;

    while ((mail = take_mail(r)) != NULL) {
        struct world_set *set = &world->sets[mail->set];

        *entries += entries_of(mail);
        host_ns += world->model->overhead_ns;
        book(world, rank, mail->len);
        set->negotiators[set->member_of[rank]].now_ns = (int64_t)world->now_ns + 1;
        must(negotiator_receive(&set->negotiators[set->member_of[rank]],
                     set->member_of[mail->from], mail->bytes, mail->len) == TUTTI_OK,
                "receive");
        mail_free(world, mail);
    }
    return host_ns;
}

static void take_outcomes(
        struct world *world, struct world_rank *rank, const struct outbox *box)
{
    for (size_t i = 0; i < box->outcome_count; i++) {
        const struct error *error = box->outcomes[i].error;

        if (error != NULL && world->failed++ == 0) {
            (void)snprintf(world->error, sizeof world->error, "%.*s",
                    (int)sizeof world->error - 1, error->text);
        }
    }
    rank->pending -= (int)box->outcome_count;
}

/* Sends one after the other from `at_ns` on; returns when the host is free again. */
static double send_all(
        struct world *world, int rank, int set, const struct outbox *box, double at_ns)
{
    for (size_t i = 0; i < box->action_count; i++) {
        const struct action *action = &box->actions[i];
        struct mail *mail;

        if (action->kind != ACTION_SEND) {
            continue;
        }
        mail = mail_new(world, action->len);
        mail->from = rank;
        mail->to = world->sets[set].ranks[action->to];
        mail->set = set;
        memcpy(mail->bytes, box->arena.data + action->offset, action->len);
        at_ns += world->model->overhead_ns * world->all[rank].factor;
        book(world, rank, mail->len);
        network_send(&world->network, at_ns, mail);
    }
    return at_ns;
}

/* The negotiators of a rank see what is due, and what they say is done; in host time. */
static void settle(struct world *world, int rank)
{
    const struct model *model = world->model;
    struct world_rank *r = &world->all[rank];
    uint64_t entries = 0;
    double host_ns = take_in(world, rank, &entries);

    if (network_random(&world->network) < model->hiccup_chance) {
        host_ns += model->hiccup_ns * (1 + network_random(&world->network));
    }
    for (int s = 0; s < WORLD_SETS; s++) {
        struct world_set *set = &world->sets[s];
        struct negotiator *negotiator;

        if (set->negotiators == NULL || set->member_of[rank] < 0) {
            continue;
        }
        negotiator = &set->negotiators[set->member_of[rank]];
        negotiator->now_ns = (int64_t)world->now_ns + 1;
        negotiator->waited = true;
        if (r->call != NULL && r->call->set == s && world->now_ns >= r->ready_ns) {
            entries += submit(world, negotiator, rank);
        }
        if (negotiator->now_ns >= negotiator_next_tick(negotiator)) {
            must(negotiator_tick(negotiator) == TUTTI_OK, "tick");
        }
        must(negotiator_flush(negotiator) == TUTTI_OK, "flush");
        entries += negotiator->outbox.outcome_count;
        take_outcomes(world, r, &negotiator->outbox);
        r->free_ns = world->now_ns +
                r->factor * (host_ns + model->entry_ns * (double)entries);
        r->free_ns = send_all(world, rank, s, &negotiator->outbox, r->free_ns);
        negotiator_clear(negotiator);
    }
    world->entries += entries;
}

static void schedule_turn(struct world *world, int rank, double at_ns)
{
    struct world_rank *r = &world->all[rank];

    if (!r->turn_due) {
        r->turn_due = true;
        network_at(
                &world->network, at_ns > r->free_ns ? at_ns : r->free_ns, rank, NULL);
    }
}

static void schedule_tick(struct world *world, int rank)
{
    struct world_rank *r = &world->all[rank];
    const struct negotiator *negotiator = &world->sets[0].negotiators[rank];
    const int64_t due = negotiator_next_tick(negotiator);

    if (due < INT64_MAX && (double)due < r->tick_ns) {
        r->tick_ns = (double)due;
        network_at(&world->network, r->tick_ns, rank, NULL);
    }
}

static void turn(struct world *world, int rank)
{
    struct world_rank *r = &world->all[rank];
    const bool begins = r->call != NULL && world->now_ns >= r->ready_ns;
    const bool waited = begins || r->pending > 0;
    const int64_t before = rank == 0 ? memory_in_use(world) : 0;

    r->turn_due = false;
    r->tick_ns = world->now_ns >= r->tick_ns ? INFINITY : r->tick_ns;
    if (!waited) {
        return;
    }
    if (world->now_ns < r->free_ns) {
        schedule_turn(world, rank, r->free_ns);
        return;
    }
    settle(world, rank);
    if (rank == 0) {
        world->memory_root += memory_in_use(world) - before;
    }
    if (r->pending > 0) {
        schedule_tick(world, rank);
    } else if (r->call == NULL) {
        r->done_ns = r->free_ns;
        world->waiting--;
    }
}

static void receive(struct world *world, int rank, struct mail *mail)
{
    struct world_rank *r = &world->all[rank];

    mail->next = NULL;
    if (r->last != NULL) {
        r->last->next = mail;
    } else {
        r->first = mail;
    }
    r->last = mail;
    if (r->pending > 0) {
        schedule_turn(world, rank, world->now_ns);
    }
}

/* ------------------------------------------------------------------------ a step */

/* Returns when the last one is ready. */
static double begin(
        struct world *world, const struct call *call, int late, double late_ns)
{
    const struct world_set *set = &world->sets[call->set];
    double last_ns = 0;

    for (int m = 0; m < set->size; m++) {
        struct world_rank *r = &world->all[set->ranks[m]];

        r->call = call;
        r->messages = 0;
        r->turn_due = false;
        r->tick_ns = INFINITY;
        r->ready_ns = world->now_ns + GAP_NS +
                world->model->skew_ns * network_random(&world->network) +
                (set->ranks[m] == late ? late_ns : 0);
        last_ns = fmax(last_ns, r->ready_ns);
        network_at(&world->network, r->ready_ns, set->ranks[m], NULL);
    }
    memset(world->bytes, 0, (size_t)world->ranks * sizeof *world->bytes);
    world->waiting = set->size;
    return last_ns;
}

static struct step finish(const struct world *world, int index, double ready_ns)
{
    const struct world_set *set = &world->sets[index];
    struct step step = { .members = set->size, .failed = world->failed };

    for (int m = 0; m < set->size; m++) {
        const struct world_rank *r = &world->all[set->ranks[m]];

        step.ns = fmax(step.ns, r->done_ns - ready_ns);
        step.messages_mean += (double)r->messages / set->size;
        step.messages_most =
                r->messages > step.messages_most ? r->messages : step.messages_most;
        step.bytes_most = world->bytes[set->ranks[m]] > step.bytes_most
                ? world->bytes[set->ranks[m]]
                : step.bytes_most;
    }
    return step;
}

struct step world_step(
        struct world *world, const struct call *call, int late, double late_ns)
{
    const double ready_ns = begin(world, call, late, late_ns);
    const int64_t memory = memory_in_use(world);
    const double cpu_ns = cpu_now_ns();
    struct event event;

    world->failed = 0;
    while (world->waiting > 0 && network_next(&world->network, &event)) {
        world->now_ns = event.at_ns;
        if (event.mail != NULL) {
            receive(world, event.rank, event.mail);
        } else {
            turn(world, event.rank);
        }
    }
    must(world->waiting == 0, "nothing moves any more");
    world->cpu_ns += cpu_now_ns() - cpu_ns;
    world->memory_all += memory_in_use(world) - memory;
    return finish(world, call->set, ready_ns);
}
