/*
 * Process sets as text, as in the parameter process_sets: sets are separated by ';', ranks
 * by ','; "4-7" stands for 4,5,6,7. Blanks do not matter. "" is no set.
 */
#ifndef TUTTI_RUN_SET_LIST_H
#define TUTTI_RUN_SET_LIST_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

/** One set after the other: where each begins and ends in `ranks`. */
struct set_list {
    int64_t *ranks; /* of all sets; owned                           */
    size_t rank_count, rank_capacity;
    size_t *ends; /* [count] index behind the last rank; owned    */
    size_t count, capacity;
};

/**
 * Reads a list for a world of `size` ranks.
 * @param[out] list  released with set_list_fini()
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (says where and why; nothing to release),
 *         TUTTI_ERR_NO_MEMORY
 */
tutti_status set_list_parse(struct set_list *list, const char *text, int size);
void set_list_fini(struct set_list *list);

#endif
