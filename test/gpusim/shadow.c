/*
 * Who wrote each byte last, and who has read it since: a map of disjoint spans, as a treap
 * ordered by address. An access cuts the spans at its two ends and looks at those between;
 * neighbours that have become equal are merged again, so that a tensor that is always
 * touched as a whole is one span, however it was cut before.
 *
 * A read that is ordered before another read is forgotten: whoever is ordered after the
 * second is ordered after the first. Of reads that nothing orders, four are kept, so a fifth
 * can hide an old one from a later write (a race missed, never one invented).
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

struct span {
    struct span *left, *right;
    uint64_t start, end;
    struct access write; /* label NULL: not written yet */
    struct access reads[SPAN_READS_MAX];
    uint32_t read_count;
    uint32_t priority;
};

/* A range cut out of the treap; the rest lies on both sides. */
struct cut {
    struct span *before, *inside, *after;
};

static uint32_t next_priority(void)
{
    static uint32_t state = 2463534242U;

    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static struct span *span_new(uint64_t start, uint64_t end)
{
    struct span *span = calloc(1, sizeof *span);

    span->start = start;
    span->end = end;
    span->priority = next_priority();
    return span;
}

/* Spans that start before `at` and those that do not. As deep as the treap: O(log n). */
static void split(struct span *root, uint64_t at, struct span **low, struct span **high)
{
    if (root == NULL) {
        *low = NULL;
        *high = NULL;
    } else if (root->start < at) {
        split(root->right, at, &root->right, high);
        *low = root;
    } else {
        split(root->left, at, low, &root->left);
        *high = root;
    }
}

static struct span *join(struct span *low, struct span *high)
{
    if (low == NULL) {
        return high;
    }
    if (high == NULL) {
        return low;
    }
    if (low->priority > high->priority) {
        low->right = join(low->right, high);
        return low;
    }
    high->left = join(low, high->left);
    return high;
}

static struct span *last_of(struct span *root)
{
    while (root != NULL && root->right != NULL) {
        root = root->right;
    }
    return root;
}

/* As split(), cutting the span that reaches across `at` in two. */
static void split_bytes(
        struct span *root, uint64_t at, struct span **low, struct span **high)
{
    struct span *last, *rest;

    split(root, at, low, high);
    last = last_of(*low);
    if (last != NULL && last->end > at) {
        rest = malloc(sizeof *rest);
        *rest = *last;
        rest->left = NULL;
        rest->right = NULL;
        rest->priority = next_priority();
        rest->start = at;
        last->end = at;
        *high = join(rest, *high);
    }
}

static struct cut shadow_cut(struct shadow *shadow, const struct gpusim_range *range)
{
    struct cut cut;
    struct span *rest;

    split_bytes(shadow->root, range->start, &cut.before, &rest);
    split_bytes(rest, range->start + range->bytes, &cut.inside, &cut.after);
    shadow->root = NULL;
    return cut;
}

/* The treap as a list by address, linked through `right`, by rotations; without recursion. */
static struct span *flatten(struct span *root)
{
    struct span head = { .right = root }, *tail = &head;

    while (tail->right != NULL) {
        struct span *node = tail->right, *left = node->left;

        if (left == NULL) {
            tail = node;
        } else {
            node->left = left->right;
            left->right = node;
            tail->right = left;
        }
    }
    return head.right;
}

static bool same_access(const struct access *a, const struct access *b)
{
    return a->label == b->label && a->who == b->who && a->time == b->time &&
            a->actor == b->actor;
}

static bool span_continues(const struct span *a, const struct span *b)
{
    if (a->end != b->start || a->read_count != b->read_count ||
            !same_access(&a->write, &b->write)) {
        return false;
    }
    for (uint32_t i = 0; i < a->read_count; i++) {
        if (!same_access(&a->reads[i], &b->reads[i])) {
            return false;
        }
    }
    return true;
}

static bool is_ordered(const struct access *earlier, const struct clock *clock)
{
    return earlier->label == NULL || earlier->time <= clock_time(clock, earlier->actor);
}

/* The access of this span, if any, that is not ordered before the clock. */
static const struct access *span_conflict(
        const struct span *span, bool writes, const struct clock *clock)
{
    if (!is_ordered(&span->write, clock)) {
        return &span->write;
    }
    for (uint32_t i = 0; writes && i < span->read_count; i++) {
        if (!is_ordered(&span->reads[i], clock)) {
            return &span->reads[i];
        }
    }
    return NULL;
}

static void span_read(
        struct span *span, const struct access *access, const struct clock *clock)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < span->read_count; i++) {
        if (!is_ordered(&span->reads[i], clock)) {
            span->reads[kept++] = span->reads[i];
        }
    }
    if (kept == SPAN_READS_MAX) {
        memmove(&span->reads[0], &span->reads[1], (kept - 1) * sizeof span->reads[0]);
        kept--;
    }
    span->reads[kept++] = *access;
    span->read_count = kept;
}

/* First conflict of the list with the access. */
static bool list_conflict(const struct span *list, bool writes,
        const struct clock *clock, struct conflict *conflict)
{
    for (const struct span *span = list; span != NULL; span = span->right) {
        const struct access *earlier = span_conflict(span, writes, clock);

        if (earlier != NULL) {
            *conflict = (struct conflict){
                .earlier = *earlier,
                .earlier_wrote = earlier == &span->write,
                .start = span->start,
            };
            return true;
        }
    }
    return false;
}

static void list_free(struct span *list)
{
    while (list != NULL) {
        struct span *next = list->right;

        free(list);
        list = next;
    }
}

/* Puts a span back at the end, or lengthens the last one when it says the same. */
static struct span *append(struct span *root, struct span *span)
{
    struct span *last = last_of(root);

    span->left = NULL;
    span->right = NULL;
    if (last != NULL && span_continues(last, span)) {
        last->end = span->end;
        free(span);
        return root;
    }
    return join(root, span);
}

/* The list with the read noted, and new spans where nothing was known. */
static struct span *list_read(struct span *root, struct span *list,
        const struct gpusim_range *range, const struct access *access,
        const struct clock *clock)
{
    uint64_t at = range->start, end = range->start + range->bytes;

    while (at < end) {
        struct span *span = list;

        if (list == NULL || list->start > at) {
            span = span_new(at, list == NULL ? end : list->start);
        } else {
            list = list->right;
        }
        at = span->end;
        span_read(span, access, clock);
        root = append(root, span);
    }
    return root;
}

/* The first span after a cut may continue the last one before it. */
static struct span *join_merging(struct span *low, struct span *high)
{
    struct span *first = high, *rest;

    while (first != NULL && first->left != NULL) {
        first = first->left;
    }
    if (first == NULL) {
        return low;
    }
    split(high, first->start + 1, &first, &rest);
    return join(append(low, first), rest);
}

bool shadow_touch(struct shadow *shadow, const struct gpusim_range *range, bool writes,
        const struct access *access, const struct clock *clock,
        struct conflict *conflict)
{
    struct cut cut = shadow_cut(shadow, range);
    struct span *list = flatten(cut.inside);
    bool found = list_conflict(list, writes, clock, conflict);
    struct span *root;

    if (writes) {
        struct span *span = span_new(range->start, range->start + range->bytes);

        list_free(list);
        span->write = *access;
        root = append(cut.before, span);
    } else {
        root = list_read(cut.before, list, range, access, clock);
    }
    shadow->root = join_merging(root, cut.after);
    return found;
}

void shadow_fini(struct shadow *shadow)
{
    list_free(flatten(shadow->root));
    shadow->root = NULL;
}
