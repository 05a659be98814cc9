/*
 * Members that submit nothing more: after a join until all have joined, after a finalize for
 * good. A member announces either by name, behind all that it has submitted, and stays awake
 * until all members have done the same.
 *
 * A member may have announced a tensor by a number that is retired before the announcement
 * arrives. It then announces the tensor again by name, behind its join or finalize. So a join
 * or finalize is void if its sender had not read the last FORGET; the sender announces it
 * again when it reads that entry, behind the tensors that it announces again.
 */
#include "agree/joined.h"

#include "agree/log.h"
#include "agree/names.h"
#include "agree/protocol.h"
#include "base/mem.h"

void leaves_fini(struct negotiator *negotiator)
{
    for (int p = 0; p < LEAVE_COUNT; p++) {
        bitset_fini(&negotiator->joined.ways[p].members);
    }
}

static bool member_left(
        const struct negotiator *negotiator, enum leave_kind kind, int member)
{
    const struct leave *leave = &negotiator->joined.ways[kind];

    return leave->count > 0 && bitset_has(&leave->members, member);
}

bool member_has_joined(const struct negotiator *negotiator, int member)
{
    return member_left(negotiator, LEAVE_JOIN, member);
}

bool member_leaves(const struct negotiator *negotiator, int member)
{
    return member_left(negotiator, LEAVE_FINALIZE, member);
}

/* True when the coordinator may not count it: too early, too late, or once more. */
static bool leave_is_void(const struct negotiator *negotiator,
        const struct leave *leave, int member, uint64_t seen)
{
    return (member != 0 && seen < negotiator->log.retired_at) ||
            seen < leave->ended_at ||
            (leave->count > 0 && bitset_has(&leave->members, member));
}

tutti_status leave_collect(struct negotiator *negotiator, struct leave *leave,
        int member, uint64_t seen, bool *counts)
{
    *counts = false;
    if (leave_is_void(negotiator, leave, member, seen)) {
        return TUTTI_OK;
    }
    if (leave->members.words == NULL &&
            !bitset_init(&leave->members, negotiator->config.size)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a set of %d ranks",
                negotiator->config.size);
    }
    *counts = true;
    leave->last = member;
    bitset_add(&leave->members, member);
    leave->count++;
    return TUTTI_OK;
}

void leave_end(struct negotiator *negotiator, struct leave *leave)
{
    leave->own = NULL;
    leave->below = false;
    leave->ended_at = negotiator->log.length;
    if (leave->members.words != NULL) {
        bitset_clear(&leave->members);
        leave->count = 0;
    }
}

bool leave_is_own(const struct negotiator *negotiator)
{
    return negotiator->joined.ways[LEAVE_JOIN].own != NULL ||
            negotiator->joined.ways[LEAVE_FINALIZE].own != NULL;
}

/* ------------------------------------------------------------------ in the log
 *
 * ENTRY_JOINED holds for the entries behind it, until the next one or the end of the log message.
 */

bool joined_init(struct negotiator *negotiator)
{
    if (!bitset_init(&negotiator->joined.logged, negotiator->config.size)) {
        return false;
    }
    if (!bitset_init(&negotiator->joined.scratch, negotiator->config.size)) {
        bitset_fini(&negotiator->joined.logged);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ writing */

int joined_find(struct negotiator *negotiator, const struct tensor_state *tensor,
        bool (*left)(const struct negotiator *negotiator, int member))
{
    int first = -1;

    bitset_clear(&negotiator->joined.scratch);
    for (int m = negotiator->config.size - 1; m >= 0; m--) {
        if (left(negotiator, m) && !coordinator_heard(tensor, m)) {
            bitset_add(&negotiator->joined.scratch, m);
            first = m;
        }
    }
    return first;
}

static void write_joined(struct negotiator *negotiator, const struct bitset *joined)
{
    struct wire_writer *out = record_open(negotiator, ENTRY_JOINED);

    wire_put_varint(out, (uint64_t)bitset_count(joined));
    for (int m = 0; m < joined->bits; m++) {
        if (bitset_has(joined, m)) {
            wire_put_varint(out, (uint64_t)m);
        }
    }
}

static bool sets_are_equal(const struct bitset *a, const struct bitset *b)
{
    for (int m = 0; m < a->bits; m++) {
        if (bitset_has(a, m) != bitset_has(b, m)) {
            return false;
        }
    }
    return true;
}

void joined_append(struct negotiator *negotiator, const struct tensor_state *tensor)
{
    struct bitset *logged = &negotiator->joined.logged;
    const struct bitset *joined = &negotiator->joined.scratch;

    if (negotiator->joined.ways[LEAVE_JOIN].count == 0 && bitset_count(logged) == 0) {
        return; /* as nearly always, and not worth a look at every member */
    }
    (void)joined_find(negotiator, tensor, member_has_joined);
    if (!sets_are_equal(logged, joined)) {
        write_joined(negotiator, joined);
        bitset_copy(logged, joined);
    }
}

/* ------------------------------------------------------------------ reading */

/* Room for a set of joined members, which the outcomes refer to; NULL: no memory. */
static struct joined_set *joined_set_take(struct negotiator *negotiator)
{
    struct joined_set *absence = negotiator->joined.spare;

    if (absence != NULL) {
        negotiator->joined.spare = absence->next;
        bitset_clear(&absence->members);
    } else {
        absence = mem_calloc(1, sizeof *absence);
        if (absence == NULL ||
                !bitset_init(&absence->members, negotiator->config.size)) {
            mem_free(absence);
            return NULL;
        }
    }
    absence->next = negotiator->joined.sets;
    negotiator->joined.sets = absence;
    return absence;
}

tutti_status joined_apply(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t size = (uint64_t)negotiator->config.size;
    const uint64_t count = wire_get_varint(in);
    struct joined_set *absence;

    negotiator->joined.members = NULL;
    if (!wire_ok(in) || count >= size) {
        return corrupt("malformed absence");
    }
    if (count == 0) {
        return TUTTI_OK;
    }
    absence = joined_set_take(negotiator);
    if (absence == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a set of %d ranks",
                negotiator->config.size);
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t member = wire_get_varint(in);

        if (!wire_ok(in) || member >= size) {
            return corrupt("malformed absence");
        }
        bitset_add(&absence->members, (int)member);
    }
    negotiator->joined.members = &absence->members;
    negotiator->log.went_on = true;
    return TUTTI_OK;
}

void joined_clear(struct negotiator *negotiator)
{
    while (negotiator->joined.sets != NULL) {
        struct joined_set *absence = negotiator->joined.sets;

        negotiator->joined.sets = absence->next;
        absence->next = negotiator->joined.spare;
        negotiator->joined.spare = absence;
    }
}

void joined_fini(struct negotiator *negotiator)
{
    joined_clear(negotiator);
    while (negotiator->joined.spare != NULL) {
        struct joined_set *absence = negotiator->joined.spare;

        negotiator->joined.spare = absence->next;
        bitset_fini(&absence->members);
        mem_free(absence);
    }
    bitset_fini(&negotiator->joined.logged);
    bitset_fini(&negotiator->joined.scratch);
}
