/*
 * The data plane between ranks that can address each other's memory: each rank reduces a
 * share of everybody's tensors where they lie and writes it where it is wanted, or copies
 * what comes to it.
 *
 * This is the form within one process, for tutti_init_local(): a domain owns the control
 * words of all its ranks.
 */
#ifndef TUTTI_OPS_SHM_SHM_H
#define TUTTI_OPS_SHM_SHM_H

#include "ops/op.h"

/** The ranks of a process and their segments. Opaque. */
struct shm_domain;

/**
 * Makes a domain for the world ranks 0 to ranks - 1.
 * @return NULL when out of memory
 */
struct shm_domain *shm_domain_create(int ranks);
/** Releases it, after every rank has closed the backend; NULL is allowed. */
void shm_domain_destroy(struct shm_domain *domain);

/**
 * The backend; op_env.native is the domain, the same on all ranks. Reads and writes the
 * memory of other ranks: their inputs and outputs must not overlap, except that the
 * input and the output of one rank may be the same.
 */
extern const struct op_backend op_shm;

#endif
