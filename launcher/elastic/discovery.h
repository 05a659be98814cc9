/*
 * The discovery script, asked again and again while a job runs. One thread.
 */
#ifndef TUTTI_LAUNCHER_ELASTIC_DISCOVERY_H
#define TUTTI_LAUNCHER_ELASTIC_DISCOVERY_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "launcher/hosts/host_list.h"
#include "launcher/process.h"

/** Zeroed there is no script. */
struct discovery {
    char path[PATH_MAX]; /* of the script; "": there is none                */
    int slots; /* of a host without a number                            */
    char *const *environment; /* borrowed                               */
    struct loop *loop; /* that it is waited with; NULL: none            */
    struct process process;
    bool is_asked; /* the process runs                                  */
    bool has_failed; /* the last time, which was said                     */
    int64_t due; /* when it is asked, or killed where it runs         */
};

/** Asks from now on; the loop lasts until discovery_end(). */
void discovery_begin(struct discovery *discovery, struct loop *loop);
void discovery_end(struct discovery *discovery);
/**
 * Does what is due.
 * @param[in,out] list  an empty list: the hosts
 * @return true when it has answered
 */
bool discovery_turn(struct discovery *discovery, int64_t now, struct host_list *list);
/** When something is due; INT64_MAX: not by time. */
int64_t discovery_next(const struct discovery *discovery);

#endif
