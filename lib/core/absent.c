/*
 * Who is absent from what is ready: written into the log by the coordinator, read by all.
 *
 * ENTRY_ABSENT holds for the entries behind it, until the next one or the end of the turn.
 */
#include "base/mem.h"
#include "core/negotiator_parts.h"

bool absent_init(struct negotiator *negotiator)
{
    if (!bitset_init(&negotiator->absent_logged, negotiator->config.size)) {
        return false;
    }
    if (!bitset_init(&negotiator->scratch, negotiator->config.size)) {
        bitset_fini(&negotiator->absent_logged);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ writing */

/* Finds who has not announced a tensor but has joined; false when that is nobody. */
static bool find_absent(
        struct negotiator *negotiator, const struct entry *entry, struct bitset *absent)
{
    bool any = false;

    bitset_clear(absent);
    for (int m = 0; m < negotiator->config.size; m++) {
        if (member_has_joined(negotiator, m) && !coordinator_heard(entry, m)) {
            bitset_add(absent, m);
            any = true;
        }
    }
    return any;
}

static void write_absent(struct negotiator *negotiator, const struct bitset *absent)
{
    struct wire_writer *out;

    run_close(negotiator);
    out = message_open(negotiator);
    wire_put_u8(out, ENTRY_ABSENT);
    wire_put_varint(out, (uint64_t)bitset_count(absent));
    for (int m = 0; m < absent->bits; m++) {
        if (bitset_has(absent, m)) {
            wire_put_varint(out, (uint64_t)m);
        }
    }
    negotiator->appended++;
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

void absent_append(struct negotiator *negotiator, const struct entry *entry)
{
    struct bitset *logged = &negotiator->absent_logged;
    struct bitset *absent = &negotiator->scratch;

    if (negotiator->partings[PARTING_JOIN].count == 0 && bitset_count(logged) == 0) {
        return; /* as nearly always, and not worth a look at every member */
    }
    if (find_absent(negotiator, entry, absent)) {
        observe(negotiator, TRANSITION_DECIDE_ABSENT);
    }
    if (!sets_are_equal(logged, absent)) {
        write_absent(negotiator, absent);
        bitset_copy(logged, absent);
    }
}

/* ------------------------------------------------------------------ reading */

/* Room for a set of absent members, which the outcomes refer to; NULL: no memory. */
static struct absence *absence_take(struct negotiator *negotiator)
{
    struct absence *absence = negotiator->spare_absences;

    if (absence != NULL) {
        negotiator->spare_absences = absence->next;
        bitset_clear(&absence->members);
    } else {
        absence = mem_calloc(1, sizeof *absence);
        if (absence == NULL ||
                !bitset_init(&absence->members, negotiator->config.size)) {
            mem_free(absence);
            return NULL;
        }
    }
    absence->next = negotiator->absences;
    negotiator->absences = absence;
    return absence;
}

tutti_status absent_apply(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t size = (uint64_t)negotiator->config.size;
    const uint64_t count = wire_get_varint(in);
    struct absence *absence;

    negotiator->absent = NULL;
    if (!wire_ok(in) || count >= size) {
        return error_set(TUTTI_ERR_PROTOCOL, "corrupt log: malformed absence");
    }
    if (count == 0) {
        return TUTTI_OK;
    }
    absence = absence_take(negotiator);
    if (absence == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a set of %d ranks",
                negotiator->config.size);
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t member = wire_get_varint(in);

        if (!wire_ok(in) || member >= size) {
            return error_set(TUTTI_ERR_PROTOCOL, "corrupt log: malformed absence");
        }
        bitset_add(&absence->members, (int)member);
    }
    negotiator->absent = &absence->members;
    negotiator->went_on = true;
    return TUTTI_OK;
}

bool is_absent(const struct negotiator *negotiator)
{
    return negotiator->absent != NULL &&
            bitset_has(negotiator->absent, negotiator->config.rank);
}

void absences_clear(struct negotiator *negotiator)
{
    while (negotiator->absences != NULL) {
        struct absence *absence = negotiator->absences;

        negotiator->absences = absence->next;
        absence->next = negotiator->spare_absences;
        negotiator->spare_absences = absence;
    }
}

void absent_fini(struct negotiator *negotiator)
{
    absences_clear(negotiator);
    while (negotiator->spare_absences != NULL) {
        struct absence *absence = negotiator->spare_absences;

        negotiator->spare_absences = absence->next;
        bitset_fini(&absence->members);
        mem_free(absence);
    }
    bitset_fini(&negotiator->absent_logged);
    bitset_fini(&negotiator->scratch);
}
