/*
 * For how long which facts held together, of facts that hold from one time to another. Moments are
 * swept from boundary to boundary. Pure.
 */
#ifndef TUTTI_TOOLS_RECORDINGS_SWEEP_H
#define TUTTI_TOOLS_RECORDINGS_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SWEEP_FACTS = 4 /* most */
};

/** Time in which just these facts held, by the set of them. */
struct sweep_shares {
    int64_t ns[1 << SWEEP_FACTS];
};

struct sweep_boundary;

/** Of a time that may be cut in periods. Zeroed is valid for sweep_fini(). */
struct sweep {
    struct sweep_boundary *boundaries; /* owned */
    size_t count, capacity;
    int64_t begin_ns, end_ns;
};

/** False when out of memory. */
bool sweep_init(struct sweep *sweep, int64_t begin_ns, int64_t end_ns, size_t spans);
void sweep_fini(struct sweep *sweep);
/** A fact, below SWEEP_FACTS, holds; at most `spans` times. */
void sweep_add(struct sweep *sweep, unsigned fact, int64_t begin_ns, int64_t end_ns);
/**
 * @param cuts    [count] where periods begin, in order: the time before the first is left out
 * @param shares  [count] of the periods, zeroed
 */
void sweep_run(struct sweep *sweep, const int64_t *cuts, size_t count,
        struct sweep_shares *shares);
/** Time in which these facts held and those did not. */
int64_t sweep_ns(const struct sweep_shares *shares, unsigned held, unsigned not_held);

#endif
