/*
 * Each place is kept once, and ranks are runs of places.
 */
#include "topo/places.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/** A text that is not terminated. */
struct span {
    const char *text;
    size_t len;
};

struct place {
    int number; /* in order of appearance */
    size_t host_len, cache_len;
    char text[]; /* the host, then the cache */
};

/** What places are told apart by. */
struct key {
    struct span host, cache;
};

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the places of ranks");
}

static bool is_place(const void *value, const void *wanted)
{
    const struct place *place = value;
    const struct key *key = wanted;

    return place->host_len == key->host.len && place->cache_len == key->cache.len &&
            memcmp(place->text, key->host.text, key->host.len) == 0 &&
            memcmp(place->text + key->host.len, key->cache.text, key->cache.len) == 0;
}

static struct key key_of(const struct place *place)
{
    return (struct key){ .host = { .text = place->text, .len = place->host_len },
        .cache = { .text = place->text + place->host_len, .len = place->cache_len } };
}

static struct place *place_new(const struct key *key, int number)
{
    struct place *place = mem_alloc(sizeof *place + key->host.len + key->cache.len);

    if (place != NULL) {
        place->number = number;
        place->host_len = key->host.len;
        place->cache_len = key->cache.len;
        memcpy(place->text, key->host.text, key->host.len);
        memcpy(place->text + key->host.len, key->cache.text, key->cache.len);
    }
    return place;
}

/* The number of a place, new or not; -1: no memory. Its ranks are to be added. */
static int find(struct places *places, const struct key *key)
{
    const uint64_t hash = hash_bytes(hash_bytes(0, key->host.text, key->host.len),
            key->cache.text, key->cache.len);
    struct place *place = map_find(&places->by_text, hash, is_place, key);
    const size_t count = places->by_text.count;

    if (place != NULL) {
        return place->number;
    }
    place = mem_grow(
                    &places->list, &places->capacity, count + 1, sizeof(struct place *))
            ? place_new(key, (int)count)
            : NULL;
    if (place == NULL || !map_insert(&places->by_text, hash, place)) {
        mem_free(place);
        return -1;
    }
    places->list[count] = place;
    return place->number;
}

bool places_add(struct places *places, const char *host, const char *cache)
{
    const struct key key = { .host = { .text = host, .len = strlen(host) },
        .cache = { .text = cache, .len = strlen(cache) } };
    const int number = find(places, &key);

    return number >= 0 && nodes_add(&places->ranks, number, 1);
}

void places_fini(struct places *places)
{
    for (size_t p = 0; p < places->by_text.count; p++) {
        mem_free(places->list[p]);
    }
    mem_free(places->list);
    map_fini(&places->by_text);
    nodes_fini(&places->ranks);
    *places = (struct places){ .list = NULL };
}

/* ------------------------------------------------------------------------ the wire */

void places_put(struct wire_writer *out, const struct places *places)
{
    wire_put_varint(out, places->by_text.count);
    for (size_t p = 0; p < places->by_text.count; p++) {
        const struct key key = key_of(places->list[p]);

        wire_put_str(out, key.host.text, key.host.len);
        wire_put_str(out, key.cache.text, key.cache.len);
    }
    nodes_put(out, &places->ranks);
}

/* Enters the places of another rank; numbers[p]: what its place p is here. */
static tutti_status take_list(
        struct places *places, struct wire_reader *in, int *numbers, size_t count)
{
    for (size_t p = 0; p < count; p++) {
        struct key key;

        key.host.text = wire_get_str(in, PLACE_TEXT_MAX, &key.host.len);
        key.cache.text = wire_get_str(in, PLACE_TEXT_MAX, &key.cache.len);
        if (!wire_ok(in)) {
            return error_set(TUTTI_ERR_PROTOCOL, "malformed places of ranks");
        }
        numbers[p] = find(places, &key);
        if (numbers[p] < 0) {
            return no_memory();
        }
    }
    return TUTTI_OK;
}

static tutti_status take_ranks(struct places *places, const struct nodes *more,
        const int *numbers, size_t count)
{
    if ((size_t)more->count != count) {
        return error_set(TUTTI_ERR_PROTOCOL, "malformed places of ranks");
    }
    return nodes_append(&places->ranks, more, numbers) ? TUTTI_OK : no_memory();
}

tutti_status places_take(struct places *places, struct wire_reader *in)
{
    const size_t count = size_min((size_t)wire_get_varint(in), wire_left(in));
    int *numbers = mem_calloc(count, sizeof *numbers);
    struct nodes more = { .size = 0 };
    tutti_status status =
            numbers == NULL ? no_memory() : take_list(places, in, numbers, count);

    if (status == TUTTI_OK) {
        status = nodes_get(in, &more);
    }
    if (status == TUTTI_OK) {
        status = take_ranks(places, &more, numbers, count);
    }
    nodes_fini(&more);
    mem_free(numbers);
    return status;
}

/* ------------------------------------------------------------------------ grouping */

/** What becomes of the places while they are grouped. */
struct groups {
    struct places hosts; /* each host, as a place */
    int *host; /* [places] number of the host; owned */
    int *group; /* [places] of ranks that share a cache; owned */
    int *whole; /* [places] by host: its group + 1 where that is all of it, or 0; owned */
    bool *is_unknown; /* [places] by host: a rank of it is in no single cache; owned */
};

static bool number_hosts(const struct places *places, struct groups *groups)
{
    for (size_t p = 0; p < places->by_text.count; p++) {
        struct key key = key_of(places->list[p]);
        const bool is_unknown = key.cache.len == 0;

        key.cache.len = 0;
        groups->host[p] = find(&groups->hosts, &key);
        if (groups->host[p] < 0) {
            return false;
        }
        groups->is_unknown[groups->host[p]] |= is_unknown;
    }
    return true;
}

static void number_groups(size_t places, struct groups *groups)
{
    int next = 0;

    for (size_t p = 0; p < places; p++) {
        int *whole = &groups->whole[groups->host[p]];

        if (!groups->is_unknown[groups->host[p]]) {
            groups->group[p] = next++;
            continue;
        }
        if (*whole == 0) {
            *whole = ++next;
        }
        groups->group[p] = *whole - 1;
    }
}

tutti_status places_group(
        const struct places *places, struct nodes *nodes, struct nodes *caches)
{
    const size_t count = places->by_text.count;
    struct groups groups = { .host = mem_calloc(count, sizeof(int)),
        .group = mem_calloc(count, sizeof(int)),
        .whole = mem_calloc(count, sizeof(int)),
        .is_unknown = mem_calloc(count, sizeof(bool)) };
    bool done = groups.host != NULL && groups.group != NULL && groups.whole != NULL &&
            groups.is_unknown != NULL && number_hosts(places, &groups);

    if (done) {
        number_groups(count, &groups);
        done = nodes_append(nodes, &places->ranks, groups.host) &&
                nodes_append(caches, &places->ranks, groups.group);
    }
    places_fini(&groups.hosts);
    mem_free(groups.host);
    mem_free(groups.group);
    mem_free(groups.whole);
    mem_free(groups.is_unknown);
    return done ? TUTTI_OK : no_memory();
}
