/*
 * Reservations and the arena in them: what is given out is zeroed, aligned, apart from all
 * else and backed by memory; what cannot be backed is refused; what is freed can be given
 * out again, as a whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "ops/shm/arena.h"
#include "test/unit/unit.h"

#define MIB ((size_t)1 << 20)
#define SPACE (64 * MIB)
/* The arena begins behind something else. */
#define FIRST (2 * MIB)

struct place {
    struct reservation reservation;
    struct arena arena;
};

static void place_open(struct place *place, enum reservation_kind kind)
{
    ASSERT_OK(reservation_create(&place->reservation, SPACE, kind));
    assert_true(arena_init(&place->arena, &place->reservation, FIRST, 1));
}

static void place_close(struct place *place)
{
    arena_fini(&place->arena);
    reservation_unmap(&place->reservation);
}

static size_t backed_bytes(const struct place *place)
{
    struct stat facts;

    assert_int_equal(fstat(place->reservation.fd, &facts), 0);
    return (size_t)facts.st_blocks * 512;
}

static bool is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

UNIT_TEST(test_memory_is_zeroed_aligned_and_apart)
{
    enum {
        BLOCKS = 200,
        TURNS = 2000
    };
    unsigned char *blocks[BLOCKS] = { NULL };
    size_t sizes[BLOCKS] = { 0 };
    uint32_t random = 1;
    struct place place;

    place_open(&place, RESERVATION_MEMFD);
    for (int turn = 0; turn < TURNS; turn++) {
        size_t i;

        random = random * 1664525 + 1013904223;
        i = random >> 8 & 0xff;
        if (i >= BLOCKS) {
            continue;
        }
        for (size_t at = 0; at < sizes[i]; at++) {
            assert_int_equal(blocks[i][at], i + 1);
        }
        arena_free(&place.arena, blocks[i]);
        sizes[i] = (random >> 16) % (turn % 50 == 0 ? 300000 : 5000);
        blocks[i] = arena_alloc(&place.arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        assert_true(is_zero(blocks[i], sizes[i]));
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    assert_true(is_zero(place.reservation.base, FIRST));
    place_close(&place);
}

UNIT_TEST(test_only_what_was_given_out_is_backed)
{
    struct place place;
    void *memory;

    place_open(&place, RESERVATION_MEMFD);
    assert_int_equal(backed_bytes(&place), 0);
    memory = arena_alloc(&place.arena, 10 * MIB);
    assert_non_null(memory);
    assert_in_range(backed_bytes(&place), 10 * MIB, 11 * MIB);
    arena_free(&place.arena, memory);
    place_close(&place);
}

UNIT_TEST(test_much_that_is_freed_goes_back_to_the_system)
{
    struct place place = { .reservation = { .fd = -1 } };
    void *memory;

    ASSERT_OK(reservation_create(&place.reservation, 1024 * MIB, RESERVATION_MEMFD));
    assert_true(arena_init(&place.arena, &place.reservation, 0, 1));
    memory = arena_alloc(&place.arena, 300 * MIB);
    assert_non_null(memory);
    arena_free(&place.arena, memory);
    assert_int_equal(backed_bytes(&place), 0);
    memory = arena_alloc(&place.arena, 3 * MIB);
    assert_non_null(memory);
    assert_true(is_zero(memory, 3 * MIB));
    place_close(&place);
}

UNIT_TEST(test_a_full_arena_refuses_and_recovers)
{
    void *blocks[62] = { NULL };
    struct place place;

    place_open(&place, RESERVATION_MEMFD);
    assert_null(arena_alloc(&place.arena, SPACE - FIRST + 1));
    assert_null(arena_alloc(&place.arena, SIZE_MAX));
    for (int i = 0; i < 62; i++) {
        blocks[i] = arena_alloc(&place.arena, MIB);
        assert_non_null(blocks[i]);
    }
    assert_null(arena_alloc(&place.arena, 1));
    for (int i = 0; i < 62; i += 2) {
        arena_free(&place.arena, blocks[i]);
    }
    assert_null(arena_alloc(&place.arena, 2 * MIB));
    for (int i = 1; i < 62; i += 2) {
        arena_free(&place.arena, blocks[i]);
    }
    assert_non_null(arena_alloc(&place.arena, SPACE - FIRST));
    place_close(&place);
}

UNIT_TEST(test_memory_that_cannot_be_backed_is_refused)
{
    struct place place;
    int fd;

    place_open(&place, RESERVATION_MEMFD);
    fd = place.reservation.fd;
    /* The system refuses, as it does when a cgroup is full. */
    place.reservation.fd = -1;
    assert_null(arena_alloc(&place.arena, MIB));
    place.reservation.fd = fd;
    assert_non_null(arena_alloc(&place.arena, SPACE - FIRST));
    place_close(&place);
}

UNIT_TEST(test_what_was_committed_before_needs_no_descriptor)
{
    struct place place;
    int fd;

    place_open(&place, RESERVATION_MEMFD);
    assert_false(arena_commit(&place.arena, SPACE));
    assert_true(arena_commit(&place.arena, 12 * MIB));
    fd = place.reservation.fd;
    place.reservation.fd = -1;
    for (int i = 0; i < 2; i++) {
        void *first = arena_alloc(&place.arena, 100);
        void *large = arena_alloc(&place.arena, 5 * MIB);

        assert_non_null(first);
        assert_non_null(large); /* begins where a huge page can */
        arena_free(&place.arena, first);
        arena_free(&place.arena, large);
    }
    assert_null(arena_alloc(&place.arena, 13 * MIB));
    place.reservation.fd = fd;
    place_close(&place);
}

UNIT_TEST(test_running_out_of_heap_loses_nothing)
{
    struct place place;

    place_open(&place, RESERVATION_MEMFD);
    for (uint64_t n = 1; n <= 3; n++) {
        mem_fail_at(n);
        arena_free(&place.arena, arena_alloc(&place.arena, 5 * MIB));
    }
    mem_fail_at(0);
    assert_non_null(arena_alloc(&place.arena, SPACE - FIRST));
    place_close(&place);
}

UNIT_TEST(test_another_mapping_sees_the_same_memory)
{
    enum reservation_kind kinds[] = { RESERVATION_MEMFD, RESERVATION_POSIX };

    for (size_t i = 0; i < 2; i++) {
        struct reservation other = { .fd = -1 };
        struct place place;
        char *memory;

        place_open(&place, kinds[i]);
        memory = arena_alloc(&place.arena, 100);
        assert_non_null(memory);
        ASSERT_OK(reservation_map(&other, place.reservation.fd, SPACE, kinds[i]));
        strcpy(memory, "shared");
        assert_string_equal(
                (char *)other.base + (memory - (char *)place.reservation.base),
                "shared");
        reservation_unmap(&other);
        place_close(&place);
    }
}

UNIT_TEST(test_what_a_peer_could_shrink_is_not_mapped)
{
    struct reservation mapped = { .fd = -1 };
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct place place;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)SPACE), 0);
    assert_int_equal(
            reservation_map(&mapped, fd, SPACE, RESERVATION_MEMFD), TUTTI_ERR_PROTOCOL);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(reservation_map(&mapped, fd, SPACE + 4096, RESERVATION_MEMFD),
            TUTTI_ERR_PROTOCOL);
    assert_null(mapped.base);
    assert_int_equal(close(fd), 0);

    place_open(&place, RESERVATION_MEMFD);
    assert_int_equal(ftruncate(place.reservation.fd, 0), -1);
    assert_int_equal(errno, EPERM);
    place_close(&place);
}

UNIT_TEST(test_a_child_does_not_inherit_it)
{
    struct place place;
    int status = 0;
    pid_t child;

    place_open(&place, RESERVATION_MEMFD);
    child = fork();
    if (child == 0) {
        unsigned char present;

        /* Not mapped there. */
        _exit(mincore(place.reservation.base, 4096, &present) == -1 && errno == ENOMEM
                        ? 0
                        : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    place_close(&place);
}
