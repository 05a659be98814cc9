/*
 * A host's kept memory.
 */
#include "elastic/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "error.h"
#include "state/crc32c.h"

enum {
    SHARE_ALIGN = 4096,
    CRC_BYTES = 1 << 18 /* checked and written while they are in the cache */
};

static const uint64_t slot_bytes = UINT64_C(1) << 44;
static const uint64_t data_at =
        (uint64_t)ELASTIC_LOCAL_MAX * sizeof(struct region_share);

static tutti_status region_error(const char *what)
{
    return error_system(what, "the memory for committed state");
}

static off_t slot_at(int slot)
{
    return (off_t)(slot_bytes * ((uint64_t)slot + 1));
}

static off_t share_at(int slot, uint32_t local_rank)
{
    return slot_at(slot) + (off_t)(local_rank * sizeof(struct region_share));
}

static tutti_status read_all(int fd, off_t at, void *bytes, size_t count)
{
    char *to = bytes;

    while (count > 0) {
        const ssize_t done = pread(fd, to, count, at);

        if (done == 0 || (done < 0 && errno != EINTR)) {
            errno = done == 0 ? ENODATA : errno;
            return region_error("read");
        }
        if (done > 0) {
            to += done;
            at += done;
            count -= (size_t)done;
        }
    }
    return TUTTI_OK;
}

static tutti_status write_all(int fd, off_t at, const void *bytes, size_t count)
{
    const char *from = bytes;

    while (count > 0) {
        const ssize_t done = pwrite(fd, from, count, at);

        if (done < 0 && errno != EINTR) {
            return region_error("write");
        }
        if (done > 0) {
            from += done;
            at += done;
            count -= (size_t)done;
        }
    }
    return TUTTI_OK;
}

static tutti_status read_place(struct region *region, const char *text)
{
    char rest;

    /* NOLINTNEXTLINE(cert-err34-c): what is out of range is no descriptor of ours */
    if (sscanf(text, "%d %u %u %u%c", &region->fd, &region->generation,
                &region->local_rank, &region->local_size, &rest) != 4 ||
            region->fd < 0 || region->local_rank >= region->local_size ||
            region->local_size > ELASTIC_LOCAL_MAX) {
        return error_set(TUTTI_ERR_CONFIG, ELASTIC_VARIABLE "=%s: malformed", text);
    }
    region->fd = fcntl(region->fd, F_DUPFD_CLOEXEC, 0);
    return region->fd >= 0 ? TUTTI_OK : region_error("open");
}

tutti_status region_open(struct region *region, const char *text)
{
    struct rlimit limit;
    tutti_status status = TUTTI_OK;

    *region = (struct region){ .fd = -1, .generation = 1, .local_size = 1 };
    /* What is written beyond it would end the process. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        return error_set(TUTTI_ERR_SYSTEM,
                "committed state lies in a long sparse file: set ulimit -f unlimited");
    }
    if (text != NULL) {
        status = read_place(region, text);
    } else {
        region->fd = memfd_create("tutti-state", MFD_CLOEXEC);
        if (region->fd < 0 || ftruncate(region->fd, ELASTIC_CONTROL_BYTES) != 0) {
            status = region_error("make");
        }
    }
    if (status == TUTTI_OK) {
        region->control = mmap(NULL, ELASTIC_CONTROL_BYTES, PROT_READ | PROT_WRITE,
                MAP_SHARED, region->fd, 0);
        if (region->control == MAP_FAILED) {
            region->control = NULL;
            status = region_error("map");
        }
    }
    if (status != TUTTI_OK) {
        region_close(region);
    }
    return status;
}

void region_close(struct region *region)
{
    if (region->control != NULL) {
        (void)munmap(region->control, ELASTIC_CONTROL_BYTES);
        region->control = NULL;
    }
    if (region->fd >= 0) {
        (void)close(region->fd);
        region->fd = -1;
    }
}

/* False for one that was never written. */
static bool read_share(const struct region *region, int slot, uint32_t local_rank,
        struct region_share *share)
{
    return pread(region->fd, share, sizeof *share, share_at(slot, local_rank)) ==
            (ssize_t)sizeof *share &&
            share->number != 0;
}

/* Shares of one commit that lie one behind the other are a commit. */
struct region_commit region_look(const struct region *region, int slot)
{
    static const struct region_commit none = { .number = 0 };
    struct region_commit commit = { .shares = 1 };
    struct region_share share;
    uint64_t at = 0;

    for (uint32_t i = 0; i < commit.shares; i++) {
        if (!read_share(region, slot, i, &share)) {
            return none;
        }
        if (i == 0) {
            commit.number = share.number;
            commit.layout = share.layout;
            commit.total = share.total;
            commit.shares = share.shares;
        }
        if (share.number != commit.number || share.layout != commit.layout ||
                share.total != commit.total || share.shares != commit.shares ||
                share.first != at || commit.shares > ELASTIC_LOCAL_MAX) {
            return none;
        }
        at += share.bytes;
        commit.is_complete |= share.is_complete != 0;
    }
    return at == commit.total ? commit : none;
}

tutti_status region_read(
        const struct region *region, int slot, uint64_t at, void *bytes, size_t count)
{
    return read_all(region->fd, slot_at(slot) + (off_t)(data_at + at), bytes, count);
}

static bool share_is_sound(const struct region *region, int slot, uint32_t local_rank,
        void *buffer, size_t room)
{
    struct region_share share;
    uint32_t crc = 0;

    if (!read_share(region, slot, local_rank, &share)) {
        return false;
    }
    for (uint64_t done = 0; done < share.bytes;) {
        const size_t count =
                share.bytes - done < room ? (size_t)(share.bytes - done) : room;

        if (region_read(region, slot, share.first + done, buffer, count) != TUTTI_OK) {
            return false;
        }
        crc = crc32c(crc, buffer, count);
        done += count;
    }
    return crc == share.crc;
}

bool region_is_sound(const struct region *region, int slot, void *buffer, size_t room)
{
    const struct region_commit commit = region_look(region, slot);

    for (uint32_t i = 0; i < commit.shares; i++) {
        if (!share_is_sound(region, slot, i, buffer, room)) {
            return false;
        }
    }
    return commit.number != 0;
}

struct region_share region_share(const struct region *region, uint64_t total)
{
    const uint64_t pages = total / SHARE_ALIGN;
    const uint64_t rank = region->local_rank;
    const uint64_t first = pages * rank / region->local_size * SHARE_ALIGN;
    const uint64_t end = rank + 1 == region->local_size
            ? total
            : pages * (rank + 1) / region->local_size * SHARE_ALIGN;

    return (struct region_share){
        .total = total,
        .first = first,
        .bytes = end - first,
        .shares = region->local_size,
    };
}

tutti_status region_put(
        const struct region *region, int slot, const struct region_share *share)
{
    return write_all(
            region->fd, share_at(slot, region->local_rank), share, sizeof *share);
}

tutti_status region_write(const struct region *region, int slot,
        struct region_share *share, uint64_t at, const void *bytes, size_t count)
{
    const uint64_t end = at + count < share->first + share->bytes
            ? at + count
            : share->first + share->bytes;
    uint64_t from = at > share->first ? at : share->first;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && from < end) {
        const size_t some = end - from < CRC_BYTES ? (size_t)(end - from) : CRC_BYTES;
        const char *piece = (const char *)bytes + (from - at);

        share->crc = crc32c(share->crc, piece, some);
        status = write_all(
                region->fd, slot_at(slot) + (off_t)(data_at + from), piece, some);
        from += some;
    }
    return status;
}
