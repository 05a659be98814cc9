/*
 * Imaginary machines like real ones, as hwloc's XML, made here: recordings of real ones
 * have licences of their own, and some leave out the cores.
 */
#ifndef TUTTI_TEST_LAUNCHER_BIND_MACHINES_H
#define TUTTI_TEST_LAUNCHER_BIND_MACHINES_H

#include <stdbool.h>
#include <stdio.h>

enum {
    MACHINE_GPUS_MAX = 16
};

/** A machine of equal packages, each of which is a NUMA node. */
struct machine_model {
    int packages;
    int cores, threads; /* per package, per core */
    int package_step, core_step, thread_step; /* thread t of core c of package p is cpu
                                                 p, c and t times these, added */
    bool has_gpu_memory; /* each package has a second node, of memory without cpus */
    bool has_locality; /* GPUs are in packages, evenly in order; else in the machine */
    const char *gpu; /* class, vendor and device of GPUs: "0302 [10de:2335]" */
    int gpus;
    char buses[MACHINE_GPUS_MAX][16];
};

/** The name of machine i; NULL: there are no more. */
const char *machine_name(size_t i);
/** Finds the machine of a name. */
bool machine_find(struct machine_model *model, const char *name);
/** Writes hwloc's XML of it. */
void machine_write(const struct machine_model *model, FILE *file);

#endif
