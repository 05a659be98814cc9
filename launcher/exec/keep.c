/*
 * A supervisor's view of its host's kept memory.
 */
#include "launcher/exec/keep.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/exec/keeper.h"

static tutti_status map(struct keep *keep)
{
    void *page;

    if (fcntl(keep->fd, F_SETFD, 0) != 0) { /* the program inherits it */
        return error_set_errno(TUTTI_ERR_SYSTEM, "hand out committed state");
    }
    page = mmap(NULL, ELASTIC_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
            keep->fd, 0);
    if (page == MAP_FAILED) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "map committed state");
    }
    keep->control = page;
    return TUTTI_OK;
}

tutti_status keep_open(
        struct keep *keep, const struct uplink *uplink, struct arguments *environment)
{
    const struct keeper_plan plan = {
        .job = uplink->orders.job,
        .address = &uplink->address,
        .port = uplink->orders.keeper_port,
        .silent_ns = uplink->orders.silent_ns,
    };
    char text[64];
    tutti_status status;

    if (uplink->rank.local_rank < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "the engine does not tell the place of the rank on its host");
    }
    keep->generation = uplink->orders.generation;
    status = keeper_get(&plan, &keep->fd);
    if (status == TUTTI_OK) {
        status = map(keep);
    }
    if (status != TUTTI_OK) {
        keep_fini(keep);
        return status;
    }
    (void)snprintf(text, sizeof text, "%d %u %d %d", keep->fd, keep->generation,
            uplink->rank.local_rank, uplink->rank.local_size);
    arguments_set(environment, ELASTIC_VARIABLE, text);
    return TUTTI_OK;
}

void keep_fini(struct keep *keep)
{
    if (keep->control != NULL) {
        (void)munmap(keep->control, ELASTIC_CONTROL_BYTES);
        keep->control = NULL;
    }
    if (keep->fd >= 0) {
        (void)close(keep->fd);
        keep->fd = -1;
    }
}

void keep_notice(struct keep *keep, uint32_t notice)
{
    if (keep->control != NULL) {
        atomic_store_explicit(&keep->control->notice,
                elastic_notice(keep->generation, notice), memory_order_relaxed);
    }
}

uint64_t keep_committed(const struct keep *keep)
{
    return keep->control == NULL
            ? 0
            : atomic_load_explicit(&keep->control->committed, memory_order_relaxed);
}
