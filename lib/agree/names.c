/*
 * The table of names.
 *
 * A tensor is on exactly one of the lists `active` (a round is running) and, when it has
 * no number, `idle`; numbered tensors outside a round are on neither. At the coordinator
 * numbered tensors are also on `numbered`, in the order in which they are looked at. Idle names are kept so
 * that the second use of a name is recognised; only so many of them.
 */
#include "agree/names.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "base/mem.h"

/* Names without a number that are remembered between rounds. */
#define IDLE_NAMES_MAX 4096
/* Of those, looked at when there is one too many: some may be held. */
#define LOOKS_MAX 8

uint64_t request_hash(int collective, const char *name, size_t name_len)
{
    return hash_bytes(hash_u64(0, (uint64_t)collective), name, name_len);
}

static bool tensor_matches(const void *value, const void *key)
{
    const struct tensor_state *tensor = value;
    const struct name_ref *want = key;

    return tensor->collective == want->collective &&
            tensor->name_len == want->name_len &&
            memcmp(tensor->name, want->name, want->name_len) == 0;
}

static struct tensor_links *links_of(
        const struct tensor_list *list, struct tensor_state *tensor)
{
    return list->of_numbers ? &tensor->tally->in_numbered : &tensor->links;
}

static void list_append(struct tensor_list *list, struct tensor_state *tensor)
{
    *links_of(list, tensor) = (struct tensor_links){ .prev = list->last };
    if (list->last != NULL) {
        links_of(list, list->last)->next = tensor;
    } else {
        list->first = tensor;
    }
    list->last = tensor;
    list->count++;
}

static void list_remove(struct tensor_list *list, struct tensor_state *tensor)
{
    struct tensor_links *links = links_of(list, tensor);

    if (links->prev != NULL) {
        links_of(list, links->prev)->next = links->next;
    } else {
        list->first = links->next;
    }
    if (links->next != NULL) {
        links_of(list, links->next)->prev = links->prev;
    } else {
        list->last = links->prev;
    }
    *links = (struct tensor_links){ 0 };
    list->count--;
}

/* One piece of memory; members lack what is in front of the tensor. */
static struct tensor_state *tensor_create(const struct name_ref *ref, bool coordinator)
{
    const size_t front = coordinator ? sizeof(struct tally) : 0;
    /* The name begins within the last bytes of the struct. */
    const size_t bytes = size_max(sizeof(struct tensor_state),
            offsetof(struct tensor_state, name) + ref->name_len + 1);
    char *memory = mem_calloc(1, front + bytes);
    struct tensor_state *tensor;

    static_assert(sizeof(struct tally) % alignof(struct tensor_state) == 0,
            "what follows a tally is aligned");
    if (memory == NULL) {
        return NULL;
    }
    tensor = (struct tensor_state *)(void *)(memory + front);
    tensor->hash = ref->hash;
    tensor->collective = (uint8_t)ref->collective;
    tensor->name_len = (uint16_t)ref->name_len;
    memcpy(tensor->name, ref->name, ref->name_len);
    if (coordinator) {
        tensor->tally = (struct tally *)(void *)memory;
        tensor->tally->cancelled_by = -1;
    }
    return tensor;
}

static void variant_free(struct variant *variant)
{
    meta_fini(&variant->meta);
    bitset_fini(&variant->ranks);
    mem_free(variant);
}

static void variants_free(struct tally *tally)
{
    while (tally->variants != NULL) {
        struct variant *variant = tally->variants;

        tally->variants = variant->next;
        variant_free(variant);
    }
}

static void row_counts_free(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct tally *tally = tensor->tally;

    mem_free(tensor->announced);
    tensor->announced = NULL;
    if (tally == NULL || tally->row_counts == NULL) {
        return;
    }
    for (int m = 0; m < negotiator->config.size; m++) {
        negotiator->names.row_count_bytes -= row_counts_bytes(tally->row_counts[m]);
        mem_free(tally->row_counts[m]);
    }
    mem_free(tally->row_counts);
    tally->row_counts = NULL;
    tally->row_counts_match = false;
}

void tensor_forget_row_counts(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    if (tensor->number == 0 && tensor->round.since_ns == 0) {
        row_counts_free(negotiator, tensor);
    }
}

void tensor_drop_held(struct tensor_state *tensor)
{
    struct held_name *held = held_of(tensor);

    if (held != NULL) {
        meta_fini(&held->meta);
        mem_free(held);
        tensor->round.parts->held = NULL;
    }
}

bool tensor_parts_begin(struct tensor_state *tensor, int bits)
{
    struct parts *parts;

    if (tensor->round.parts != NULL) {
        return true;
    }
    parts = mem_calloc(1, sizeof *parts);
    if (parts == NULL || !bitset_init(&parts->who, bits)) {
        mem_free(parts);
        return false;
    }
    tensor->round.parts = parts;
    return true;
}

static void parts_free(struct tensor_state *tensor)
{
    tensor_drop_held(tensor);
    if (tensor->round.parts != NULL) {
        bitset_fini(&tensor->round.parts->who);
        mem_free(tensor->round.parts);
        tensor->round.parts = NULL;
    }
}

static void operands_drop(const struct tensor_state *tensor)
{
    if (tensor->tally != NULL) {
        mem_free(tensor->tally->operands);
        tensor->tally->operands = NULL;
    }
}

static void tensor_free(struct negotiator *negotiator, struct tensor_state *tensor)
{
    if (tensor->tally != NULL) {
        variants_free(tensor->tally);
    }
    row_counts_free(negotiator, tensor);
    if (tensor->user != NULL) {
        negotiator->config.forget(negotiator->config.user, tensor->user);
    }
    meta_fini(&tensor->meta);
    parts_free(tensor);
    operands_drop(tensor);
    mem_free(tensor->tally != NULL ? (void *)tensor->tally : tensor);
}

static void names_lock(const struct negotiator *negotiator)
{
    if (negotiator->config.lock != NULL) {
        pthread_mutex_lock(negotiator->config.lock);
    }
}

static void names_unlock(const struct negotiator *negotiator)
{
    if (negotiator->config.lock != NULL) {
        pthread_mutex_unlock(negotiator->config.lock);
    }
}

/* Locked. */
static struct tensor_state *find_or_add(
        struct negotiator *negotiator, const struct name_ref *ref)
{
    struct tensor_state *tensor =
            map_find(&negotiator->names.by_name, ref->hash, tensor_matches, ref);

    if (tensor != NULL) {
        return tensor;
    }
    tensor = tensor_create(ref, is_coordinator(negotiator));
    if (tensor == NULL) {
        return NULL;
    }
    if (!map_insert(&negotiator->names.by_name, ref->hash, tensor)) {
        tensor_free(negotiator, tensor);
        return NULL;
    }
    return tensor;
}

void names_remove(struct negotiator *negotiator, struct tensor_state *tensor)
{
    (void)map_remove(&negotiator->names.by_name, tensor->hash, tensor);
    tensor_free(negotiator, tensor);
}

struct tensor_state *names_hold(
        struct negotiator *negotiator, const struct name_ref *ref)
{
    struct tensor_state *tensor = find_or_add(negotiator, ref);

    if (tensor != NULL) {
        tensor->holds++;
    }
    return tensor;
}

/* The negotiator sees it for the first time. Locked, or the name is held. */
static void meet(struct negotiator *negotiator, struct tensor_state *tensor)
{
    if (tensor->met) {
        return;
    }
    tensor->met = true;
    if (tensor->tally != NULL) {
        tensor->tally->decided_at = negotiator->names.forgotten_at;
    }
    list_append(&negotiator->names.idle, tensor);
}

struct tensor_state *tensor_find(
        const struct negotiator *negotiator, const struct name_ref *ref)
{
    struct tensor_state *tensor;

    names_lock(negotiator);
    tensor = map_find(&negotiator->names.by_name, ref->hash, tensor_matches, ref);
    if (tensor != NULL && !tensor->met) {
        tensor = NULL;
    }
    names_unlock(negotiator);
    return tensor;
}

struct tensor_state *tensor_get(
        struct negotiator *negotiator, const struct name_ref *ref)
{
    struct tensor_state *tensor;

    names_lock(negotiator);
    tensor = find_or_add(negotiator, ref);
    if (tensor != NULL) {
        meet(negotiator, tensor);
    }
    names_unlock(negotiator);
    return tensor;
}

struct tensor_state *tensor_of(
        struct negotiator *negotiator, const struct request *request)
{
    if (request->tensor == NULL) {
        const struct name_ref ref = request_ref(request);

        return tensor_get(negotiator, &ref);
    }
    meet(negotiator, request->tensor);
    return request->tensor;
}

static void start_clock(struct negotiator *negotiator, struct tensor_state *tensor)
{
    /* 0 means "no round", so a clock that stands at 0 counts as 1. */
    tensor->round.since_ns = negotiator->now_ns != 0 ? negotiator->now_ns : 1;
    tensor->round.reported = 0;
    list_append(&negotiator->names.active, tensor);
}

void tensor_activate(struct negotiator *negotiator, struct tensor_state *tensor)
{
    if (tensor->round.since_ns != 0) {
        return;
    }
    if (tensor->number == 0) {
        list_remove(&negotiator->names.idle, tensor);
    }
    start_clock(negotiator, tensor);
}

void tensor_restart(struct negotiator *negotiator, struct tensor_state *tensor)
{
    list_remove(&negotiator->names.active, tensor);
    start_clock(negotiator, tensor);
}

/* Locked. One that is held stays, as if it were new. */
static void drop_oldest_idle(struct negotiator *negotiator)
{
    struct tensor_state *oldest = negotiator->names.idle.first;

    list_remove(&negotiator->names.idle, oldest);
    if (oldest->holds > 0) {
        list_append(&negotiator->names.idle, oldest);
        return;
    }
    if (oldest->tally != NULL &&
            oldest->tally->decided_at > negotiator->names.forgotten_at) {
        negotiator->names.forgotten_at = oldest->tally->decided_at;
    }
    negotiator->names.freed++;
    names_remove(negotiator, oldest);
}

static void make_idle(struct negotiator *negotiator, struct tensor_state *tensor)
{
    list_append(&negotiator->names.idle, tensor);
    if (negotiator->names.idle.count <= IDLE_NAMES_MAX) {
        return;
    }
    names_lock(negotiator);
    for (int i = 0; i < LOOKS_MAX && negotiator->names.idle.count > IDLE_NAMES_MAX;
            i++) {
        drop_oldest_idle(negotiator);
    }
    names_unlock(negotiator);
}

/* What was announced in the round, and what was made of it. */
static void clear_round(struct tensor_state *tensor)
{
    struct tally *tally = tensor->tally;

    if (tensor->round.parts != NULL) {
        bitset_clear(&tensor->round.parts->who);
    }
    tensor_drop_held(tensor);
    if (tally != NULL) {
        variants_free(tally);
        tally->arrived = 0;
        tally->named = 0;
        tally->cancelled_by = -1;
        tally->decided = false;
        tally->group_next = NULL;
    }
}

void tensor_end_round(struct negotiator *negotiator, struct tensor_state *tensor)
{
    if (tensor->round.since_ns == 0) {
        return;
    }
    if (tensor->round.collected) {
        clear_round(tensor);
    } else if (tensor->tally != NULL) {
        tensor->tally->decided = false;
    }
    tensor->round = (struct round){ .parts = tensor->round.parts };
    list_remove(&negotiator->names.active, tensor);
    if (tensor->number == 0) {
        tensor_forget_row_counts(negotiator, tensor);
        make_idle(negotiator, tensor);
    }
}

void tensor_number_passed(struct negotiator *negotiator, struct tensor_state *tensor)
{
    list_remove(&negotiator->names.numbered, tensor);
    list_append(&negotiator->names.numbered, tensor);
}

bool tensor_set_number(struct negotiator *negotiator, struct tensor_state *tensor,
        uint64_t number, const struct meta *meta)
{
    struct meta copy;

    if (!meta_copy(&copy, meta)) {
        return false;
    }
    if (tensor->round.since_ns == 0) {
        list_remove(&negotiator->names.idle, tensor);
    }
    meta_fini(&tensor->meta);
    tensor->meta = copy;
    tensor->steps = (struct steps){ 0 };
    steps_take(&tensor->steps, meta->step);
    tensor->number = number;
    tensor->passes = true;
    parts_free(tensor); /* its rounds are in `bits` from now on */
    if (!bits_add(negotiator, tensor)) {
        return false;
    }
    if (is_coordinator(negotiator)) {
        list_append(&negotiator->names.numbered, tensor);
    }
    return true;
}

void tensor_clear_number(struct negotiator *negotiator, struct tensor_state *tensor)
{
    bits_remove(negotiator, tensor);
    if (is_coordinator(negotiator)) {
        list_remove(&negotiator->names.numbered, tensor);
        tensor->tally->retired = false;
    }
    tensor->number = 0;
    operands_drop(tensor);
    meta_fini(&tensor->meta);
    tensor_forget_row_counts(negotiator, tensor);
    if (tensor->round.since_ns == 0) {
        make_idle(negotiator, tensor);
    }
}

void names_fini(struct negotiator *negotiator)
{
    size_t position = 0;
    struct tensor_state *tensor;

    while ((tensor = map_next(&negotiator->names.by_name, &position)) != NULL) {
        tensor_free(negotiator, tensor);
    }
    map_fini(&negotiator->names.by_name);
    bits_fini(negotiator);
}

bool coordinator_heard(const struct tensor_state *tensor, int rank)
{
    if (tensor->round.parts != NULL && bitset_has(&tensor->round.parts->who, rank)) {
        return true;
    }
    for (const struct variant *v = is_named(tensor) ? tensor->tally->variants : NULL;
            v != NULL; v = v->next) {
        if (bitset_has(&v->ranks, rank)) {
            return true;
        }
    }
    return false;
}

void coordinator_drop_variants(struct tensor_state *tensor, uint64_t hash)
{
    struct variant **at = is_named(tensor) ? &tensor->tally->variants : NULL;

    while (at != NULL && *at != NULL) {
        struct variant *variant = *at;

        if (variant->meta.group != hash) {
            at = &variant->next;
            continue;
        }
        *at = variant->next;
        tensor->tally->named -= bitset_count(&variant->ranks);
        variant_free(variant);
    }
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

void name_put(struct wire_writer *out, const struct name_ref *ref)
{
    wire_put_u8(out, (uint8_t)ref->collective);
    wire_put_str(out, ref->name, ref->name_len);
}
