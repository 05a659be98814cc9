/*
 * The functions that an allreduce enters, for script/lint road: built with a library whose functions
 * call back on entry and exit (-finstrument-functions of GCC). Writes those of one allreduce of a
 * known tensor on rank 0, a line each: how deep the call is, and the address in the library. Of many
 * allreduces that one is taken which enters the fewest different functions: not one that had to
 * wait for a rank without a core, and looked after it.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
    size_t functions; /* different ones */
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

static UNSEEN int by_address(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const struct call *)a)->function;
    const uintptr_t y = (uintptr_t)((const struct call *)b)->function;

    return (x > y) - (x < y);
}

static UNSEEN size_t count_functions(const struct road *road)
{
    static struct call sorted[CALLS_MAX];
    size_t functions = 0;

    memcpy(sorted, road->calls, road->count * sizeof *sorted);
    qsort(sorted, road->count, sizeof *sorted, by_address);
    for (size_t i = 0; i < road->count; i++) {
        functions += i == 0 || sorted[i].function != sorted[i - 1].function;
    }
    return functions;
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
    if (noted) {
        taken.functions = count_functions(&taken);
        if (shortest.count == 0 || taken.functions < shortest.functions) {
            shortest = taken;
        }
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
