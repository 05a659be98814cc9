/*
 * What the files of the negotiator call in each other. Internal to
 * lib/core/negotiator.c, announce.c, coordinator.c, turnlog.c and stall.c.
 */
#ifndef TUTTI_CORE_NEGOTIATOR_PARTS_H
#define TUTTI_CORE_NEGOTIATOR_PARTS_H

#include "core/entries.h"
#include "core/negotiator.h"
#include "core/observer.h"
#include "core/protocol.h"

/** A name as it arrived: borrowed from a message or a request. */
struct name_ref {
    uint64_t hash;
    int collective;
    const char *name;
    size_t name_len;
};

static inline bool is_coordinator(const struct negotiator *negotiator)
{
    return negotiator->config.rank == 0;
}

/** World rank of a member, for messages. */
static inline int world_rank(const struct negotiator *negotiator, int member)
{
    return negotiator->config.world_ranks[member];
}

/* negotiator.c */

/** The message being built, with its header: announcements, or the coordinator's turn. */
struct wire_writer *message_open(struct negotiator *negotiator);
/** Writes the run of numbers that is being collected, if any. */
void run_close(struct negotiator *negotiator);
/** Adds a number to the message being built. rank is ignored for ENTRY_* tags. */
void run_put(struct negotiator *negotiator, uint8_t tag, int rank, uint64_t number);
/** Copies bytes into an action. */
tutti_status action_add(struct negotiator *negotiator, enum action_kind kind, int to,
        const void *bytes, size_t len);
/** Sends bytes to all children. */
tutti_status forward_down(struct negotiator *negotiator, const void *bytes, size_t len);
/** Adds an outcome for the pending request of an entry; error (may be NULL) is taken. */
tutti_status outcome_add(
        struct negotiator *negotiator, struct entry *entry, struct error *error);
/** Reads collective and name. */
bool name_get(struct wire_reader *in, struct name_ref *ref);
/** Writes them. */
void name_put(
        struct wire_writer *out, int collective, const char *name, size_t name_len);

/* announce.c: the way up */

tutti_status announce_own(struct negotiator *negotiator, struct entry *entry);
tutti_status announce_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in);
/** An inner node stops holding numbers of this entry back. */
void announce_split(struct negotiator *negotiator, struct entry *entry);

/* coordinator.c: collecting and deciding */

tutti_status coordinator_number(
        struct negotiator *negotiator, struct entry *entry, uint8_t tag, int rank);
tutti_status coordinator_name(struct negotiator *negotiator, const struct name_ref *ref,
        int rank, const struct meta *meta, uint64_t seen);
tutti_status coordinator_cancel(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, uint64_t log_length);
/** True when the announcement of a member has arrived here. */
bool coordinator_heard(const struct entry *entry, int rank);
/** Forgets the complete members of a group; their announcements are not touched. */
void coordinator_drop_group(struct negotiator *negotiator, uint64_t hash);
/** Forgets the announcements by name that belong to a group. */
void coordinator_drop_variants(struct entry *entry, uint64_t hash);
void coordinator_fini(struct negotiator *negotiator);

/* turnlog.c: the way down */

/** Applies a turn; `in` stands behind the kind. */
tutti_status turnlog_apply(struct negotiator *negotiator, struct wire_reader *in);

/* stall.c */

tutti_status stall_receive(
        struct negotiator *negotiator, int from, int kind, struct wire_reader *in);

#endif
