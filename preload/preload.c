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
#include "preload/datatypes.h"
#include "preload/stats.h"
#include "preload/team.h"

struct preload preload_state;

static pthread_once_t real_once = PTHREAD_ONCE_INIT;

static void find_real(void)
{
    preload_state.is_found = real_find(&preload_state.real);
}

const struct preload *preload_get(void)
{
    if (!preload_state.is_found) {
        (void)pthread_once(&real_once, find_real);
    }
    return &preload_state;
}

/** All is MPI's. */
static void limits_close(void)
{
    for (int call = 0; call < CALL_COUNT; call++) {
        preload_state.limits[call].least = SIZE_MAX;
    }
}

static void limits_fill(size_t min_bytes)
{
#define PRELOAD_CALL_LIMITS(symbol, name, two_ranks, more_ranks) \
    preload_state.limits[symbol] = \
            (struct preload_limits){ .two = (two_ranks), .more = (more_ranks) };
    PRELOAD_CALL_MAP(PRELOAD_CALL_LIMITS)
#undef PRELOAD_CALL_LIMITS
    for (int call = 0; call < CALL_COUNT; call++) {
        struct preload_limits *limits = &preload_state.limits[call];

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
    preload_state.active = false;
    limits_close();
    team_close_all();
    if (preload_state.counts && preload_state.log.rank == 0) {
        stats_print();
    }
    (void)PMPI_Comm_free(&preload_state.progress);
    cpu_load_fini(&preload_state.load);
    config_fini(&preload_state.config);
    return MPI_SUCCESS;
}

/** What this rank needs for itself. @return false: it has said why */
static bool prepare(void)
{
    char warnings[ERROR_TEXT_MAX] = "";

    if (config_init(&preload_state.config) != TUTTI_OK ||
            config_from_environment(&preload_state.config, warnings, sizeof warnings) !=
                    TUTTI_OK) {
        log_error(&preload_state.log, "MPI's collectives stay as they are: %s",
                error_last());
        return false;
    }
    preload_state.log.level = (tutti_log_level)preload_state.config.log_level;
    preload_state.counts = preload_state.config.mpi_stats;
    cpu_load_init(&preload_state.load);
    limits_fill(preload_state.config.mpi_min_bytes);
    return PMPI_Comm_dup(MPI_COMM_SELF, &preload_state.progress) == MPI_SUCCESS &&
            PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, team_delete,
                    &preload_state.team_key, NULL) == MPI_SUCCESS &&
            PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &preload_state.end_key,
                    NULL) == MPI_SUCCESS &&
            PMPI_Comm_set_attr(MPI_COMM_SELF, preload_state.end_key, NULL) ==
            MPI_SUCCESS;
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
    agreed[1] = (int64_t)preload_state.config.mpi_min_bytes;
    agreed[2] = -agreed[1];
    if (preload_state.real.allreduce(MPI_IN_PLACE, agreed, 3, MPI_INT64_T, MPI_MIN,
                MPI_COMM_WORLD) != MPI_SUCCESS ||
            agreed[0] != 1) {
        return false;
    }
    if (agreed[1] != -agreed[2]) {
        if (preload_state.log.rank == 0) {
            log_error(&preload_state.log,
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
    preload_state.log.level = TUTTI_LOG_WARN;
    preload_state.log.rank = -1;
    if (!is_built_for()) {
        log_error(&preload_state.log,
                "libtutti_mpi.so was built for " TUTTI_MPI_NAME
                ", which is not the MPI of this program");
        return MPI_ERR_OTHER;
    }
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &preload_state.log.rank);
    datatype_begin();
    preload_state.active = agree();
    if (!preload_state.active) {
        limits_close();
    }
    return MPI_SUCCESS;
}
