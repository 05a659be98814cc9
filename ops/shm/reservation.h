/*
 * A piece of address space that the processes of a node share: reserved generously,
 * backed by memory only where it was committed, and gone with its last process, because
 * it has no name.
 *
 * It is a memfd sealed against resizing, so that no process can take pages from under
 * another. Where the kernel has none it is POSIX shared memory whose name is removed at
 * once; that is limited by the size of /dev/shm, and nothing seals it.
 */
#ifndef TUTTI_OPS_SHM_RESERVATION_H
#define TUTTI_OPS_SHM_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

enum reservation_kind {
    RESERVATION_MEMFD,
    RESERVATION_POSIX
};

/** Zeroed is valid for reservation_unmap(). */
struct reservation {
    enum reservation_kind kind;
    int fd; /* owned; -1 in who has only mapped it */
    void *base; /* NULL: not mapped */
    size_t bytes;
};

/** What to reserve at most: the size of RAM, or what limits leave to each of them, also 0. */
size_t reservation_size(int ranks);

/**
 * Makes and maps one of zeroed pages, none of them committed.
 * @return TUTTI_OK, or TUTTI_ERR_SYSTEM
 */
tutti_status reservation_create(
        struct reservation *made, size_t bytes, enum reservation_kind kind);

/**
 * Maps the one behind a descriptor, which stays the caller's. Refuses one that is not of
 * this size or that another process could shrink.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM, TUTTI_ERR_PROTOCOL
 */
tutti_status reservation_map(
        struct reservation *mapped, int fd, size_t bytes, enum reservation_kind kind);

/**
 * Backs a range with memory, so that touching it cannot fail; whole pages.
 * @return false, with errno ENOSPC or ENOMEM, where there is none
 */
bool reservation_commit(
        const struct reservation *reservation, size_t offset, size_t bytes);
/** Bytes that may still be committed, by all that share /dev/shm; SIZE_MAX: no such limit. */
size_t reservation_left(const struct reservation *reservation);
/** What is full, in words, where errno says that a commitment failed. */
const char *reservation_lack(const struct reservation *reservation);
/** Gives the memory of a range back; it reads as zero then. */
void reservation_discard(
        const struct reservation *reservation, size_t offset, size_t bytes);

/** Forgets it; the memory lives as long as another process has it mapped. */
void reservation_unmap(struct reservation *reservation);

#endif
