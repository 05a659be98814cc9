/*
 * From MPI_Init() to MPI_Finalize().
 *
 * Ranks must decide alike whether a collective is tutti's, so what decides is agreed on in
 * MPI_Init(): that all could start, and from how many bytes on. MPI_Finalize() deletes the
 * attributes of MPI_COMM_SELF first of all: that is where this library ends. A program of
 * sessions alone, without MPI_Init(), has its MPI as it is.
 */
#include "preload/preload.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "preload/stats.h"
#include "preload/team.h"

/*
 * MPI's functions have no context that a library in front of it could hang its state on. Written
 * by one thread, before MPI_Init() returns and in MPI_Finalize().
 */
static struct preload made;

static pthread_once_t real_once = PTHREAD_ONCE_INIT;

static void find_real(void)
{
    (void)real_find(&made.real);
}

const struct preload *preload_get(void)
{
    if (!made.active) {
        (void)pthread_once(&real_once, find_real);
    }
    return &made;
}

static void limits_fill(size_t min_bytes)
{
#define PRELOAD_CALL_LIMITS(symbol, name, two_ranks, more_ranks) \
    made.limits[symbol] = \
            (struct preload_limits){ .two = (two_ranks), .more = (more_ranks) };
    PRELOAD_CALL_MAP(PRELOAD_CALL_LIMITS)
#undef PRELOAD_CALL_LIMITS
    for (int call = 0; call < CALL_COUNT; call++) {
        struct preload_limits *limits = &made.limits[call];

        if (min_bytes > 0) {
            limits->two = min_bytes;
            limits->more = min_bytes;
        }
        limits->least = size_min(limits->two, limits->more);
    }
}

/** MPI_Finalize() begins. */
static int end(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    made.active = false;
    team_close_all();
    if (made.counts && made.log.rank == 0) {
        stats_print();
    }
    (void)PMPI_Comm_free(&made.progress);
    config_fini(&made.config);
    return MPI_SUCCESS;
}

/** What this rank needs for itself. @return false: it has said why */
static bool prepare(void)
{
    char warnings[ERROR_TEXT_MAX] = "";

    if (config_init(&made.config) != TUTTI_OK ||
            config_from_environment(&made.config, warnings, sizeof warnings) !=
                    TUTTI_OK) {
        log_error(&made.log, "MPI's collectives stay as they are: %s", error_last());
        return false;
    }
    made.log.level = (tutti_log_level)made.config.log_level;
    made.counts = made.config.mpi_stats;
    limits_fill(made.config.mpi_min_bytes);
    return PMPI_Comm_dup(MPI_COMM_SELF, &made.progress) == MPI_SUCCESS &&
            PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, team_delete, &made.team_key,
                    NULL) == MPI_SUCCESS &&
            PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &made.end_key, NULL) ==
            MPI_SUCCESS &&
            PMPI_Comm_set_attr(MPI_COMM_SELF, made.end_key, NULL) == MPI_SUCCESS;
}

/* A handle of one MPI means nothing to another. These arguments are the same with all. */
static bool is_built_for(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;

    (void)PMPI_Get_library_version(version, &length);
    return (strstr(version, "Open MPI") != NULL) ==
            (strcmp(TUTTI_MPI_NAME, "openmpi") == 0);
}

/** Decides with the other ranks of the world. */
static bool agree(void)
{
    int64_t agreed[3]; /* 1: can start; the least bytes, and minus the most */

    agreed[0] = prepare() ? 1 : 0;
    agreed[1] = (int64_t)made.config.mpi_min_bytes;
    agreed[2] = -agreed[1];
    if (made.real.allreduce(MPI_IN_PLACE, agreed, 3, MPI_INT64_T, MPI_MIN,
                MPI_COMM_WORLD) != MPI_SUCCESS ||
            agreed[0] != 1) {
        return false;
    }
    if (agreed[1] != -agreed[2]) {
        if (made.log.rank == 0) {
            log_error(&made.log,
                    "MPI's collectives stay as they are: TUTTI_MPI_MIN_BYTES is %lld "
                    "on one "
                    "rank and %lld on another; set it alike",
                    (long long)agreed[1], (long long)-agreed[2]);
        }
        return false;
    }
    return true;
}

int preload_begin(void)
{
    made.log.level = TUTTI_LOG_WARN;
    made.log.rank = -1;
    if (!is_built_for()) {
        log_error(&made.log,
                "libtutti_mpi.so was built for " TUTTI_MPI_NAME
                ", which is not the MPI of this program");
        return MPI_ERR_OTHER;
    }
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &made.log.rank);
    made.active = agree();
    return MPI_SUCCESS;
}
