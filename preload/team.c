/*
 * The teams of a process, and which communicator has which.
 */
#include "preload/team.h"

#include <pthread.h>

#include "base/mem.h"

/* Communicators are made and freed by any thread. */
static pthread_mutex_t teams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct team *teams; /* all; guarded by teams_lock */

static void list_add(struct team *team)
{
    (void)pthread_mutex_lock(&teams_lock);
    team->next = teams;
    if (teams != NULL) {
        teams->previous = team;
    }
    teams = team;
    (void)pthread_mutex_unlock(&teams_lock);
}

static void list_remove(struct team *team)
{
    (void)pthread_mutex_lock(&teams_lock);
    if (team->previous != NULL) {
        team->previous->next = team->next;
    } else {
        teams = team->next;
    }
    if (team->next != NULL) {
        team->next->previous = team->previous;
    }
    (void)pthread_mutex_unlock(&teams_lock);
}

/* Which ranks' memory is shared is known of those that began together: settings are theirs. */
static bool is_of_the_world(MPI_Comm comm, int ranks)
{
    int here[TEAM_RANKS_MAX];
    int there[TEAM_RANKS_MAX];
    MPI_Group group;
    MPI_Group world;
    bool is_part = true;

    for (int i = 0; i < ranks; i++) {
        here[i] = i;
        there[i] = MPI_UNDEFINED;
    }
    (void)PMPI_Comm_group(comm, &group);
    (void)PMPI_Comm_group(MPI_COMM_WORLD, &world);
    (void)PMPI_Group_translate_ranks(group, ranks, here, world, there);
    (void)PMPI_Group_free(&group);
    (void)PMPI_Group_free(&world);
    for (int i = 0; i < ranks; i++) {
        is_part = is_part && there[i] != MPI_UNDEFINED;
    }
    return is_part;
}

/* Known without a message, and alike on all ranks. */
static bool may_be_usable(MPI_Comm comm, int ranks)
{
    int is_inter = 1;

    (void)PMPI_Comm_test_inter(comm, &is_inter);
    return is_inter == 0 && ranks > 1 && ranks <= TEAM_RANKS_MAX &&
            is_of_the_world(comm, ranks);
}

/* What a communicator has that cannot be used, so that it is not tried again. */
static struct team unusable;

static struct team *team_make(const struct preload *preload, MPI_Comm comm, int ranks)
{
    struct team *team = &unusable;

    if (may_be_usable(comm, ranks)) {
        struct team *made = mem_calloc(1, sizeof *made);

        if (team_open(made, preload, comm, ranks)) {
            list_add(made);
            team = made;
        } else {
            mem_free(made);
        }
    }
    (void)PMPI_Comm_set_attr(comm, preload->team_key, team);
    return team;
}

int team_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    struct team *team = value;

    (void)comm;
    (void)key;
    (void)extra;
    if (team != &unusable) {
        list_remove(team);
        team_close(team);
        mem_free(team);
    }
    return MPI_SUCCESS;
}

void team_close_all(void)
{
    (void)pthread_mutex_lock(&teams_lock);
    for (struct team *team = teams; team != NULL; team = team->next) {
        team_close(team);
    }
    (void)pthread_mutex_unlock(&teams_lock);
}

struct team *team_for(const struct preload *preload, MPI_Comm comm,
        const struct preload_limits *limits, size_t bytes)
{
    struct team *team = NULL;
    int is_there = 0;
    int ranks = 0;

    if (comm == MPI_COMM_NULL ||
            PMPI_Comm_get_attr(comm, preload->team_key, &team, &is_there) !=
                    MPI_SUCCESS) {
        return NULL;
    }
    if (is_there != 0) {
        ranks = team->ranks;
    } else if (PMPI_Comm_size(comm, &ranks) != MPI_SUCCESS) {
        return NULL;
    }
    if (bytes < (ranks > 2 ? limits->more : limits->two)) {
        return NULL;
    }
    if (is_there == 0) {
        team = team_make(preload, comm, ranks);
    }
    return team->usable ? team : NULL;
}
