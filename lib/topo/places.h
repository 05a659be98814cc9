/*
 * Where ranks say they are, put together from parts: a host, and on it a cache that they
 * share with others. Pure.
 */
#ifndef TUTTI_TOPO_PLACES_H
#define TUTTI_TOPO_PLACES_H

#include "base/map.h"
#include "topo/nodes.h"

/** Longest text that says which host, or which cache. */
#define PLACE_TEXT_MAX ((size_t)256)

struct place;

/** A run of ranks, from some rank on. Zeroed is valid and has none. */
struct places {
    struct place **list; /* [ranks.count] in order of their lowest ranks; owned */
    size_t capacity;
    struct map by_text;
    struct nodes ranks; /* the place of each, as a node */
};

/**
 * Adds one rank.
 * @param cache  "": in no single one
 * @return false when out of memory
 */
bool places_add(struct places *places, const char *host, const char *cache);
void places_put(struct wire_writer *out, const struct places *places);
/**
 * Adds ranks that another rank has put.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_PROTOCOL
 */
tutti_status places_take(struct places *places, struct wire_reader *in);
/**
 * Groups the ranks.
 * @param[out] nodes   by host
 * @param[out] caches  by host and cache; all ranks of a host of which one is in no single
 *                     cache are one group
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
tutti_status places_group(
        const struct places *places, struct nodes *nodes, struct nodes *caches);
void places_fini(struct places *places);

#endif
