/*
 * Facts about this machine, from hwloc: caches, cores, identity.
 */
#ifndef TUTTI_TOPO_MACHINE_H
#define TUTTI_TOPO_MACHINE_H

#include <stddef.h>

#include <tutti/tutti.h>

#include "base/shared.h"

enum {
    MACHINE_CACHE_TEXT_MAX = 32,
    MACHINE_CPU_TEXT_MAX = 96
};

struct machine {
    int cores; /* cores (not hyper-threads) this process may use, at least 1 */
    size_t l2_bytes; /* private cache of one core; 1 MiB when unknown */
    size_t l3_bytes; /* largest shared cache within the allowed set; 0: none */
    /* Text equal for processes bound within one last-level cache of this machine, or
       within one package where no such cache is known; "": bound to no single one. */
    char cache[MACHINE_CACHE_TEXT_MAX];
    char cpu[MACHINE_CPU_TEXT_MAX]; /* the model of the processor; "": unknown */
};

/** Reads the topology. @return TUTTI_OK, TUTTI_ERR_SYSTEM (hwloc failed) */
tutti_status machine_read(struct machine *machine);

/**
 * Text equal for processes of one machine (and network namespace's host name): boot id
 * and host name. @param[out] text at least 128 bytes
 */
void machine_identity(char *text, size_t capacity) TUTTI_SHARED(machine_identity);

#endif
