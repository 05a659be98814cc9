/*
 * The hash map: linear probing in a power of two of slots.
 *
 * A value lies in the first free slot at or after its home, hash modulo capacity. Hence
 * no free slot lies between a value and its home, and a search may end at the first
 * free slot. Removal keeps that true without tombstones: it walks on to the next free slot
 * and moves back every value that the gap would cut off from its home.
 */
#include "base/map.h"

#include <string.h>

#include "base/mem.h"

enum {
    MAP_CAPACITY_MIN = 16
};

void map_fini(struct map *map)
{
    mem_free(map->slots);
    *map = (struct map){ .slots = NULL };
}

void *map_find(const struct map *map, uint64_t hash, map_equal equal, const void *key)
{
    size_t mask = map->capacity - 1;
    size_t i;

    if (map->count == 0) {
        return NULL;
    }
    for (i = hash & mask; map->slots[i].value != NULL; i = (i + 1) & mask) {
        if (map->slots[i].hash == hash && equal(map->slots[i].value, key)) {
            return map->slots[i].value;
        }
    }
    return NULL;
}

static void slots_put(
        struct map_slot *slots, size_t capacity, uint64_t hash, void *value)
{
    size_t mask = capacity - 1;
    size_t i = hash & mask;

    while (slots[i].value != NULL) {
        i = (i + 1) & mask;
    }
    slots[i] = (struct map_slot){ .hash = hash, .value = value };
}

static bool map_grow(struct map *map)
{
    size_t capacity = map->capacity == 0 ? MAP_CAPACITY_MIN : map->capacity * 2;
    struct map_slot *slots = mem_calloc(capacity, sizeof *slots);
    size_t i;

    if (slots == NULL) {
        return false;
    }
    for (i = 0; i < map->capacity; i++) {
        if (map->slots[i].value != NULL) {
            slots_put(slots, capacity, map->slots[i].hash, map->slots[i].value);
        }
    }
    mem_free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return true;
}

bool map_insert(struct map *map, uint64_t hash, void *value)
{
    if ((map->count + 1) * 3 > map->capacity * 2 && !map_grow(map)) {
        return false;
    }
    slots_put(map->slots, map->capacity, hash, value);
    map->count++;
    return true;
}

/* Makes slot `gap` free and closes the row of values behind it. */
static void slots_close_gap(struct map_slot *slots, size_t mask, size_t gap)
{
    size_t i, home;

    for (i = (gap + 1) & mask; slots[i].value != NULL; i = (i + 1) & mask) {
        home = slots[i].hash & mask;
        /* May move when the gap is no nearer to slot i than the value's home is. */
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            slots[gap] = slots[i];
            gap = i;
        }
    }
    slots[gap].value = NULL;
}

bool map_remove(struct map *map, uint64_t hash, const void *value)
{
    size_t mask = map->capacity - 1;
    size_t i;

    if (map->count == 0) {
        return false;
    }
    for (i = hash & mask; map->slots[i].value != NULL; i = (i + 1) & mask) {
        if (map->slots[i].value == value) {
            slots_close_gap(map->slots, mask, i);
            map->count--;
            return true;
        }
    }
    return false;
}

void *map_next(const struct map *map, size_t *position)
{
    while (*position < map->capacity) {
        void *value = map->slots[*position].value;

        (*position)++;
        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}

/* Spreads every input bit over the word: two rounds of shift and odd multiplication. */
static uint64_t hash_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    return x;
}

uint64_t hash_u64(uint64_t seed, uint64_t value)
{
    return hash_mix(hash_mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ value);
}

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len)
{
    const uint8_t *next = bytes;
    uint64_t hash = hash_u64(seed, len);
    uint64_t word;

    for (; len >= sizeof word; len -= sizeof word, next += sizeof word) {
        memcpy(&word, next, sizeof word);
        hash = hash_mix(hash ^ word);
    }
    if (len > 0) {
        word = 0;
        memcpy(&word, next, len);
        hash = hash_mix(hash ^ word);
    }
    return hash;
}
