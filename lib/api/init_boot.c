/*
 * Jobs without an MPI: who is there is known from what has started the ranks, or from the
 * program (tutti_init_oob), and UCX carries the messages.
 */
#include "api/init_boot.h"

#include <stdbool.h>

#include "api/init.h"
#include "api/plugin.h"
#include "base/config.h"
#include "base/error.h"
#include "boot/boot.h"
#include "boot/pmi.h"
#include "boot/session.h"
#include "boot/torchrun.h"

/* ------------------------------------------------------------------ what is found */

static bool session_is_here(void)
{
    return config_internal(BOOT_SESSION_VARIABLE) != NULL;
}

/* In the order in which they are asked. */
static const struct source {
    const char *title;
    bool (*is_here)(void);
    tutti_status (*open)(struct boot *boot); /* TUTTI_AGAIN: it is not */
} sources[] = {
    { .title = "tuttirun, by its session",
            .is_here = session_is_here,
            .open = boot_session_open },
    { .title = "torchrun's variables, by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
            .is_here = boot_torchrun_is_here,
            .open = boot_torchrun_open },
    { .title = "srun, by PMI-2", .is_here = boot_pmi2_is_here, .open = boot_pmi2_open },
    { .title = "srun, by PMIx", .is_here = boot_pmix_is_here, .open = boot_pmix_open },
};
enum {
    SOURCES = sizeof sources / sizeof *sources
};

const char *init_boot_seen(void)
{
    for (int i = 0; i < SOURCES; i++) {
        if (sources[i].is_here()) {
            return sources[i].title;
        }
    }
    return NULL;
}

static tutti_status find(struct boot *boot)
{
    tutti_status status = TUTTI_AGAIN;

    for (int i = 0; i < SOURCES && status == TUTTI_AGAIN; i++) {
        status = sources[i].open(boot);
    }
    return status;
}

/* Over UCX; the boot stays the caller's. */
static tutti_status join(tutti **t, struct boot *boot, const tutti_config *config)
{
    struct job_source source = { .user = boot };
    const struct ucx_plugin *plugin;
    const tutti_status status = plugin_load_ucx(&plugin);

    if (status != TUTTI_OK) {
        return status;
    }
    source.join = plugin->join;
    return init_join(t, &source, config);
}

tutti_status init_boot(tutti **t, const tutti_config *config)
{
    struct boot boot;
    tutti_status status = find(&boot);

    if (status == TUTTI_OK) {
        status = join(t, &boot, config);
        if (boot.close != NULL) {
            boot.close(boot.user);
        }
    }
    return status;
}

/* ------------------------------------------------------------------ the program's */

struct oob {
    tutti_oob_allgather allgather;
    void *user;
    int rank;
};

static tutti_status oob_allgather(void *user, const void *mine, void *all, size_t bytes)
{
    const struct oob *oob = user;
    const int code = oob->allgather(oob->user, mine, all, bytes);

    return code == 0 ? TUTTI_OK
                     : error_set(TUTTI_ERR_SYSTEM,
                               "tutti_init_oob: the program's allgather returned %d on "
                               "rank %d",
                               code, oob->rank);
}

tutti_status tutti_init_oob(tutti **t, int rank, int size,
        tutti_oob_allgather allgather, void *user, const tutti_config *config)
{
    struct oob oob = { .allgather = allgather, .user = user, .rank = rank };
    struct boot boot = { .name = "oob",
        .rank = rank,
        .size = size,
        .allgather = oob_allgather,
        .user = &oob };

    if (t == NULL || allgather == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_init_oob: %s is NULL",
                t == NULL ? "t" : "allgather");
    }
    if (size < 1 || rank < 0 || rank >= size) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_init_oob: rank is %d of %d; ranks are 0 to size - 1", rank,
                size);
    }
    return join(t, &boot, config);
}
