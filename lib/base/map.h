/*
 * A hash map from 64-bit hashes to pointers, open addressing with linear probing. The
 * caller hashes and compares; deletion leaves no tombstones. Not thread-safe.
 */
#ifndef TUTTI_BASE_MAP_H
#define TUTTI_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
    uint64_t hash; /* valid when value is not NULL */
    void *value; /* NULL: empty */
};

/** Zeroed is valid and empty. */
struct map {
    struct map_slot *slots; /* owned; a power of two of them */
    size_t capacity; /* 0 or a power of two */
    size_t count; /* values present, at most 2/3 full */
};

/** True when value is the one that key describes. */
typedef bool (*map_equal)(const void *value, const void *key);

void map_fini(struct map *map);
/** The value, or NULL. */
void *map_find(const struct map *map, uint64_t hash, map_equal equal, const void *key);
/** Adds a value that is not there yet; false when out of memory, map unchanged. */
bool map_insert(struct map *map, uint64_t hash, void *value);
/** Removes this very pointer; false when it is not there. */
bool map_remove(struct map *map, uint64_t hash, const void *value);
/**
 * Walks all values: start with *position = 0; NULL at the end. The map must not change
 * during the walk.
 */
void *map_next(const struct map *map, size_t *position);

/** Hash of bytes; good enough for tables, not against attackers. */
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len);
/** Mixes one number into a hash. */
uint64_t hash_u64(uint64_t seed, uint64_t value);

#endif
