/*
 * Which GPUs the ranks of a host see, and in which order, from CUDA_VISIBLE_DEVICES and
 * its like. Pure.
 */
#ifndef TUTTI_LAUNCHER_BIND_VISIBLE_H
#define TUTTI_LAUNCHER_BIND_VISIBLE_H

#include <stddef.h>

#include <tutti/tutti.h>

#include "launcher/bind/host_gpus.h"

enum {
    VISIBLE_NAME_MAX = 96 /* bytes of an entry with its zero */
};

/** One device of the program: a GPU, or a part of one (MIG). */
struct visible_device {
    int gpu; /* index in struct gpus; -1: it is not known where it is     */
    char name
            [VISIBLE_NAME_MAX]; /* what the variable calls it: "3", "GPU-...", "MIG-..." */
};

struct visible {
    const char *variable; /* that narrows the list further: "CUDA_VISIBLE_DEVICES" */
    size_t count;
    struct visible_device items[GPUS_MAX]; /* in the program's order */
};

/**
 * The devices that a program with this environment would see.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a variable names a device that is not there, or
 *         twice, or more than GPUS_MAX; the error says which)
 */
TUTTI_MUST_USE tutti_status visible_read(
        struct visible *visible, const struct gpus *gpus, char *const *environment);

#endif
