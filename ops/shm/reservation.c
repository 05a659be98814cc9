/*
 * Sparse shared memory without a name.
 */
#include "ops/shm/reservation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

/* Of all reservations that a process maps: well within 47 bits. */
#define MAPPED_BYTES_MAX ((size_t)1 << 45)
#define HUGE_PAGE ((size_t)2 << 20)

size_t reservation_size(int ranks)
{
    const size_t pages = (size_t)sysconf(_SC_PHYS_PAGES);
    const size_t ram = pages * (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = size_min(ram, MAPPED_BYTES_MAX / (size_t)ranks);
    struct rlimit limit;

    /* Sizing a file beyond its limit would raise SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0) {
        bytes = size_min(bytes, limit.rlim_cur);
    }
    /* Address space is also for the application: half of what may be had is for this. */
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        bytes = size_min(bytes, limit.rlim_cur / 2 / (size_t)ranks);
    }
    return bytes & ~(HUGE_PAGE - 1);
}

static int posix_open(void)
{
    char name[40];
    uint64_t random = 0;
    int fd;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        return -1;
    }
    (void)snprintf(name, sizeof name, "/tutti-%016llx", (unsigned long long)random);
    fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd >= 0) {
        (void)shm_unlink(name);
    }
    return fd;
}

static bool is_sealed(int fd)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
    const int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & wanted) == wanted;
}

static tutti_status map(struct reservation *reservation)
{
    void *base = mmap(NULL, reservation->bytes, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_NORESERVE, reservation->fd, 0);

    if (base == MAP_FAILED) {
        return error_set_errno(TUTTI_ERR_SYSTEM,
                "cannot map %zu MiB of shared memory (see ulimit -v)",
                reservation->bytes >> 20);
    }
    /* A child must not write what its parent's peers read. */
    (void)madvise(base, reservation->bytes, MADV_DONTFORK);
    reservation->base = base;
    return TUTTI_OK;
}

tutti_status reservation_create(
        struct reservation *made, size_t bytes, enum reservation_kind kind)
{
    struct reservation reservation = { .kind = kind, .fd = -1, .bytes = bytes };
    tutti_status status;

    reservation.fd = kind == RESERVATION_MEMFD
            ? memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING)
            : posix_open();
    if (reservation.fd < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "%s",
                kind == RESERVATION_MEMFD ? "memfd_create" : "shm_open");
    }
    if (ftruncate(reservation.fd, (off_t)bytes) != 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM,
                "cannot reserve %zu MiB of shared memory", bytes >> 20);
        goto err_close;
    }
    if (kind == RESERVATION_MEMFD &&
            fcntl(reservation.fd, F_ADD_SEALS,
                    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "cannot seal shared memory");
        goto err_close;
    }
    status = map(&reservation);
    if (status != TUTTI_OK) {
        goto err_close;
    }
    *made = reservation;
    return TUTTI_OK;

err_close:
    (void)close(reservation.fd);
    return status;
}

tutti_status reservation_map(
        struct reservation *mapped, int fd, size_t bytes, enum reservation_kind kind)
{
    struct reservation reservation = { .kind = kind, .fd = fd, .bytes = bytes };
    struct stat facts;
    tutti_status status;

    if (fstat(fd, &facts) != 0 || facts.st_size < 0 || (size_t)facts.st_size != bytes ||
            (kind == RESERVATION_MEMFD && !is_sealed(fd))) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "what a peer passed is no sealed memory of %zu MiB", bytes >> 20);
    }
    status = map(&reservation);
    if (status == TUTTI_OK) {
        reservation.fd = -1;
        *mapped = reservation;
    }
    return status;
}

bool reservation_commit(
        const struct reservation *reservation, size_t offset, size_t bytes)
{
    int result;

    do {
        result = fallocate(reservation->fd, 0, (off_t)offset, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

size_t reservation_left(const struct reservation *reservation)
{
    struct statvfs facts;

    return reservation->kind == RESERVATION_POSIX &&
                    fstatvfs(reservation->fd, &facts) == 0 && facts.f_blocks > 0
            ? (size_t)facts.f_bavail * facts.f_frsize
            : SIZE_MAX;
}

const char *reservation_lack(const struct reservation *reservation)
{
    return errno == ENOMEM ? "the host, or a memory cgroup, has no more memory"
            : reservation->kind == RESERVATION_POSIX
            ? "/dev/shm is full"
            : "what this rank may share is full (see ulimit -v and ulimit -f)";
}

void reservation_discard(
        const struct reservation *reservation, size_t offset, size_t bytes)
{
    (void)fallocate(reservation->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            (off_t)offset, (off_t)bytes);
}

void reservation_unmap(struct reservation *reservation)
{
    if (reservation->base == NULL) {
        return;
    }
    (void)munmap(reservation->base, reservation->bytes);
    if (reservation->fd >= 0) {
        (void)close(reservation->fd);
    }
    *reservation = (struct reservation){ .fd = -1 };
}
