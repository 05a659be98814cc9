/*
 * The hash map, against an array that does the same slowly.
 */
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "test/unit/unit.h"

enum {
    ITEMS = 500
};

struct item {
    uint64_t hash;
    int key;
    bool present;
};

static bool item_has_key(const void *value, const void *key)
{
    return ((const struct item *)value)->key == *(const int *)key;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static void assert_map_equals(const struct map *map, const struct item *items)
{
    size_t present = 0;
    size_t walked = 0;
    size_t position = 0;
    int i;

    for (i = 0; i < ITEMS; i++) {
        const void *found = map_find(map, items[i].hash, item_has_key, &items[i].key);

        assert_ptr_equal(found, items[i].present ? &items[i] : NULL);
        present += items[i].present ? 1 : 0;
    }
    while (map_next(map, &position) != NULL) {
        walked++;
    }
    assert_int_equal(map->count, present);
    assert_int_equal(walked, present);
    assert_true(map->count * 3 <= map->capacity * 2);
}

/* Inserts and removes at random; `spread` hashes are different from one another. */
static void exercise(uint64_t spread)
{
    static struct item items[ITEMS];
    struct map map = { .slots = NULL };
    uint64_t seed = spread + 7;
    int i, step;

    for (i = 0; i < ITEMS; i++) {
        items[i] = (struct item){ .hash = next_random(&seed) % spread, .key = i };
    }
    for (step = 0; step < 5000; step++) {
        struct item *item = &items[next_random(&seed) % ITEMS];

        if (item->present) {
            assert_true(map_remove(&map, item->hash, item));
            assert_false(map_remove(&map, item->hash, item));
        } else {
            assert_true(map_insert(&map, item->hash, item));
        }
        item->present = !item->present;
        if (step % 100 == 0) {
            assert_map_equals(&map, items);
        }
    }
    assert_map_equals(&map, items);
    map_fini(&map);
}

UNIT_TEST(test_random_changes_match_the_model)
{
    exercise(UINT64_MAX);
}

UNIT_TEST(test_colliding_hashes_match_the_model)
{
    exercise(1);
    exercise(3);
    exercise(40);
}

UNIT_TEST(test_hashes_depend_on_every_byte_and_the_seed)
{
    char text[] = "abcdefghijklmnopqrstuvw";
    uint64_t hash = hash_bytes(1, text, sizeof text);
    size_t i;

    assert_true(hash == hash_bytes(1, text, sizeof text));
    assert_true(hash != hash_bytes(2, text, sizeof text));
    assert_true(hash != hash_bytes(1, text, sizeof text - 1));
    for (i = 0; i < sizeof text; i++) {
        text[i] ^= 1;
        assert_true(hash != hash_bytes(1, text, sizeof text));
        text[i] ^= 1;
    }
    assert_true(hash_u64(1, 2) != hash_u64(2, 1));
    assert_true(hash_u64(0, 0) != 0);
}

UNIT_TEST(test_hashes_of_small_numbers_fill_the_table_evenly)
{
    int buckets[64] = { 0 };
    uint64_t i;

    for (i = 0; i < 6400; i++) {
        buckets[hash_u64(0, i) % 64]++;
    }
    /* 100 on average, a deviation of 10: five times that is no accident. */
    for (i = 0; i < 64; i++) {
        assert_in_range(buckets[i], 50, 150);
    }
}
