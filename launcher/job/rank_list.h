/*
 * Lists of ranks as people write them: "0,3-5".
 */
#ifndef TUTTI_LAUNCHER_JOB_RANK_LIST_H
#define TUTTI_LAUNCHER_JOB_RANK_LIST_H

#include <stdbool.h>

/** True when a text is such a list. */
bool rank_list_is_valid(const char *text);
/** True when a valid list, or NULL, which is all ranks, names a rank. */
bool rank_list_has(const char *text, int rank);

#endif
