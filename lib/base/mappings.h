/*
 * What is mapped where in this process, as the kernel tells it in /proc/self/maps.
 */
#ifndef TUTTI_BASE_MAPPINGS_H
#define TUTTI_BASE_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Pages that are mapped alike. */
struct mapping {
    uintptr_t begin, end;
    char access[5]; /* "rw-p": read, write, execute, and private or shared */
    uint64_t offset; /* of begin in the file */
    dev_t device; /* of the file, and its inode; 0: none */
    ino_t inode;
    char name[64]; /* of the file, cut; "" or in brackets: none */
};

/** Reads a line of the file; false when it is none. */
bool mapping_parse(const char *line, struct mapping *mapping);

/**
 * Shows the mappings that have pages between two addresses, in ascending order, until it is
 * told false. What other threads map elsewhere at the same time may show twice, or not.
 * @return false, with errno set, where the kernel does not tell
 */
bool mappings_visit(uintptr_t begin, uintptr_t end,
        bool (*look)(void *user, const struct mapping *mapping), void *user);

#endif
