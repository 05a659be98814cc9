/*
 * The doorbell between threads and between processes. A lost ring shows as a hang,
 * which the test's time limit ends.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/doorbell.h"
#include "test/unit/unit.h"

enum {
    ROUNDS = 20000,
    RINGERS = 4
};

/* Two threads that hand a number to and fro; or many that add to it. */
struct game {
    struct doorbell bells[2];
    _Atomic int turn;
};

UNIT_TEST(test_a_ring_before_sleeping_is_not_slept_through)
{
    struct doorbell bell = { .rings = 0 };
    uint32_t seen = doorbell_listen(&bell);

    doorbell_ring(&bell);
    doorbell_sleep(&bell, seen, INT64_MAX);

    assert_int_equal(doorbell_listen(&bell), seen + 1);
    assert_int_equal(atomic_load(&bell.sleepers), 0);
}

UNIT_TEST(test_sleep_ends_at_its_timeout)
{
    struct doorbell bell = { .rings = 0 };
    int64_t start = clock_ns();

    doorbell_sleep(&bell, doorbell_listen(&bell), 2000000);
    assert_true(clock_ns() - start >= 1000000);

    doorbell_sleep(&bell, doorbell_listen(&bell), 0);
    doorbell_sleep(&bell, doorbell_listen(&bell), -5);
    assert_int_equal(doorbell_listen(&bell), 0);
}

static void wait_for_turn(struct game *game, int bell, int turn)
{
    for (;;) {
        uint32_t seen = doorbell_listen(&game->bells[bell]);

        if (atomic_load_explicit(&game->turn, memory_order_relaxed) >= turn) {
            return;
        }
        doorbell_sleep(&game->bells[bell], seen, INT64_MAX);
    }
}

static void *sleep_until_turn(void *user)
{
    wait_for_turn(user, 0, 1);
    return NULL;
}

UNIT_TEST(test_a_ring_wakes_all_sleepers)
{
    struct game game = { .turn = 0 };
    pthread_t threads[3];
    int i;

    for (i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_until_turn, &game), 0);
    }
    while (atomic_load(&game.bells[0].sleepers) < 3) {
        (void)sched_yield();
    }
    atomic_store_explicit(&game.turn, 1, memory_order_relaxed);
    doorbell_ring(&game.bells[0]);

    for (i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* Plays the odd turns. */
static void *play_odd(void *user)
{
    struct game *game = user;
    int turn;

    for (turn = 1; turn < ROUNDS; turn += 2) {
        wait_for_turn(game, 1, turn);
        atomic_store_explicit(&game->turn, turn + 1, memory_order_relaxed);
        doorbell_ring(&game->bells[0]);
    }
    return NULL;
}

/* Plays the even turns. */
static void play_even(struct game *game)
{
    int turn;

    for (turn = 0; turn < ROUNDS; turn += 2) {
        wait_for_turn(game, 0, turn);
        atomic_store_explicit(&game->turn, turn + 1, memory_order_relaxed);
        doorbell_ring(&game->bells[1]);
    }
    wait_for_turn(game, 0, ROUNDS);
}

UNIT_TEST(test_no_ring_is_lost_between_threads)
{
    struct game game = { .turn = 0 };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, play_odd, &game), 0);
    play_even(&game);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&game.turn), ROUNDS);
}

UNIT_TEST(test_no_ring_is_lost_between_processes)
{
    struct game *game = mmap(NULL, sizeof *game, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    pid_t child;

    assert_true(game != MAP_FAILED);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)play_odd(game);
        _exit(0);
    }
    play_even(game);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&game->turn), ROUNDS);
    assert_int_equal(munmap(game, sizeof *game), 0);
}

static void *ring_often(void *user)
{
    struct game *game = user;
    int i;

    for (i = 0; i < ROUNDS; i++) {
        atomic_fetch_add_explicit(&game->turn, 1, memory_order_relaxed);
        doorbell_ring(&game->bells[0]);
    }
    return NULL;
}

UNIT_TEST(test_the_last_of_many_rings_is_heard)
{
    struct game game = { .turn = 0 };
    pthread_t threads[RINGERS];
    int i;

    for (i = 0; i < RINGERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ring_often, &game), 0);
    }
    wait_for_turn(&game, 0, RINGERS * ROUNDS);
    for (i = 0; i < RINGERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&game.bells[0].rings), RINGERS * ROUNDS);
}
