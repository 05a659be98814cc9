/*
 * Which ranks there are, and how they exchange bytes before they have a transport: what
 * an MPI, tuttirun's session, torchrun's store, PMI or the caller (tutti_init_oob) gives.
 */
#ifndef TUTTI_BOOT_BOOT_H
#define TUTTI_BOOT_BOOT_H

#include <stddef.h>

#include <tutti/tutti.h>

struct boot {
    const char *name; /* "oob", "session", "torchrun", "pmi2", "pmix" */
    int rank;
    int size;
    /*
     * all[r * bytes ..] is what rank r gave. Collective; blocks; an error when a rank is
     * gone or does not come within some minutes.
     */
    tutti_status (*allgather)(void *user, const void *mine, void *all, size_t bytes);
    void (*close)(void *user); /* NULL: nothing is to be closed */
    void *user;
};

#endif
