/*
 * Lists of hosts and their slots: from -H, and from hostfiles of Open MPI, MPICH and
 * DeepSpeed.
 */
#ifndef TUTTI_LAUNCHER_HOSTS_HOST_LIST_H
#define TUTTI_LAUNCHER_HOSTS_HOST_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/tutti.h>

enum {
    HOST_NAME_LIMIT = 256, /* bytes of a name with its terminating zero */
    HOSTS_LIMIT = 16384, /* hosts in a list                           */
    HOST_SLOTS_LIMIT = 65536 /* slots of one host                       */
};

struct host {
    char name[HOST_NAME_LIMIT]; /* without the brackets of an IPv6 address */
    int slots; /* ranks it takes, 1 to HOST_SLOTS_LIMIT   */
    int implied; /* of the slots, those of entries that gave no number */
};

/** Zeroed is valid and empty. */
struct host_list {
    struct host *hosts; /* owned; names are distinct, in the order given */
    size_t count; /* 0: this machine                               */
    size_t capacity; /* hosts that there is room for                     */
    size_t last; /* the host that was added, or got slots, last         */
};

void host_list_fini(struct host_list *list);

/**
 * Reads "a:2,b,[::1]:4" into an empty list. Without a number a host has one slot; a
 * host that is named again gets the slots of both.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names the entry), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status host_list_parse(struct host_list *list, const char *text);

/**
 * Adds a host, or its slots to those of the host of that name.
 * @param slots  0: not said, one slot until host_list_imply()
 * @return NULL, or the reason why it cannot be added
 */
const char *host_list_add(struct host_list *list, const char *name, int slots);

/**
 * Says how many slots an entry without a number stands for.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a host gets too many)
 */
TUTTI_MUST_USE tutti_status host_list_imply(struct host_list *list, int slots);

/** Removes the first host. */
void host_list_drop_first(struct host_list *list);

/** Copies a list into an empty one. */
TUTTI_MUST_USE tutti_status host_list_copy(
        struct host_list *to, const struct host_list *from);

/**
 * Reads a hostfile into an empty list. A line is "host", "host:N" or "host slots=N"
 * with an optional "max_slots=M"; '#' starts a comment.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names file, line and text, or no host is in
 *         the file), TUTTI_ERR_SYSTEM (cannot be read), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status host_list_read(struct host_list *list, const char *path);

/** As host_list_read(), from an open file; `name` is what errors call it. */
TUTTI_MUST_USE tutti_status host_list_read_stream(
        struct host_list *list, FILE *file, const char *name);

/** All slots together. */
int host_list_slots(const struct host_list *list);
/** "a:2,b:1,[::1]:4"; freed with mem_free(); NULL when out of memory. */
char *host_list_format(const struct host_list *list);

#endif
