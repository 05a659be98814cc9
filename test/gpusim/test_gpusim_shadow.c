/*
 * The map of accesses alone, against one that keeps every byte by itself.
 */
#include <stdio.h>
#include <stdlib.h>

#include "test/gpusim/gpu.h"
#include "test/gpusim/state.h"

enum {
    BYTES = 200,
    ACTORS = 3,
    STEPS = 4000,
    TENSORS = 10000
};

/* Of every byte: the time of each actor's last read, and who wrote last. */
struct byte {
    uint64_t reads[ACTORS];
    uint32_t writer;
    uint64_t written;
};

static bool byte_conflicts(
        const struct byte *byte, bool writes, uint32_t actor, const struct clock *clock)
{
    if (byte->written > clock_time(clock, byte->writer)) {
        return true;
    }
    for (uint32_t i = 0; writes && i < ACTORS; i++) {
        if (i != actor && byte->reads[i] > clock_time(clock, i)) {
            return true;
        }
    }
    return false;
}

static bool naive_touch(struct byte *bytes, const struct gpusim_range *range,
        bool writes, uint32_t actor, const struct clock *clock)
{
    bool found = false;

    for (uint64_t i = range->start; i < range->start + range->bytes; i++) {
        found = byte_conflicts(&bytes[i], writes, actor, clock) || found;
        if (writes) {
            bytes[i] = (struct byte){
                .writer = actor,
                .written = clock_time(clock, actor),
            };
        } else {
            bytes[i].reads[actor] = clock_time(clock, actor);
        }
    }
    return found;
}

UNIT_TEST(test_random_accesses_agree_with_a_byte_map)
{
    struct clock clocks[ACTORS] = { { .times = NULL } };
    struct byte bytes[BYTES] = { { .written = 0 } };
    struct shadow shadow = { .root = NULL };
    long conflicts = 0;
    uint32_t seed = 1;

    for (int step = 0; step < STEPS; step++) {
        uint64_t draw = gpusim_seeded(seed, (uint64_t)step);
        uint32_t actor = (uint32_t)(draw % ACTORS);
        bool writes = (draw >> 8) % 3 == 0, expected, found;
        struct gpusim_range range = { .start = (draw >> 16) % BYTES };
        struct access access = { .label = "op", .who = "actor", .actor = actor };
        struct conflict conflict;

        range.bytes = 1 + (draw >> 32) % (BYTES - range.start);
        if ((draw >> 24) % 4 != 0) {
            clock_join(
                    &clocks[actor], &clocks[(actor + 1 + (draw >> 48) % 2) % ACTORS]);
        }
        clock_tick(&clocks[actor], actor);
        access.time = clock_time(&clocks[actor], actor);
        expected = naive_touch(bytes, &range, writes, actor, &clocks[actor]);
        found = shadow_touch(
                &shadow, &range, writes, &access, &clocks[actor], &conflict);
        assert_int_equal(found, expected);
        conflicts += found ? 1 : 0;
    }
    assert_in_range(conflicts, STEPS / 20, STEPS - STEPS / 20);
    shadow_fini(&shadow);
    for (int i = 0; i < ACTORS; i++) {
        clock_fini(&clocks[i]);
    }
}

/* However a buffer was cut, touching all of it leaves one span. */
UNIT_TEST(test_neighbours_are_merged)
{
    struct clock clock = { .times = NULL };
    struct shadow shadow = { .root = NULL };
    struct access access = { .label = "op", .who = "actor" };
    struct conflict conflict;
    struct gpusim_range all = { .start = 4096, .bytes = 64L * TENSORS };

    for (int round = 0; round < 3; round++) {
        clock_tick(&clock, 0);
        access.time = clock_time(&clock, 0);
        for (uint64_t i = 0; i < TENSORS; i++) {
            /* 7919 is coprime to the count: every tensor once, in a wild order */
            struct gpusim_range range = { .start = 4096 + 64 * (7919 * i % TENSORS),
                .bytes = 64 };

            assert_false(shadow_touch(
                    &shadow, &range, round != 1, &access, &clock, &conflict));
        }
        assert_int_equal(shadow_spans(&shadow), 1);
    }
    clock_tick(&clock, 0);
    access.time = clock_time(&clock, 0);
    all.bytes = 64;
    assert_false(shadow_touch(&shadow, &all, true, &access, &clock, &conflict));
    assert_int_equal(shadow_spans(&shadow), 2);
    all.bytes = 64L * TENSORS;
    assert_false(shadow_touch(&shadow, &all, true, &access, &clock, &conflict));
    assert_int_equal(shadow_spans(&shadow), 1);
    shadow_fini(&shadow);
    clock_fini(&clock);
}

UNIT_TEST(test_actors_are_used_again_later)
{
    uint64_t time = 7;
    uint32_t first = actor_take(&time), others = 0, actor;

    assert_int_equal(time, 0);
    actor_give_back(first, 41);
    while ((actor = actor_take(&time)) != first) {
        assert_int_equal(time, 0);
        actor_give_back(actor, 1);
        others++;
    }
    assert_int_equal(time, 41);
    assert_int_equal(others, 64);
}

UNIT_TEST(test_equal_texts_are_one)
{
    assert_ptr_equal(intern("text"), intern("text"));
    assert_ptr_not_equal(intern("text"), intern("texts"));
}
