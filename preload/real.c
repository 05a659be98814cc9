/*
 * The MPI library's own functions.
 */
#include "preload/real.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/** A function, and its place in the struct. */
struct place {
    const char *name;
    size_t offset;
};

static const struct place places[] = {
    { .name = "PMPI_Allgather", .offset = offsetof(struct real, allgather) },
    { .name = "PMPI_Allgatherv", .offset = offsetof(struct real, allgatherv) },
    { .name = "PMPI_Allreduce", .offset = offsetof(struct real, allreduce) },
    { .name = "PMPI_Alltoall", .offset = offsetof(struct real, alltoall) },
    { .name = "PMPI_Bcast", .offset = offsetof(struct real, bcast) },
    { .name = "PMPI_Init", .offset = offsetof(struct real, init) },
    { .name = "PMPI_Init_thread", .offset = offsetof(struct real, init_thread) },
    { .name = "PMPI_Reduce", .offset = offsetof(struct real, reduce) },
    { .name = "PMPI_Reduce_scatter", .offset = offsetof(struct real, reduce_scatter) },
    { .name = "PMPI_Reduce_scatter_block",
            .offset = offsetof(struct real, reduce_scatter_block) },
};

bool real_find(struct real *real)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        void *function = dlsym(RTLD_NEXT, places[i].name);

        if (function == NULL) {
            return false;
        }
        /* C casts no object pointer to a function pointer; POSIX equates them. */
        memcpy((char *)real + places[i].offset, &function, sizeof function);
    }
    return true;
}
