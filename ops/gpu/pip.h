/*
 * NCCL as Python's package nvidia-nccl brings it, which no loader's path has.
 */
#ifndef TUTTI_OPS_GPU_PIP_H
#define TUTTI_OPS_GPU_PIP_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Looks for nvidia/nccl/lib/LIBRARY in the site-packages of PYTHONPATH, of the virtual or conda
 * environment, of the user and of the system, in this order, and beside this library.
 * @param library  a name without a path
 * @param[out] path  of the first that is there
 */
bool pip_find_nccl(const char *library, char *path, size_t capacity);

#endif
