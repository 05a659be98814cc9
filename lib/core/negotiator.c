/*
 * The negotiator: life cycle, events, and the actions they lead to.
 */
#include "core/negotiator.h"

#include <string.h>

#include "base/mem.h"
#include "core/negotiator_parts.h"

static bool spans_nodes(const struct negotiator_config *config)
{
    for (int m = 1; m < config->size; m++) {
        if (config->node_of[m] != config->node_of[0]) {
            return true;
        }
    }
    return false;
}

tutti_status negotiator_init(
        struct negotiator *negotiator, const struct negotiator_config *config)
{
    *negotiator =
            (struct negotiator){ .config = *config, .next_number = 1, .iterations = 1 };
    if (!tree_init(&negotiator->tree, config->size, config->rank, config->node_of,
                config->fanout)) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the coordination of %d ranks", config->size);
    }
    cost_init(&negotiator->cost, &config->cost, spans_nodes(config));
    negotiator->config.node_of = NULL;
    if (is_coordinator(negotiator) && !absent_init(negotiator)) {
        tree_fini(&negotiator->tree);
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the coordination of %d ranks", config->size);
    }
    return TUTTI_OK;
}

void negotiator_fini(struct negotiator *negotiator)
{
    negotiator_clear(negotiator);
    plans_fini(negotiator);
    groups_fini(negotiator);
    partings_fini(negotiator);
    absent_fini(negotiator);
    entries_fini(negotiator);
    tree_fini(&negotiator->tree);
    wire_writer_fini(&negotiator->up);
    wire_writer_fini(&negotiator->down);
    wire_writer_fini(&negotiator->turn_read);
    wire_writer_fini(&negotiator->arena);
    mem_free(negotiator->actions);
    mem_free(negotiator->outcomes);
    mem_free(negotiator->dims);
    *negotiator = (struct negotiator){ 0 };
}

void negotiator_sample(struct negotiator *negotiator, size_t bytes, int64_t ns)
{
    cost_sample(&negotiator->cost, bytes, ns);
}

struct wire_writer *message_open(struct negotiator *negotiator)
{
    struct wire_writer *out;

    if (!is_coordinator(negotiator)) {
        out = &negotiator->up;
        if (out->len == 0) {
            wire_put_u8(out, KIND_ANNOUNCE);
            wire_put_varint(out, negotiator->log_length);
        }
        return out;
    }
    out = &negotiator->down;
    if (out->len == 0) {
        wire_put_u8(out, KIND_LOG);
        wire_put_u64(out, negotiator->appended);
    }
    return out;
}

void run_close(struct negotiator *negotiator)
{
    struct wire_writer *out;

    if (negotiator->run_count == 0) {
        return;
    }
    out = message_open(negotiator);
    wire_put_u8(out, negotiator->run_tag);
    if (!is_coordinator(negotiator)) {
        wire_put_varint(out, (uint64_t)negotiator->run_rank);
    }
    wire_put_varint(out, negotiator->run_first);
    wire_put_varint(out, negotiator->run_count);
    if (is_coordinator(negotiator)) {
        negotiator->appended += negotiator->run_count;
    }
    negotiator->run_count = 0;
}

void run_put(struct negotiator *negotiator, uint8_t tag, int rank, uint64_t number)
{
    if (negotiator->run_count > 0 && negotiator->run_tag == tag &&
            negotiator->run_rank == rank &&
            negotiator->run_first + negotiator->run_count == number) {
        negotiator->run_count++;
        return;
    }
    run_close(negotiator);
    negotiator->run_tag = tag;
    negotiator->run_rank = rank;
    negotiator->run_first = number;
    negotiator->run_count = 1;
}

tutti_status action_add(struct negotiator *negotiator, enum action_kind kind, int to,
        const void *bytes, size_t len)
{
    if (negotiator->action_count == negotiator->action_capacity) {
        const size_t capacity = 2 * negotiator->action_capacity + 8;
        struct action *grown = mem_resize(negotiator->actions, capacity, sizeof *grown);

        if (grown == NULL) {
            return error_set(
                    TUTTI_ERR_NO_MEMORY, "no memory for %zu messages", capacity);
        }
        negotiator->actions = grown;
        negotiator->action_capacity = capacity;
    }
    negotiator->actions[negotiator->action_count] = (struct action){
        .kind = kind, .to = to, .offset = negotiator->arena.len, .len = len
    };
    if (len > 0) {
        wire_put_bytes(&negotiator->arena, bytes, len);
    }
    if (negotiator->arena.failed) {
        return error_set(
                TUTTI_ERR_NO_MEMORY, "no memory for a message of %zu bytes", len);
    }
    negotiator->action_count++;
    return TUTTI_OK;
}

/* Room for one more outcome. */
static tutti_status outcomes_grow(struct negotiator *negotiator)
{
    const size_t capacity = 2 * negotiator->outcome_capacity + 16;
    struct outcome *grown;

    if (negotiator->outcome_count < negotiator->outcome_capacity) {
        return TUTTI_OK;
    }
    grown = mem_resize(negotiator->outcomes, capacity, sizeof *grown);
    if (grown == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu results", capacity);
    }
    negotiator->outcomes = grown;
    negotiator->outcome_capacity = capacity;
    return TUTTI_OK;
}

tutti_status outcome_add(
        struct negotiator *negotiator, struct entry *entry, struct error *error)
{
    const tutti_status status = outcomes_grow(negotiator);
    const bool all = error != NULL || has_bug(negotiator, BUG_ABSENT_CONTRIBUTES);

    if (status != TUTTI_OK) {
        mem_free(error);
        return status;
    }
    negotiator->outcomes[negotiator->outcome_count++] =
            (struct outcome){ .cookie = entry->local.cookie,
                .turn = negotiator->turn,
                .error = error,
                .absent = all ? NULL : negotiator->absent,
                .collective = entry->collective,
                .last = -1 };
    return TUTTI_OK;
}

tutti_status outcome_add_absent(
        struct negotiator *negotiator, int collective, const struct meta *meta)
{
    const tutti_status status = outcomes_grow(negotiator);
    struct meta copy;

    if (status != TUTTI_OK) {
        return status;
    }
    if (!meta_copy(&copy, meta)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a result");
    }
    negotiator->outcomes[negotiator->outcome_count++] =
            (struct outcome){ .turn = negotiator->turn,
                .absent = negotiator->absent,
                .collective = collective,
                .meta = copy,
                .last = -1 };
    return TUTTI_OK;
}

bool name_get(struct wire_reader *in, struct name_ref *ref)
{
    ref->collective = wire_get_u8(in);
    ref->name = wire_get_str(in, TUTTI_NAME_MAX, &ref->name_len);
    if (!wire_ok(in) || !meta_collective_is_valid(ref->collective)) {
        return false;
    }
    ref->hash = request_hash(ref->collective, ref->name, ref->name_len);
    return true;
}

void name_put(
        struct wire_writer *out, int collective, const char *name, size_t name_len)
{
    wire_put_u8(out, (uint8_t)collective);
    wire_put_str(out, name, name_len);
}

tutti_status negotiator_submit(
        struct negotiator *negotiator, const struct request *request)
{
    struct entry *entry = entry_of(negotiator, request);
    struct parting *parting = parting_of(negotiator, request->collective);

    if (entry == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for tensor \"%.*s\"",
                (int)request->name_len, request->name);
    }
    if (entry->pending) {
        return error_set(TUTTI_ERR_INTERNAL, "\"%s\" was submitted twice", entry->name);
    }
    entry_activate(negotiator, entry);
    entry->pending = true;
    entry->local = *request;
    negotiator->submitted_ns = negotiator->now_ns;
    if (entry->plan != NULL && entry->plan->state != PLAN_SLOW) {
        return plan_submit(negotiator, entry);
    }
    if (parting != NULL) {
        parting->own = entry;
        return parting_submit(negotiator, parting);
    }
    return announce_pending(negotiator, entry);
}

static void ask_to_cancel(struct negotiator *negotiator, const struct entry *entry)
{
    struct wire_writer *out;

    run_close(negotiator);
    out = message_open(negotiator);
    wire_put_u8(out, ITEM_CANCEL);
    wire_put_varint(out, (uint64_t)negotiator->config.rank);
    name_put(out, entry->collective, entry->name, entry->name_len);
    wire_put_varint(out, negotiator->log_length);
}

static tutti_status cancel_own(struct negotiator *negotiator, const struct entry *entry)
{
    const struct name_ref ref = { .hash = entry->hash,
        .collective = entry->collective,
        .name = entry->name,
        .name_len = entry->name_len };

    if (is_coordinator(negotiator)) {
        return coordinator_cancel(negotiator, &ref, 0, negotiator->log_length);
    }
    ask_to_cancel(negotiator, entry);
    return TUTTI_OK;
}

tutti_status announce_pending(struct negotiator *negotiator, struct entry *entry)
{
    const struct meta *meta = &entry->local.meta;
    tutti_status status;

    entry->by_number = entry->number != 0 && !entry->retired &&
            meta_equal(&entry->meta, meta) &&
            (claim_equals(&entry->announced, meta) ||
                    has_bug(negotiator, BUG_CLAIMS_STALE));
    if (entry->by_number) {
        negotiator->by_number_count++;
        observe(negotiator, TRANSITION_SUBMIT_BY_NUMBER);
    } else {
        negotiator->by_name_count++;
        observe(negotiator, TRANSITION_SUBMIT_BY_NAME);
        if (!claim_keep(&entry->announced, meta)) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", entry->name);
        }
    }
    status = announce_own(negotiator, entry);
    return status == TUTTI_OK && entry->cancel ? cancel_own(negotiator, entry) : status;
}

tutti_status negotiator_cancel(
        struct negotiator *negotiator, const struct request *request)
{
    struct entry *entry = entry_find(negotiator, request->hash, request->collective,
            request->name, request->name_len);

    if (entry == NULL || !entry->pending || entry->local.cookie != request->cookie) {
        /* Its outcome is there already and was not taken yet. */
        return TUTTI_OK;
    }
    if (request->collective == META_JOIN) {
        /* Others have gone on without this rank. */
        return TUTTI_OK;
    }
    entry->cancel = true;
    if (entry->contributed) {
        /* It commits if the others come, or is announced with this when they do not. */
        observe(negotiator, TRANSITION_PLAN_CANCEL_LATE);
        return TUTTI_OK;
    }
    if (entry->planned) {
        plan_want_poison(entry->plan, POISON_CANCEL, entry->item);
        return plan_advance(negotiator, entry->plan);
    }
    return cancel_own(negotiator, entry);
}

/* Only the parent sends the log down, and only children (or those below) speak up. */
static bool is_child_message(const struct negotiator *negotiator, int from, int kind)
{
    return (kind == KIND_ANNOUNCE || kind == KIND_PING) &&
            tree_child_index(&negotiator->tree, from) >= 0;
}

static bool is_parent_message(const struct negotiator *negotiator, int from, int kind)
{
    return (kind == KIND_LOG || kind == KIND_PONG || kind == KIND_PROBE ||
                   kind == KIND_MARKS) &&
            negotiator->tree.parents[negotiator->config.rank] == from;
}

tutti_status forward_down(struct negotiator *negotiator, const void *bytes, size_t len)
{
    const struct tree *tree = &negotiator->tree;
    const int skipped = has_bug(negotiator, BUG_SKIP_FORWARD) ? 1 : 0;
    tutti_status status = TUTTI_OK;

    for (int c = skipped; c < tree->child_count && status == TUTTI_OK; c++) {
        status = action_add(negotiator, ACTION_SEND, tree->children[c], bytes, len);
        observe(negotiator, TRANSITION_FORWARDED);
    }
    return status;
}

tutti_status negotiator_receive(
        struct negotiator *negotiator, int from, const void *bytes, size_t len)
{
    struct wire_reader in;
    tutti_status status;
    int kind;

    wire_reader_init(&in, bytes, len);
    kind = wire_get_u8(&in);
    if (!is_child_message(negotiator, from, kind) &&
            !is_parent_message(negotiator, from, kind)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "unexpected message of kind %d from rank %d", kind, from);
    }
    if (kind == KIND_ANNOUNCE) {
        return announce_receive(negotiator, from, &in);
    }
    if (kind == KIND_MARKS) {
        return marks_receive_down(negotiator, from, &in);
    }
    if (kind != KIND_LOG) {
        return stall_receive(negotiator, from, kind, &in);
    }
    status = forward_down(negotiator, bytes, len);
    return status == TUTTI_OK ? turnlog_apply(negotiator, &in) : status;
}

bool negotiator_is_dirty(const struct negotiator *negotiator)
{
    return negotiator->run_count > 0 || negotiator->up.len > 0 ||
            negotiator->down.len > 0 || negotiator->marks_dirty;
}

/*
 * The coordinator reads its own turn exactly as the other members do. It may leave a plan
 * by that, and so announce something: that is for the next turn.
 */
static tutti_status flush_turn(struct negotiator *negotiator)
{
    struct wire_writer *turn = &negotiator->turn_read;
    const struct wire_writer written = negotiator->down;
    struct wire_reader in;
    tutti_status status;

    negotiator->down = *turn;
    *turn = written;
    wire_writer_reset(&negotiator->down);
    bitset_clear(&negotiator->absent_logged);
    status = forward_down(negotiator, turn->data, turn->len);
    if (status == TUTTI_OK) {
        wire_reader_init(&in, turn->data, turn->len);
        (void)wire_get_u8(&in);
        status = turnlog_apply(negotiator, &in);
    }
    return status;
}

tutti_status negotiator_flush(struct negotiator *negotiator)
{
    struct wire_writer *up = &negotiator->up;
    tutti_status status = TUTTI_OK;

    do {
        status = marks_flush(negotiator);
        run_close(negotiator);
        if (up->failed || negotiator->down.failed) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
        }
        if (status == TUTTI_OK && negotiator->down.len > 0) {
            status = flush_turn(negotiator);
        }
        if (status == TUTTI_OK && up->len > 0) {
            status = action_add(negotiator, ACTION_SEND,
                    negotiator->tree.parents[negotiator->config.rank], up->data,
                    up->len);
            wire_writer_reset(up);
        }
    } while (status == TUTTI_OK && negotiator_is_dirty(negotiator));
    return status;
}

void negotiator_clear(struct negotiator *negotiator)
{
    for (size_t i = 0; i < negotiator->outcome_count; i++) {
        mem_free(negotiator->outcomes[i].error);
        meta_fini(&negotiator->outcomes[i].meta);
    }
    absences_clear(negotiator);
    negotiator->outcome_count = 0;
    negotiator->action_count = 0;
    wire_writer_reset(&negotiator->arena);
}

static bool collected_is_valid(
        const struct negotiator *negotiator, const struct entry *entry)
{
    const int arrived = entry->who.words != NULL ? bitset_count(&entry->who) : 0;
    int named = 0;

    for (const struct variant *v = entry->variants; v != NULL; v = v->next) {
        named += bitset_count(&v->ranks);
    }
    return arrived == entry->arrived && named == entry->named &&
            (entry->decided || entry->planning ||
                    arrived + named < negotiator->config.size);
}

static bool round_is_valid(
        const struct negotiator *negotiator, const struct entry *entry)
{
    if (entry->since_ns == 0 ||
            (entry->by_number && (!entry->pending || entry->number == 0)) ||
            (entry->planned && (!entry->pending || entry->by_number)) ||
            (entry->contributed && !entry->planned)) {
        return false;
    }
    if (is_coordinator(negotiator)) {
        return collected_is_valid(negotiator, entry);
    }
    return !entry->decided && !entry->retired && entry->variants == NULL;
}

static bool active_is_valid(const struct negotiator *negotiator)
{
    size_t count = 0;
    int64_t previous = 0;

    for (const struct entry *e = negotiator->active.first; e != NULL; e = e->next) {
        if (!round_is_valid(negotiator, e) || e->since_ns < previous) {
            return false;
        }
        previous = e->since_ns;
        count++;
    }
    return count == negotiator->active.count;
}

static bool idle_is_valid(const struct negotiator *negotiator)
{
    size_t count = 0;

    for (const struct entry *e = negotiator->idle.first; e != NULL; e = e->next) {
        if (e->since_ns != 0 || e->pending || e->number != 0 || e->variants != NULL) {
            return false;
        }
        count++;
    }
    return count == negotiator->idle.count;
}

bool negotiator_is_valid(const struct negotiator *negotiator)
{
    size_t position = 0;
    size_t numbered = 0;
    const struct entry *entry;

    while ((entry = map_next(&negotiator->names, &position)) != NULL) {
        numbered += entry->number != 0 ? 1 : 0;
        if (entry->number != 0 && entry_by_number(negotiator, entry->number) != entry) {
            return false;
        }
    }
    return numbered == negotiator->numbers.count && active_is_valid(negotiator) &&
            idle_is_valid(negotiator) && plans_are_valid(negotiator) &&
            (!is_coordinator(negotiator) || numbered == negotiator->numbered.count);
}
