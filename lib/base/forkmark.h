/*
 * Tells a forked child from its parent, for the price of a load.
 */
#ifndef TUTTI_BASE_FORKMARK_H
#define TUTTI_BASE_FORKMARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared.h"

/** Zeroed is valid and notices nothing. */
struct forkmark {
    _Atomic uint32_t *page; /* 1 where it was made, 0 in a child; owned */
};

/** Where the system cannot do it (Linux before 4.14), the mark notices nothing. */
void forkmark_init(struct forkmark *mark) TUTTI_SHARED(forkmark_init);
void forkmark_fini(struct forkmark *mark);

/** True in a child of the process that made the mark. */
static inline bool forkmark_is_child(const struct forkmark *mark)
{
    return mark->page != NULL &&
            atomic_load_explicit(mark->page, memory_order_relaxed) == 0;
}

#endif
