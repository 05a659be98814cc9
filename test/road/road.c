/*
 * The functions that an allreduce enters, for script/lint road: built with a library whose functions
 * call back on entry and exit (-finstrument-functions of GCC). Writes those of the shortest of many
 * allreduces of a known tensor on rank 0, a line each: how deep the call is, and the address in the
 * library.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

enum {
    COUNT = 1024,
    KNOWN = 100, /* by then the tensor has a number */
    ROUNDS = 200,
    CALLS_MAX = 100000
};

#define UNSEEN __attribute__((no_instrument_function))

struct call {
    int depth;
    void *function;
};

/** The calls of one allreduce by the thread that submits it. */
struct road {
    struct call calls[CALLS_MAX];
    size_t count;
};

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

static struct road taken, shortest;
static _Thread_local bool is_on;
static _Thread_local int depth;

UNSEEN void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    if (is_on && taken.count < CALLS_MAX) {
        taken.calls[taken.count++] = (struct call){ depth, function };
    }
    depth++;
}

UNSEEN void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
    depth--;
}

static UNSEEN bool sum(tutti *t, bool noted)
{
    float values[COUNT] = { 1 };
    tutti_status status;

    MPI_Barrier(MPI_COMM_WORLD);
    taken.count = 0;
    is_on = noted;
    status = tutti_allreduce(
            t, "x", values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL);
    is_on = false;
    if (noted && (shortest.count == 0 || taken.count < shortest.count)) {
        shortest = taken;
    }
    return status == TUTTI_OK && values[0] == (float)tutti_size(t);
}

static UNSEEN void print_shortest(void)
{
    for (size_t i = 0; i < shortest.count; i++) {
        Dl_info library;

        if (dladdr(shortest.calls[i].function, &library) != 0 &&
                strstr(library.dli_fname, "libtutti") != NULL) {
            (void)printf("%d %#tx\n", shortest.calls[i].depth,
                    (char *)shortest.calls[i].function - (char *)library.dli_fbase);
        }
    }
}

UNSEEN int main(void)
{
    tutti *t = NULL;
    bool well = tutti_init(&t, NULL) == TUTTI_OK;

    for (int i = 0; i < ROUNDS && well; i++) {
        well = sum(t, i >= KNOWN);
    }
    if (!well) {
        (void)fprintf(stderr, "road: %s\n", tutti_last_error());
        return 1;
    }
    if (tutti_rank(t) == 0) {
        print_shortest();
    }
    return tutti_finalize(t) == TUTTI_OK ? 0 : 1;
}
