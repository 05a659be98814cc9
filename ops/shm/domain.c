/*
 * The segments of the ranks of one process, or of the processes of a node.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/shm/segment.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_task.h"

/* Where the arena begins: behind the segment, where a huge page can. */
#define ARENA_OFFSET \
    ((sizeof(struct shm_segment) + ((size_t)2 << 20) - 1) & ~(((size_t)2 << 20) - 1))
/* A reservation below that is not worth it: little of what is allocated would be shared. */
#define RESERVATION_BYTES_MIN (ARENA_OFFSET + ((size_t)30 << 20))
/* Of /dev/shm for each rank: kept for control words and staging, which cannot lie elsewhere. */
#define POSIX_BYTES_MIN ((size_t)16 << 20)
/* The reservation of a rank that shares it with nobody. */
#define APART_BYTES (ARENA_OFFSET + ((size_t)256 << 20))

/* ------------------------------------------------------------ one process */

/*
 * A zeroed segment of which only the touched pages exist: no reservation of swap, and no
 * huge pages, of which a single control word would take a whole one.
 */
static struct shm_segment *segment_map(void)
{
    void *memory = mmap(NULL, sizeof(struct shm_segment), PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(memory, sizeof(struct shm_segment), MADV_NOHUGEPAGE);
    return memory;
}

static void row_free(struct shm_slot *row)
{
    for (int slot = 0; slot < OP_INFLIGHT_MAX; slot++) {
        mem_free(row[slot].table);
        mem_free(row[slot].block);
    }
}

/* A segment that lies in no reservation: its slots own memory of the heap. */
static void segment_unmap(struct shm_segment *segment)
{
    for (int bank = 0; bank < OP_BANKS; bank++) {
        const uint32_t rows =
                atomic_load_explicit(&segment->rows[bank], memory_order_relaxed);

        for (uint32_t row = 0; row < rows; row++) {
            row_free(segment->slots[bank][row]);
        }
    }
    (void)munmap(segment, sizeof *segment);
}

static struct shm_domain *domain_new(int ranks)
{
    struct shm_domain *domain = mem_calloc(1, sizeof *domain);

    if (domain == NULL) {
        return NULL;
    }
    domain->ranks = ranks;
    domain->rank = mem_calloc((size_t)ranks, sizeof *domain->rank);
    if (domain->rank == NULL) {
        mem_free(domain);
        return NULL;
    }
    for (int i = 0; i < ranks; i++) {
        domain->rank[i].pidfd = -1;
    }
    return domain;
}

struct shm_domain *shm_domain_create(int ranks)
{
    struct shm_domain *domain = domain_new(ranks);

    for (int i = 0; domain != NULL && i < ranks; i++) {
        domain->rank[i].segment = segment_map();
        domain->rank[i].bytes = UINT64_MAX;
        if (domain->rank[i].segment == NULL) {
            shm_domain_destroy(domain);
            return NULL;
        }
    }
    return domain;
}

/* ------------------------------------------------------------ reservations */

/** Makes the reservation of a rank of this process, with its arena behind the segment. */
static tutti_status rank_reserve(
        struct shm_rank *rank, size_t bytes, enum reservation_kind kind, int sharers)
{
    struct arena *arena = mem_calloc(1, sizeof *arena);
    tutti_status status;

    if (arena == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an arena");
    }
    status = reservation_create(&rank->reservation, bytes, kind);
    if (status != TUTTI_OK) {
        goto err_free;
    }
    if (reservation_left(&rank->reservation) < (size_t)sharers * POSIX_BYTES_MIN) {
        status = error_set(TUTTI_ERR_NO_MEMORY,
                "/dev/shm has %zu MiB left, and %d ranks need %zu each",
                reservation_left(&rank->reservation) >> 20, sharers,
                POSIX_BYTES_MIN >> 20);
        goto err_unmap;
    }
    if (!reservation_commit(&rank->reservation, 0,
                offsetof(struct shm_segment, slots[0][SHM_ROWS_IN_PAGE]))) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for control words: %s",
                reservation_lack(&rank->reservation));
        goto err_unmap;
    }
    if (!arena_init(arena, &rank->reservation, ARENA_OFFSET, sharers)) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for an arena");
        goto err_unmap;
    }
    (void)madvise(rank->reservation.base, ARENA_OFFSET, MADV_NOHUGEPAGE);
    rank->arena = arena;
    aliases_init(&rank->aliases, arena);
    rank->segment = rank->reservation.base;
    rank->base = (uintptr_t)rank->reservation.base;
    rank->bytes = bytes;
    atomic_store_explicit(
            &rank->segment->rows[0], SHM_ROWS_IN_PAGE, memory_order_release);
    return TUTTI_OK;

err_unmap:
    reservation_unmap(&rank->reservation);
err_free:
    mem_free(arena);
    return status;
}

struct shm_domain *shm_domain_create_apart(int ranks)
{
    struct shm_domain *domain = domain_new(ranks);

    for (int i = 0; domain != NULL && i < ranks; i++) {
        if (rank_reserve(&domain->rank[i], APART_BYTES, RESERVATION_MEMFD, ranks) !=
                TUTTI_OK) {
            shm_domain_destroy(domain);
            return NULL;
        }
    }
    return domain;
}

static void rank_release(struct shm_rank *rank)
{
    if (rank->arena != NULL) {
        aliases_fini(&rank->aliases);
        arena_fini(rank->arena);
        mem_free(rank->arena);
    }
    if (rank->pidfd >= 0) {
        (void)close(rank->pidfd);
    }
    if (rank->reservation.base != NULL) {
        reservation_unmap(&rank->reservation);
    } else if (rank->segment != NULL) {
        segment_unmap(rank->segment);
    }
}

void shm_domain_destroy(struct shm_domain *domain)
{
    if (domain == NULL) {
        return;
    }
    for (int i = 0; i < domain->ranks; i++) {
        rank_release(&domain->rank[i]);
    }
    mem_free(domain->rank);
    mem_free(domain);
}

/* --------------------------------------------------------------- processes */

tutti_status shm_domain_open(struct shm_domain **opened, int ranks, int me, int sharers,
        size_t bytes, enum reservation_kind kind)
{
    struct shm_domain *domain;
    struct shm_segment *segment;
    tutti_status status;

    if (bytes < RESERVATION_BYTES_MIN) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "each of %d ranks may reserve %zu MiB of shared memory, and needs %zu "
                "(see ulimit -v and ulimit -f)",
                sharers, bytes >> 20, RESERVATION_BYTES_MIN >> 20);
    }
    domain = domain_new(ranks);
    if (domain == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", ranks);
    }
    domain->sharers = sharers;
    status = rank_reserve(&domain->rank[me], bytes, kind, sharers);
    if (status != TUTTI_OK) {
        shm_domain_destroy(domain);
        return status;
    }
    segment = domain->rank[me].segment;
    if (getrandom(segment->nonce, sizeof segment->nonce, 0) !=
            (ssize_t)sizeof segment->nonce) {
        shm_domain_destroy(domain);
        return error_set_errno(TUTTI_ERR_SYSTEM, "getrandom");
    }
    *opened = domain;
    return TUTTI_OK;
}

struct shm_card shm_domain_card(const struct shm_domain *domain, int me)
{
    const struct shm_rank *mine = &domain->rank[me];
    struct shm_card card = { .bytes = mine->reservation.bytes,
        .kind = (uint32_t)mine->reservation.kind };

    memcpy(card.nonce, mine->segment->nonce, sizeof card.nonce);
    return card;
}

struct doorbell *shm_domain_bell(const struct shm_domain *domain, int rank)
{
    struct shm_segment *segment = domain->rank[rank].segment;

    return segment == NULL ? NULL : &segment->bell;
}

int shm_domain_fd(const struct shm_domain *domain, int me)
{
    return domain->rank[me].reservation.fd;
}

tutti_status shm_domain_admit(struct shm_domain *domain, int rank, int fd, pid_t pid,
        const struct shm_card *card)
{
    struct shm_rank *peer = &domain->rank[rank];
    struct reservation reservation = { .fd = -1 };
    const struct shm_segment *segment;
    tutti_status status;

    status = reservation_map(
            &reservation, fd, card->bytes, (enum reservation_kind)card->kind);
    if (status != TUTTI_OK) {
        return status;
    }
    segment = reservation.base;
    if (memcmp(segment->nonce, card->nonce, sizeof card->nonce) != 0) {
        reservation_unmap(&reservation);
        return error_set(TUTTI_ERR_PROTOCOL,
                "the memory that rank %d passed is not its own", rank);
    }
    peer->reservation = reservation;
    peer->segment = reservation.base;
    peer->base = (uintptr_t)reservation.base;
    peer->bytes = reservation.bytes;
    peer->pid = pid;
    if (pid > 0) {
        peer->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    }
    return TUTTI_OK;
}

bool shm_rank_has_died(const struct shm_rank *rank)
{
    struct pollfd ended = { .fd = rank->pidfd, .events = POLLIN };

    if (rank->pid <= 0 || rank->segment == NULL) {
        return false;
    }
    if (rank->pidfd >= 0 ? poll(&ended, 1, 0) != 1
                         : kill(rank->pid, 0) == 0 || errno != ESRCH) {
        return false;
    }
    /* Pairs with the store in shm_close(); the process ended after all its stores. */
    return atomic_load_explicit(&rank->segment->closed, memory_order_acquire) == 0;
}

/* ------------------------------------------------------------------ memory */

void *shm_alloc(const struct shm_rank *mine, size_t bytes)
{
    return mine->arena != NULL ? arena_alloc(mine->arena, bytes)
                               : mem_alloc_aligned(bytes);
}

void shm_free(const struct shm_rank *mine, void *memory)
{
    if (mine->arena == NULL || !arena_free(mine->arena, memory)) {
        mem_free(memory);
    }
}

tutti_status shm_no_memory(const struct shm_rank *mine, const char *what, size_t bytes)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no shared memory for %zu bytes of %s: %s",
            bytes, what, reservation_lack(&mine->reservation));
}

void *shm_domain_alloc(struct shm_domain *domain, int rank, size_t bytes)
{
    const struct shm_rank *mine = &domain->rank[rank];
    const size_t left = reservation_left(&mine->reservation);
    const size_t kept = (size_t)domain->sharers * POSIX_BYTES_MIN;

    if (left == SIZE_MAX || (left > kept && bytes < left - kept)) {
        return shm_alloc(mine, bytes);
    }
    errno = headroom_take(&mine->arena->headroom, bytes) ? ENOSPC : errno;
    return NULL;
}

void shm_domain_free(struct shm_domain *domain, int rank, void *memory)
{
    shm_free(&domain->rank[rank], memory);
}

tutti_status shm_domain_share(
        struct shm_domain *domain, int rank, void *memory, size_t bytes)
{
    return aliases_add(&domain->rank[rank].aliases, memory, bytes);
}

tutti_status shm_domain_unshare(struct shm_domain *domain, int rank, const void *memory)
{
    return aliases_remove(&domain->rank[rank].aliases, memory);
}
