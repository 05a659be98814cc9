/*
 * Adds up the time of steps.
 */
#include "tools/recordings/account.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "tools/recordings/sweep.h"

enum fact {
    WAITS, /* a thread of the program, in tutti                        */
    MOVES, /* a batch                                                  */
    AWAITS, /* a batch of this rank, for the slowest                    */
    AGREES /* a batch of this rank, for agreement                      */
};

/* One rank's steps. */
struct rank_accounts {
    struct traced_step *steps; /* borrowed, or `whole` */
    struct traced_step whole;
    size_t count;
    int64_t *cuts; /* owned; [2 * count]; where steps begin and end */
    struct sweep_shares *shares; /* owned; as many; those behind an end are not used */
};

const char *part_name(enum part part)
{
    static const char *const names[PARTS] = { "compute", "agreement", "slowest", "copy",
        "reduce", "wire", "other" };

    return names[part];
}

static void add_waits(struct sweep *sweep, const struct recording_of *recording)
{
    for (size_t i = 0; i < recording->event_count; i++) {
        if (recording->events[i].kind == RECORDER_WAIT) {
            const int64_t end_ns = recorded_end_ns(recording, i);

            sweep_add(sweep, WAITS, recording->events[i].time_ns,
                    end_ns == 0 ? sweep->end_ns : end_ns);
        }
    }
}

static void add_batches(struct sweep *sweep, const struct traced_rank *rank)
{
    for (size_t b = 0; b < rank->batch_count; b++) {
        const struct traced_batch *batch = &rank->batches[b];
        const int64_t came_ns = batch->complete_ns + batch->awaited_ns;

        sweep_add(sweep, MOVES, batch->launch_ns, batch->end_ns);
        sweep_add(sweep, AWAITS, batch->complete_ns, came_ns);
        sweep_add(sweep, AGREES, came_ns, batch->launch_ns);
    }
}

/* The step in which a time lies; count: none. */
static size_t step_at(const struct rank_accounts *own, int64_t time_ns)
{
    size_t low = 0;
    size_t high = own->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (own->steps[middle].end_ns <= time_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < own->count && own->steps[low].begin_ns <= time_ns ? low : own->count;
}

/* The time in which batches moved is divided as the batches of the step were. */
struct busy {
    double moved, copied, reduced; /* ns */
};

static void count_batches(const struct rank_accounts *own,
        const struct traced_rank *rank, struct busy *busy, struct account *accounts)
{
    for (size_t b = 0; b < rank->batch_count; b++) {
        const struct traced_batch *batch = &rank->batches[b];
        const size_t at = step_at(own, batch->launch_ns);
        struct account *account = &accounts[at];

        if (at == own->count) {
            continue;
        }
        busy[at].moved += (double)(batch->end_ns - batch->launch_ns);
        busy[at].copied += (double)batch->pack_ns + (double)batch->unpack_ns;
        busy[at].reduced += (double)batch->reduce_ns;
        if (batch->slowest >= 0 && (double)batch->late_ns > account->late) {
            account->slowest = batch->slowest;
            account->late = (double)batch->late_ns;
        }
    }
}

static double share_of(double part, double all)
{
    return all <= 0 ? 0 : part < all ? part / all : 1;
}

static void fill(struct account *account, const struct sweep_shares *shares,
        const struct busy *busy)
{
    const unsigned waits = 1U << WAITS;
    const unsigned moves = 1U << MOVES;
    const unsigned awaits = 1U << AWAITS;
    const unsigned agrees = 1U << AGREES;
    const double moving = (double)sweep_ns(shares, waits | moves, 0);
    const double copy = share_of(busy->copied, busy->moved);
    const double reduce = share_of(busy->reduced, busy->moved * (1 - copy));
    double *parts = account->parts;

    account->total = (double)sweep_ns(shares, 0, 0);
    account->moving = (double)sweep_ns(shares, moves, 0);
    account->hidden = (double)sweep_ns(shares, moves, waits);
    parts[PART_COMPUTE] = (double)sweep_ns(shares, 0, waits);
    parts[PART_SLOWEST] = (double)sweep_ns(shares, waits | awaits, moves);
    parts[PART_AGREEMENT] = (double)sweep_ns(shares, waits | agrees, moves | awaits);
    parts[PART_OTHER] = (double)sweep_ns(shares, waits, moves | awaits | agrees);
    parts[PART_COPY] = moving * copy;
    parts[PART_REDUCE] = moving * (1 - copy) * reduce;
    parts[PART_WIRE] = moving * (1 - copy) * (1 - reduce);
}

/* Steps are periods, and so is what lies between them: it is left out. */
static bool sweep_rank(const struct rank_accounts *own, const struct traced_rank *rank)
{
    const struct recording_of *recording = rank->recording;
    int64_t begin_ns;
    int64_t end_ns;
    struct sweep sweep;

    recording_window(recording, &begin_ns, &end_ns);
    if (!sweep_init(&sweep, begin_ns, end_ns,
                recording->event_count + 3 * rank->batch_count)) {
        return false;
    }
    add_waits(&sweep, recording);
    add_batches(&sweep, rank);
    for (size_t s = 0; s < own->count; s++) {
        own->cuts[2 * s] = own->steps[s].begin_ns;
        own->cuts[2 * s + 1] = own->steps[s].end_ns;
    }
    sweep_run(&sweep, own->cuts, 2 * own->count, own->shares);
    sweep_fini(&sweep);
    return true;
}

static bool account_rank(const struct traced_rank *rank, struct account *accounts,
        const struct rank_accounts *own)
{
    struct busy *busy = mem_calloc(own->count + 1, sizeof *busy);

    if (busy == NULL || !sweep_rank(own, rank)) {
        mem_free(busy);
        return false;
    }
    for (size_t s = 0; s < own->count; s++) {
        accounts[s] = (struct account){ .number = own->steps[s].number, .slowest = -1 };
    }
    count_batches(own, rank, busy, accounts);
    for (size_t s = 0; s < own->count; s++) {
        fill(&accounts[s], &own->shares[2 * s], &busy[s]);
    }
    mem_free(busy);
    return true;
}

/* The accounts of a rank; NULL: out of memory. */
static struct account *account_steps(const struct traced_rank *rank, size_t *count)
{
    struct rank_accounts own = { .steps = rank->steps, .count = rank->step_count };
    struct account *accounts;
    bool done;

    if (own.count == 0) {
        own.steps = &own.whole;
        own.count = 1;
        recording_window(rank->recording, &own.whole.begin_ns, &own.whole.end_ns);
    }
    accounts = mem_calloc(own.count + 1, sizeof *accounts);
    own.shares = mem_calloc(2 * own.count, sizeof *own.shares);
    own.cuts = mem_calloc(2 * own.count, sizeof *own.cuts);
    done = accounts != NULL && own.shares != NULL && own.cuts != NULL &&
            account_rank(rank, accounts, &own);
    mem_free(own.shares);
    mem_free(own.cuts);
    if (!done) {
        mem_free(accounts);
        return NULL;
    }
    *count = own.count;
    return accounts;
}

bool account_whole(struct account *account, const struct recording_of *recording)
{
    struct recording_of copy = *recording;
    const struct recorded_job job = { .ranks = &copy, .count = 1, .size = 1 };
    struct account *accounts = NULL;
    struct trace trace;
    size_t count;

    if (trace_make(&trace, &job) != TUTTI_OK) {
        return false;
    }
    trace.ranks[0].step_count = 0;
    accounts = account_steps(&trace.ranks[0], &count);
    if (accounts != NULL) {
        *account = accounts[0];
    }
    mem_free(accounts);
    trace_fini(&trace);
    return accounts != NULL && account->total > 0;
}

/* ------------------------------------------------------------------- means */

static void add(struct account *sum, const struct account *account)
{
    sum->total += account->total;
    sum->moving += account->moving;
    sum->hidden += account->hidden;
    for (int p = 0; p < PARTS; p++) {
        sum->parts[p] += account->parts[p];
    }
    if (account->slowest >= 0 && account->late > sum->late) {
        sum->slowest = account->slowest;
        sum->late = account->late;
    }
}

static void divide(struct account *sum, size_t count)
{
    const double n = count > 0 ? (double)count : 1;

    sum->total /= n;
    sum->moving /= n;
    sum->hidden /= n;
    for (int p = 0; p < PARTS; p++) {
        sum->parts[p] /= n;
    }
}

static int compare_accounts(const void *a, const void *b)
{
    const struct account *x = a;
    const struct account *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* Sorts what all ranks have, and takes the mean of those with the same number. */
static void merge_steps(struct accounts *accounts, size_t all)
{
    size_t from = 0;

    qsort(accounts->steps, all, sizeof *accounts->steps, compare_accounts);
    while (from < all) {
        struct account sum = { .number = accounts->steps[from].number, .slowest = -1 };
        const size_t begin = from;

        while (from < all && accounts->steps[from].number == sum.number) {
            add(&sum, &accounts->steps[from++]);
        }
        divide(&sum, from - begin);
        accounts->steps[accounts->count++] = sum;
        add(&accounts->mean, &sum);
    }
    divide(&accounts->mean, accounts->count);
}

static bool add_rank(struct accounts *accounts, const struct traced_rank *rank,
        size_t r, size_t *all, size_t *capacity)
{
    size_t count = 0;
    struct account *own = account_steps(rank, &count);

    if (own == NULL ||
            !mem_grow(&accounts->steps, capacity, *all + count,
                    sizeof *accounts->steps)) {
        mem_free(own);
        return false;
    }
    for (size_t s = 0; s < count; s++) {
        accounts->steps[(*all)++] = own[s];
        add(&accounts->ranks[r], &own[s]);
    }
    divide(&accounts->ranks[r], count);
    mem_free(own);
    return true;
}

static double cost_of(const struct lateness *lateness)
{
    return (double)lateness->late * (double)lateness->median_ns;
}

/* By insertion: there are few ranks that cost anything. */
static tutti_status rank_stragglers(
        struct accounts *accounts, const struct recorded_job *job)
{
    const tutti_status status = lateness_find(accounts->lateness, job);

    for (size_t r = 0; r < accounts->rank_count; r++) {
        size_t at = r;

        for (; at > 0 &&
                cost_of(&accounts->lateness[accounts->order[at - 1]]) <
                        cost_of(&accounts->lateness[r]);
                at--) {
            accounts->order[at] = accounts->order[at - 1];
        }
        accounts->order[at] = r;
    }
    return status;
}

tutti_status accounts_make(struct accounts *accounts, const struct trace *trace)
{
    const size_t count = trace->job->count;
    size_t all = 0;
    size_t capacity = 0;
    bool has_memory;

    *accounts = (struct accounts){ .rank_count = count, .mean = { .slowest = -1 } };
    accounts->ranks = mem_calloc(count + 1, sizeof *accounts->ranks);
    accounts->lateness = mem_calloc(count + 1, sizeof *accounts->lateness);
    accounts->order = mem_calloc(count + 1, sizeof *accounts->order);
    has_memory = accounts->ranks != NULL && accounts->lateness != NULL &&
            accounts->order != NULL;
    for (size_t r = 0; r < count && has_memory; r++) {
        accounts->ranks[r].slowest = -1;
        has_memory = add_rank(accounts, &trace->ranks[r], r, &all, &capacity);
    }
    if (!has_memory || rank_stragglers(accounts, trace->job) != TUTTI_OK) {
        accounts_fini(accounts);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the steps");
    }
    merge_steps(accounts, all);
    return TUTTI_OK;
}

void accounts_fini(struct accounts *accounts)
{
    mem_free(accounts->steps);
    mem_free(accounts->ranks);
    mem_free(accounts->lateness);
    mem_free(accounts->order);
    *accounts = (struct accounts){ .count = 0 };
}
