/*
 * Making pages of the application those of the arena, and back. Both ways one mremap() moves
 * memory from elsewhere over the application's addresses: what can fail, fails before that.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mappings.h"
#include "base/mem.h"
#include "ops/shm/alias.h"

/*
 * Moves pages over an address. Not by the libc's mremap(): UCX, which MPICH may load, puts one in
 * its place that does not know the new address, and the pages end up anywhere.
 */
static bool move_pages(void *from, size_t bytes, const struct alias *alias)
{
    return syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                   alias->first) != -1;
}

/* ------------------------------------------------------------ what is mapped */

/** A look at the pages that are to be shared. */
struct survey {
    uintptr_t reached, end; /* all up to there are good; up to where they should be */
    const char *fault; /* NULL: none so far */
    struct mapping at; /* where it is */
};

static const char *fault_of(const struct mapping *mapping)
{
    if (strncmp(mapping->name, "[stack", 6) == 0) {
        return "a stack";
    }
    if (mapping->access[3] != 'p') {
        return "shared with others already";
    }
    if (strstr(mapping->name, "hugepage") != NULL) {
        return "huge pages of hugetlbfs";
    }
    if (mapping->inode != 0) {
        return "a mapped file";
    }
    if (strncmp(mapping->access, "rw-", 3) != 0) {
        return "protected (mprotect): not readable and writable, or executable";
    }
    return mapping->name[0] == '\0' || strcmp(mapping->name, "[heap]") == 0 ||
                    strncmp(mapping->name, "[anon:", 6) == 0
            ? NULL
            : "the system's own";
}

static bool survey_mapping(void *user, const struct mapping *mapping)
{
    struct survey *survey = user;

    if (mapping->begin > survey->reached) {
        return false;
    }
    survey->fault = fault_of(mapping);
    survey->at = *mapping;
    if (survey->fault == NULL) {
        survey->reached = mapping->end;
    }
    return survey->fault == NULL && survey->reached < survey->end;
}

/** True for the stack of this thread, which has no name in threads but the first. */
static bool is_own_stack(uintptr_t begin, uintptr_t end)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    return here >= begin && here < end;
}

tutti_status alias_check_pages(const struct alias *alias)
{
    struct survey survey = { .reached = alias->first, .end = alias->last };

    if (alias->first == alias->last) {
        return TUTTI_OK;
    }
    if (is_own_stack(alias->first, alias->last)) {
        return error_set(TUTTI_ERR_INVALID, "it is a stack, which cannot be shared");
    }
    if (!mappings_visit(alias->first, alias->last, survey_mapping, &survey)) {
        return error_set_errno(TUTTI_ERR_SYSTEM,
                "what the memory is cannot be known, because /proc/self/maps cannot be "
                "read");
    }
    if (survey.fault != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "from %p on it is %s (%s %s); only private memory as that of malloc() "
                "can be shared",
                (void *)alias_pointer(survey.reached), survey.fault, survey.at.access,
                survey.at.name);
    }
    return survey.reached >= survey.end
            ? TUTTI_OK
            : error_set(TUTTI_ERR_INVALID, "nothing is mapped at %p",
                      (void *)alias_pointer(survey.reached));
}

/** Pages of an alias that are still those of its block. */
struct holding {
    const struct alias *alias;
    uint64_t offset; /* of the first whole page in the reservation */
    struct stat file; /* the reservation's */
    size_t bytes; /* found so far */
};

static bool hold_mapping(void *user, const struct mapping *mapping)
{
    struct holding *holding = user;
    const struct alias *alias = holding->alias;
    const uintptr_t begin =
            mapping->begin > alias->first ? mapping->begin : alias->first;
    const uintptr_t end = mapping->end < alias->last ? mapping->end : alias->last;

    if (mapping->inode == holding->file.st_ino &&
            mapping->device == holding->file.st_dev &&
            mapping->offset + (begin - mapping->begin) ==
                    holding->offset + (begin - alias->first)) {
        holding->bytes += end - begin;
    }
    return true;
}

/*
 * The application may have unmapped or moved some of an alias by mistake, by free() for
 * example, and others may have mapped memory there since. So nothing is mapped over
 * addresses at which the block is not: what is left of it stays, and is never used again.
 */
static tutti_status check_held(const struct aliases *aliases, const struct alias *alias)
{
    struct holding holding = { .alias = alias,
        .offset = alias->offset + (alias->first - alias->begin) };
    const size_t bytes = alias->last - alias->first;

    if (bytes == 0) {
        return TUTTI_OK;
    }
    if (fstat(aliases->arena->reservation->fd, &holding.file) != 0 ||
            !mappings_visit(alias->first, alias->last, hold_mapping, &holding)) {
        return error_set_errno(TUTTI_ERR_SYSTEM,
                "what is mapped there cannot be known, because /proc/self/maps cannot "
                "be read");
    }
    if (holding.bytes < bytes) {
        return error_set(TUTTI_ERR_INVALID,
                "%zu of its bytes were unmapped or moved while they were shared "
                "(free(), realloc(), munmap()); the others stay as they are",
                bytes - holding.bytes);
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------- moving */

tutti_status alias_no_memory(size_t bytes)
{
    return error_set(TUTTI_ERR_NO_MEMORY,
            "no memory for a copy of %zu bytes while they are moved; the host and its "
            "memory cgroups have %llu MiB left for all ranks here",
            bytes, (unsigned long long)(memory_room("").left >> 20));
}

tutti_status alias_map_pages(const struct aliases *aliases, const struct alias *alias)
{
    const struct reservation *reservation = aliases->arena->reservation;
    const size_t bytes = alias->last - alias->first;
    char *pages = alias_in_block(aliases, alias, alias->first);
    void *mapped;

    if (bytes == 0) {
        return TUTTI_OK;
    }
    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_NORESERVE | MAP_POPULATE, reservation->fd,
            (off_t)(pages - (char *)reservation->base));

    if (mapped == MAP_FAILED) {
        return error_set_errno(TUTTI_ERR_NO_MEMORY, "mmap of %zu bytes", bytes);
    }
    /* As the reservation: a child must not write what its parent's peers read. */
    (void)madvise(mapped, bytes, MADV_DONTFORK);
    mem_copy(pages, alias_pointer(alias->first), bytes);
    if (!move_pages(mapped, bytes, alias)) {
        const tutti_status status =
                error_set_errno(TUTTI_ERR_NO_MEMORY, "mremap of %zu bytes", bytes);

        (void)munmap(mapped, bytes);
        return status;
    }
    return TUTTI_OK;
}

/*
 * Makes the pages fresh memory. It is moved there before it is touched: only then does the system
 * give it the place of its new address, and join it with what lies beside it there, so that a
 * range that was shared leaves no mappings. So it must not join anything where it comes from:
 * there it lies between two pages of the reservation.
 */
static bool replace_pages(const struct aliases *aliases, const struct alias *alias)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = alias->last - alias->first;
    char *around = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_SHARED | MAP_NORESERVE,
            aliases->arena->reservation->fd, 0);
    char *fresh;
    bool moved;

    if (around == MAP_FAILED) {
        return false;
    }
    fresh = mmap(around + page, bytes, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    moved = fresh != MAP_FAILED && move_pages(fresh, bytes, alias);
    if (!moved) {
        (void)munmap(around + page, bytes);
    }
    (void)munmap(around, page);
    (void)munmap(around + page + bytes, page);
    return moved;
}

tutti_status alias_unmap_pages(const struct aliases *aliases, const struct alias *alias)
{
    const size_t bytes = alias->last - alias->first;
    const tutti_status status = check_held(aliases, alias);

    if (status != TUTTI_OK || bytes == 0) {
        return status;
    }
    if (!headroom_take(&aliases->arena->headroom, bytes) ||
            !replace_pages(aliases, alias)) {
        return alias_no_memory(bytes);
    }
    mem_copy(alias_pointer(alias->first), alias_in_block(aliases, alias, alias->first),
            bytes);
    return TUTTI_OK;
}
