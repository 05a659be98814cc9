/*
 * Memory of the application that becomes memory of the arena in place: contents stay both
 * ways, peers see one piece of memory, what cannot be is refused and changes nothing, and
 * nobody else's memory is mapped over.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mappings.h"
#include "base/mem.h"
#include "ops/shm/alias.h"
#include "test/unit/unit.h"

#define MIB ((size_t)1 << 20)
#define SPACE (64 * MIB)
#define PAGE ((size_t)4096)

struct place {
    struct reservation reservation;
    struct arena arena;
    struct aliases aliases;
    struct reservation peer; /* the same memory, as another process has it */
};

static void place_open(struct place *place)
{
    ASSERT_OK(reservation_create(&place->reservation, SPACE, RESERVATION_MEMFD));
    assert_true(arena_init(&place->arena, &place->reservation, 0, 1));
    aliases_init(&place->aliases, &place->arena);
    ASSERT_OK(reservation_map(
            &place->peer, place->reservation.fd, SPACE, RESERVATION_MEMFD));
}

static void place_close(struct place *place)
{
    aliases_fini(&place->aliases);
    arena_fini(&place->arena);
    reservation_unmap(&place->reservation);
    reservation_unmap(&place->peer);
}

/* Private memory of whole pages, as malloc() maps it. */
static unsigned char *pages_new(size_t bytes)
{
    unsigned char *pages = mmap(
            NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(pages != MAP_FAILED);
    return pages;
}

static void fill(unsigned char *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        memory[i] = (unsigned char)(i * 7 + i / 251 + seed);
    }
}

static bool is_filled(const unsigned char *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != (unsigned char)(i * 7 + i / 251 + seed)) {
            return false;
        }
    }
    return true;
}

static uint64_t find(struct place *place, const unsigned char *memory, size_t bytes)
{
    return aliases_begin(&place->aliases, memory, bytes, true);
}

static void leave(struct place *place, const unsigned char *memory, size_t bytes)
{
    aliases_end(&place->aliases, memory, bytes);
}

/* Many ranges of all sizes: a peer reads and writes tensors anywhere in them. */
UNIT_TEST(test_tensors_are_one_piece_for_a_peer)
{
    static const size_t sizes[] = { 1, 100, PAGE, PAGE + 1, 3 * PAGE - 1, 5 * PAGE + 17,
        100000, 5 * MIB + 333 };
    struct place place;

    place_open(&place);
    for (size_t i = 0; i < 8 * sizeof sizes / sizeof *sizes; i++) {
        const size_t bytes = sizes[i / 8];
        const size_t skip = i % 4 * bytes / 5;
        const size_t length = bytes - skip - (i % 3) * (bytes - skip) / 4;
        unsigned char *heap = malloc(bytes + 64);
        unsigned char *memory = heap + 8 * (i % 8);
        unsigned char *tensor = memory + skip;
        uint64_t offset;

        assert_non_null(heap);
        fill(memory, bytes, (unsigned)i);
        ASSERT_OK(aliases_add(&place.aliases, memory, bytes));
        assert_true(is_filled(memory, bytes, (unsigned)i));
        offset = find(&place, tensor, length);
        assert_true(offset < SPACE);
        assert_memory_equal((char *)place.peer.base + offset, tensor, length);
        fill((unsigned char *)place.peer.base + offset, length, 99);
        leave(&place, tensor, length);
        assert_true(is_filled(tensor, length, 99));
        fill(tensor, length, 98);
        ASSERT_OK(aliases_remove(&place.aliases, memory));
        assert_true(is_filled(tensor, length, 98));
        free(heap);
    }
    assert_non_null(arena_alloc(&place.arena, SPACE));
    place_close(&place);
}

UNIT_TEST(test_only_tensors_within_one_range_are_found)
{
    unsigned char *memory = pages_new(8 * PAGE);
    struct place place;

    place_open(&place);
    assert_int_equal(find(&place, memory, 1), UINT64_MAX);
    ASSERT_OK(aliases_add(&place.aliases, memory + 5 * PAGE, 2 * PAGE));
    ASSERT_OK(aliases_add(&place.aliases, memory + 100, 3 * PAGE));
    ASSERT_OK(aliases_add(&place.aliases, memory + 100 + 3 * PAGE, PAGE));
    assert_int_equal(find(&place, memory + 99, 2), UINT64_MAX);
    assert_int_equal(find(&place, memory + 100, 3 * PAGE + 1), UINT64_MAX);
    assert_int_equal(find(&place, memory + 100 + 3 * PAGE, PAGE + 1), UINT64_MAX);
    assert_int_equal(find(&place, memory + 5 * PAGE - 1, 2), UINT64_MAX);
    assert_int_equal(find(&place, memory + 7 * PAGE - 1, 2), UINT64_MAX);
    assert_int_equal(find(&place, memory + 200, 0), UINT64_MAX);
    assert_true(find(&place, memory + 100, 3 * PAGE) < SPACE);
    leave(&place, memory + 100, 3 * PAGE);
    ASSERT_OK(aliases_remove(&place.aliases, memory + 100));
    assert_int_equal(find(&place, memory + 100, 10), UINT64_MAX);
    assert_int_equal(aliases_remove(&place.aliases, memory + 100), TUTTI_ERR_INVALID);
    assert_int_equal(aliases_remove(&place.aliases, memory + 101), TUTTI_ERR_INVALID);
    place_close(&place);
    assert_int_equal(munmap(memory, 8 * PAGE), 0);
}

static bool count_mapping(void *user, const struct mapping *mapping)
{
    (void)mapping;
    ++*(size_t *)user;
    return true;
}

static size_t count_mappings(const unsigned char *memory, size_t bytes)
{
    size_t count = 0;

    assert_true(mappings_visit(
            (uintptr_t)memory, (uintptr_t)memory + bytes, count_mapping, &count));
    return count;
}

/* Pages that were written before and pages that never were, next to each other and apart. */
UNIT_TEST(test_what_was_shared_leaves_no_mappings)
{
    unsigned char *memory = pages_new(64 * PAGE);
    struct place place;
    size_t before;

    place_open(&place);
    memset(memory, 1, 32 * PAGE);
    before = count_mappings(memory, 64 * PAGE);
    for (size_t page = 0; page + 2 < 64; page += page % 3 + 1) {
        ASSERT_OK(aliases_add(&place.aliases, memory + page * PAGE, 2 * PAGE));
        memory[page * PAGE] = (unsigned char)page;
        ASSERT_OK(aliases_remove(&place.aliases, memory + page * PAGE));
        assert_int_equal(memory[page * PAGE], page);
    }
    assert_int_equal(count_mappings(memory, 64 * PAGE), before);
    place_close(&place);
    assert_int_equal(munmap(memory, 64 * PAGE), 0);
}

static void assert_refused(
        struct place *place, void *memory, size_t bytes, const char *why)
{
    assert_int_equal(aliases_add(&place->aliases, memory, bytes), TUTTI_ERR_INVALID);
    if (strstr(tutti_last_error(), why) == NULL) {
        fail_msg("\"%s\" is not in: %s", why, tutti_last_error());
    }
}

UNIT_TEST(test_what_is_not_the_programs_own_is_refused)
{
    unsigned char *pages = pages_new(8 * PAGE);
    FILE *file = tmpfile();
    struct place place;
    void *mapped;

    place_open(&place);
    fill(pages, 8 * PAGE, 1);
    /* not a variable's, which AddressSanitizer may put elsewhere */
    assert_refused(&place, (unsigned char *)__builtin_frame_address(0) - PAGE, 2 * PAGE,
            "stack");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 2 * (off_t)PAGE), 0);
    mapped = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
    assert_refused(&place, mapped, 2 * PAGE, "a mapped file");
    assert_int_equal(munmap(mapped, 2 * PAGE), 0);
    mapped =
            mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_refused(&place, mapped, PAGE, "shared with others");
    assert_int_equal(munmap(mapped, PAGE), 0);
    assert_int_equal(mprotect(pages + 6 * PAGE, PAGE, PROT_READ), 0);
    assert_refused(&place, pages, 8 * PAGE, "mprotect");
    assert_int_equal(munmap(pages + 4 * PAGE, PAGE), 0);
    assert_refused(&place, pages, 6 * PAGE, "nothing is mapped");
    assert_refused(&place, pages + 4 * PAGE, PAGE, "nothing is mapped");
    assert_refused(&place, pages, UINTPTR_MAX, "last address");
    ASSERT_OK(aliases_add(&place.aliases, pages, 2 * PAGE));
    assert_true(is_filled(pages, 4 * PAGE, 1));
    place_close(&place);
    assert_true(is_filled(pages, 4 * PAGE, 1));
    assert_int_equal(munmap(pages, 8 * PAGE), 0);
    assert_int_equal(fclose(file), 0);
}

/* As the kernel writes them; huge pages and names of stacks are seldom there to be tried. */
UNIT_TEST(test_lines_of_mappings_are_understood)
{
    struct mapping mapping;

    assert_true(mapping_parse("7f1200-7f1300 rw-s 00002000 fe:1f 4711   /memfd:tutti "
                              "(deleted)\n",
            &mapping));
    assert_int_equal(mapping.begin, 0x7f1200);
    assert_int_equal(mapping.end, 0x7f1300);
    assert_string_equal(mapping.access, "rw-s");
    assert_int_equal(mapping.offset, 0x2000);
    assert_int_equal(mapping.inode, 4711);
    assert_string_equal(mapping.name, "/memfd:tutti (deleted)");
    assert_true(mapping_parse("1000-2000 rw-p 00000000 00:00 0 \n", &mapping));
    assert_int_equal(mapping.inode, 0);
    assert_string_equal(mapping.name, "");
    assert_false(mapping_parse("1000-2000 rw", &mapping));
    assert_false(mapping_parse("1000-2000 rw-p 00000000 00-00 0", &mapping));
    assert_false(mapping_parse("rubbish", &mapping));
}

UNIT_TEST(test_without_memory_everything_stays)
{
    unsigned char *pages = pages_new(4 * PAGE);
    struct place place;
    int fd;

    place_open(&place);
    fill(pages, 4 * PAGE, 5);
    fd = place.reservation.fd;
    place.reservation.fd = -1; /* the system refuses pages, as when a cgroup is full */
    assert_int_equal(aliases_add(&place.aliases, pages, 4 * PAGE), TUTTI_ERR_NO_MEMORY);
    place.reservation.fd = fd;
    for (uint64_t n = 1; n <= 3; n++) {
        mem_fail_at(n);
        (void)!aliases_add(&place.aliases, pages, 4 * PAGE);
        mem_fail_at(0);
        (void)aliases_remove(&place.aliases, pages);
        assert_true(is_filled(pages, 4 * PAGE, 5));
    }
    assert_int_equal(
            aliases_add(&place.aliases, pages, SIZE_MAX / 4), TUTTI_ERR_INVALID);
    ASSERT_OK(aliases_add(&place.aliases, pages, 4 * PAGE));
    /* No copy can be made: it stays shared. */
    place.arena.headroom.reserve = SIZE_MAX;
    place.arena.headroom.credit = 0;
    assert_int_equal(aliases_remove(&place.aliases, pages), TUTTI_ERR_NO_MEMORY);
    assert_true(find(&place, pages, 4 * PAGE) < SPACE);
    leave(&place, pages, 4 * PAGE);
    place_close(&place);
    assert_true(is_filled(pages, 4 * PAGE, 5));
    assert_int_equal(munmap(pages, 4 * PAGE), 0);
}

/* free() and realloc() of large blocks unmap and move; what comes there is not touched. */
UNIT_TEST(test_what_was_unmapped_is_not_mapped_over)
{
    unsigned char *pages = pages_new(4 * PAGE);
    struct place place;

    place_open(&place);
    ASSERT_OK(aliases_add(&place.aliases, pages, 4 * PAGE));
    fill(pages, 4 * PAGE, 6);
    assert_true(
            mmap(pages + PAGE, PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == pages + PAGE);
    memset(pages + PAGE, 77, PAGE);
    assert_int_equal(aliases_remove(&place.aliases, pages), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "4096 of its bytes"));
    assert_int_equal(aliases_remove(&place.aliases, pages), TUTTI_ERR_INVALID);
    assert_int_equal(pages[PAGE], 77);
    assert_int_equal(pages[2 * PAGE - 1], 77);
    assert_true(is_filled(pages, PAGE, 6));
    /* The block is not given to anybody else. */
    assert_null(arena_alloc(&place.arena, SPACE));
    assert_int_equal(munmap(pages, 4 * PAGE), 0);
    pages = pages_new(4 * PAGE);
    ASSERT_OK(aliases_add(&place.aliases, pages, 4 * PAGE));
    assert_int_equal(munmap(pages, 4 * PAGE), 0);
    place_close(&place);
}

UNIT_TEST(test_a_child_cannot_write_it)
{
    unsigned char *pages = pages_new(4 * PAGE);
    struct place place;
    int status = 0;
    pid_t child;

    place_open(&place);
    ASSERT_OK(aliases_add(&place.aliases, pages + 8, 3 * PAGE));
    child = fork();
    if (child == 0) {
        unsigned char present;

        pages[8] = 1; /* not a whole page: the child's own */
        _exit(mincore(pages + PAGE, PAGE, &present) == -1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(pages[8], 0);
    place_close(&place);
    assert_int_equal(munmap(pages, 4 * PAGE), 0);
}

/* A thread shares and unshares while another finds its tensor in another range. */
static void *look_up(void *argument)
{
    struct place *place = argument;
    unsigned char *pages = pages_new(3 * PAGE);

    ASSERT_OK(aliases_add(&place->aliases, pages + 5, 2 * PAGE));
    for (int i = 0; i < 300; i++) {
        const uint64_t offset = find(place, pages + 5, 2 * PAGE);

        fill((unsigned char *)place->peer.base + offset, 2 * PAGE, (unsigned)i);
        leave(place, pages + 5, 2 * PAGE);
        assert_true(is_filled(pages + 5, 2 * PAGE, (unsigned)i));
    }
    ASSERT_OK(aliases_remove(&place->aliases, pages + 5));
    return pages;
}

UNIT_TEST(test_threads_share_at_the_same_time)
{
    unsigned char *pages = pages_new(40 * PAGE);
    struct place place;
    void *theirs = NULL;
    pthread_t thread;

    place_open(&place);
    assert_int_equal(pthread_create(&thread, NULL, look_up, &place), 0);
    for (unsigned turn = 0; turn < 30; turn++) {
        for (size_t i = 0; i < 10; i++) {
            fill(pages + 4 * i * PAGE, 4 * PAGE, turn);
            ASSERT_OK(aliases_add(&place.aliases, pages + 4 * i * PAGE, 4 * PAGE - i));
        }
        for (size_t i = 0; i < 10; i++) {
            unsigned char *memory = pages + 4 * (i * 7 % 10) * PAGE;

            ASSERT_OK(aliases_remove(&place.aliases, memory));
            assert_true(is_filled(memory, 4 * PAGE, turn));
        }
    }
    assert_int_equal(pthread_join(thread, &theirs), 0);
    place_close(&place);
    assert_int_equal(munmap(pages, 40 * PAGE), 0);
    assert_int_equal(munmap(theirs, 3 * PAGE), 0);
}
