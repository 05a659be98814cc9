/*
 * The data plane between ranks that can address each other's memory: each rank reduces a
 * share of everybody's tensors where they lie and writes it where it is wanted, or copies
 * what comes to it. Memory that the others cannot address is staged in pieces that stay in
 * the cache.
 *
 * A domain holds the control words of the ranks. There are two forms: the ranks of one
 * process (tutti_init_local()) address all of each other's memory; processes of a node
 * address each other's reservations.
 */
#ifndef TUTTI_OPS_SHM_SHM_H
#define TUTTI_OPS_SHM_SHM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ops/op.h"
#include "ops/shm/reservation.h"

struct doorbell;

/** The ranks of a process or of a node, and their segments. Opaque. */
struct shm_domain;

/**
 * Makes a domain for the world ranks 0 to ranks - 1, all in this process.
 * @return NULL when out of memory
 */
struct shm_domain *shm_domain_create(int ranks);
/**
 * As shm_domain_create(), but each rank has a reservation, and other memory is treated as
 * if it were in another process: for tests.
 */
struct shm_domain *shm_domain_create_apart(int ranks);
/** Releases it, after every rank has closed the backend; NULL is allowed. */
void shm_domain_destroy(struct shm_domain *domain);

/* ------------------------------------------------------- between processes */

/** What a rank must show and know to be let in. */
struct shm_card {
    uint8_t nonce[16]; /* in the first bytes of its reservation */
    uint64_t bytes; /* of its reservation */
    uint32_t kind; /* enum reservation_kind */
};

/**
 * Makes a domain in which only the calling rank is, with a reservation of its own.
 * @param sharers  ranks that will share it, this one counted
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY (or limits, or /dev/shm), TUTTI_ERR_SYSTEM
 */
tutti_status shm_domain_open(struct shm_domain **opened, int ranks, int me, int sharers,
        size_t bytes, enum reservation_kind kind);
struct shm_card shm_domain_card(const struct shm_domain *domain, int me);
/** The descriptor of the own reservation, to be passed to the others. */
int shm_domain_fd(const struct shm_domain *domain, int me);
/**
 * Lets another rank in.
 * @param fd   of its reservation; stays the caller's
 * @param pid  of its process as seen here; 0: not known, so its death is not noticed
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM, TUTTI_ERR_PROTOCOL (not what the card says)
 */
tutti_status shm_domain_admit(struct shm_domain *domain, int rank, int fd, pid_t pid,
        const struct shm_card *card);

/** A doorbell of a rank; NULL: it is on another node. */
struct doorbell *shm_domain_bell(const struct shm_domain *domain, int rank);

/** Zeroed memory of a rank's reservation, or NULL as arena_alloc(). Any thread. */
void *shm_domain_alloc(struct shm_domain *domain, int rank, size_t bytes);
/** Frees it, or what mem_alloc_aligned() gave; NULL is allowed. Any thread. */
void shm_domain_free(struct shm_domain *domain, int rank, void *memory);

/**
 * Makes memory of the application memory of a rank's reservation in place, with its
 * contents: see tutti_share(). Between ranks of one process it does nothing.
 */
tutti_status shm_domain_share(
        struct shm_domain *domain, int rank, void *memory, size_t bytes);
/** Makes it the application's own again. Destroying the domain does so, too. */
tutti_status shm_domain_unshare(
        struct shm_domain *domain, int rank, const void *memory);

/**
 * The backend; op_env.native is the domain, the same on all ranks. Reads and writes the
 * memory of other ranks: their inputs and outputs must not overlap, except that the
 * input and the output of one rank may be the same.
 */
extern const struct op_backend op_shm;

#endif
