/*
 * The negotiator's table of names: internal to lib/core/negotiator*.c.
 */
#ifndef TUTTI_CORE_ENTRIES_H
#define TUTTI_CORE_ENTRIES_H

#include "core/negotiator.h"

/** The entry of a name, or NULL. */
struct entry *entry_find(const struct negotiator *negotiator, uint64_t hash,
        int collective, const char *name, size_t name_len);
/** The entry of a number, or NULL (never given out, or forgotten). */
struct entry *entry_by_number(const struct negotiator *negotiator, uint64_t number);
/** The entry of a name of which only the hash is known, or NULL. */
struct entry *entry_by_hash(const struct negotiator *negotiator, uint64_t hash);
/** Finds or adds; NULL when out of memory. The entry is active or becomes idle later. */
struct entry *entry_get(struct negotiator *negotiator, uint64_t hash, int collective,
        const char *name, size_t name_len);

/** The same for a submission; remembers it in its memo. */
struct entry *entry_of(struct negotiator *negotiator, const struct request *request);

/** Begins a round if none is running. */
void entry_activate(struct negotiator *negotiator, struct entry *entry);
/** The round's clock begins anew: it is waited for while others are at work. */
void entry_restart(struct negotiator *negotiator, struct entry *entry);
/** Ends the round: everything of it is reset; idle names beyond the limit are dropped. */
void entry_end_round(struct negotiator *negotiator, struct entry *entry);

/** This rank's submission has its outcome; what others announced stays. */
void entry_end_submission(struct negotiator *negotiator, struct entry *entry);
/** What was announced is void; a submission of this rank stays, unannounced. */
void entry_void_round(struct negotiator *negotiator, struct entry *entry);

/** Gives an entry a number for some metadata; false when out of memory. */
bool entry_set_number(struct negotiator *negotiator, struct entry *entry,
        uint64_t number, const struct meta *meta);
/** Takes the number away. */
void entry_clear_number(struct negotiator *negotiator, struct entry *entry);

/** Frees everything. */
void entries_fini(struct negotiator *negotiator);

#endif
