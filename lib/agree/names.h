/*
 * The table of names of a process set: those that this rank's threads submit, and those that
 * others announce. Threads may share it: it is read and changed under the lock of the
 * configuration, by the functions here that say so under "threads"; all else in an entry is the
 * negotiator's, which looks a name up when a message has it, and finds what is submitted by the
 * pointer in the request.
 */
#ifndef TUTTI_AGREE_NAMES_H
#define TUTTI_AGREE_NAMES_H

#include "agree/negotiator.h"

/** A name as it arrived: borrowed from a message or a request. */
struct name_ref {
    uint64_t hash;
    int collective;
    const char *name;
    size_t name_len;
};

static inline struct name_ref name_ref(
        int collective, const char *name, size_t name_len)
{
    return (struct name_ref){ .hash = request_hash(collective, name, name_len),
        .collective = collective,
        .name = name,
        .name_len = name_len };
}

static inline struct name_ref request_ref(const struct request *request)
{
    return (struct name_ref){ .hash = request->hash,
        .collective = request->collective,
        .name = request->name,
        .name_len = request->name_len };
}

static inline struct name_ref tensor_ref(const struct tensor_state *tensor)
{
    return (struct name_ref){ .hash = tensor->hash,
        .collective = tensor->collective,
        .name = tensor->name,
        .name_len = tensor->name_len };
}

/** What is held of a tensor by name, or NULL. */
static inline struct held_name *held_of(const struct tensor_state *tensor)
{
    return tensor->round.parts != NULL ? tensor->round.parts->held : NULL;
}

/* What the coordinator alone knows; false at the others. */

static inline bool is_decided(const struct tensor_state *tensor)
{
    return tensor->tally != NULL && tensor->tally->decided;
}

static inline bool is_retired(const struct tensor_state *tensor)
{
    return tensor->tally != NULL && tensor->tally->retired;
}

static inline bool is_named(const struct tensor_state *tensor)
{
    return tensor->tally != NULL && tensor->tally->variants != NULL;
}

/** The metadata of a complete round whose members agree. */
static inline const struct meta *round_meta(const struct tensor_state *tensor)
{
    return is_named(tensor) ? &tensor->tally->variants->meta : &tensor->meta;
}

/** True for what a number stands for, its step included. */
static inline bool tensor_expects(
        const struct tensor_state *tensor, const struct meta *meta)
{
    return meta_equal(&tensor->meta, meta) && meta->step == steps_next(&tensor->steps);
}

/** Coordinator: a round's number stands for this, but for the spot. */
static inline bool tensor_expects_elsewhere(
        const struct tensor_state *tensor, const struct meta *meta)
{
    return tensor->number != 0 && !tensor->tally->retired &&
            meta_equal_elsewhere(&tensor->meta, meta) &&
            meta->step == steps_next(&tensor->steps);
}

/** Coordinator: all gave what the number stands for, with the same other step. */
static inline bool tensor_is_stepped(const struct tensor_state *tensor)
{
    return tensor->number != 0 && !tensor->tally->retired &&
            tensor->tally->variants != NULL &&
            meta_equal(&tensor->meta, &tensor->tally->variants->meta);
}

/** Sets the error of having no memory for something of a tensor. */
static inline tutti_status no_memory_for(const char *name, size_t name_len)
{
    return error_set(
            TUTTI_ERR_NO_MEMORY, "no memory for tensor \"%.*s\"", (int)name_len, name);
}

/** Reads collective and name. */
bool name_get(struct wire_reader *in, struct name_ref *ref);
/** Writes them. */
void name_put(struct wire_writer *out, const struct name_ref *ref);

/* Threads: the lock is held. */

/** Finds or adds a name, which is not forgotten until names_let_go(); NULL: no memory. */
struct tensor_state *names_hold(
        struct negotiator *negotiator, const struct name_ref *ref);
/** For names_let_go(). */
void names_remove(struct negotiator *negotiator, struct tensor_state *tensor);
static inline void names_let_go(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    tensor->holds--;
    /* What the negotiator has met, it forgets itself. */
    if (tensor->holds == 0 && !tensor->met) {
        names_remove(negotiator, tensor);
    }
}

/* The negotiator: the lock is not held. */

/** The tensor of a name, or NULL. */
struct tensor_state *tensor_find(
        const struct negotiator *negotiator, const struct name_ref *ref);
/** Finds or adds; NULL when out of memory. It is active or becomes idle later. */
struct tensor_state *tensor_get(
        struct negotiator *negotiator, const struct name_ref *ref);

/** The same for a submission. */
struct tensor_state *tensor_of(
        struct negotiator *negotiator, const struct request *request);

/** Begins a round if none is running. */
void tensor_activate(struct negotiator *negotiator, struct tensor_state *tensor);
/** Restarts the clock of the round, because the members that it waits for make progress. */
void tensor_restart(struct negotiator *negotiator, struct tensor_state *tensor);
/** Ends the round: everything of it is reset; idle names beyond the limit are dropped. */
void tensor_end_round(struct negotiator *negotiator, struct tensor_state *tensor);

/** Makes sure of `parts`, for a number of bits that is the same always; false when out of memory. */
bool tensor_parts_begin(struct tensor_state *tensor, int bits);
/** Forgets what is held by name; who announced it is still known. */
void tensor_drop_held(struct tensor_state *tensor);

/** Gives a tensor a number for some metadata; false when out of memory. */
bool tensor_set_number(struct negotiator *negotiator, struct tensor_state *tensor,
        uint64_t number, const struct meta *meta);
/** Coordinator: a number was looked at, and is the last to be looked at again. */
void tensor_number_passed(struct negotiator *negotiator, struct tensor_state *tensor);
/** Takes the number away. */
void tensor_clear_number(struct negotiator *negotiator, struct tensor_state *tensor);
/** Forgets what ranks gave, unless a number stands for it or a round is running. */
void tensor_forget_row_counts(
        struct negotiator *negotiator, struct tensor_state *tensor);

/** Coordinator: true when the announcement of a member has arrived here. */
bool coordinator_heard(const struct tensor_state *tensor, int rank);
/** Forgets the announcements by name that belong to a group. */
void coordinator_drop_variants(struct tensor_state *tensor, uint64_t hash);

/** Frees everything. */
void names_fini(struct negotiator *negotiator);

#endif
