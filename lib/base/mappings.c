/*
 * Reads /proc/self/maps.
 */
#include "base/mappings.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/** Reads a number and the character behind it. */
static bool take_number(const char **text, int base, char behind, uint64_t *number)
{
    char *end = NULL;

    *number = strtoull(*text, &end, base);
    if (end == *text || *end != behind) {
        return false;
    }
    *text = end + 1;
    return true;
}

/* 7f12a000-7f12c000 rw-p 00002000 00:1f 4711       /memfd:tutti (deleted) */
bool mapping_parse(const char *line, struct mapping *mapping)
{
    struct mapping read = { .begin = 0 };
    uint64_t begin;
    uint64_t end;
    uint64_t major;
    uint64_t minor;
    uint64_t inode;

    if (!take_number(&line, 16, '-', &begin) || !take_number(&line, 16, ' ', &end) ||
            strlen(line) < sizeof read.access) {
        return false;
    }
    memcpy(read.access, line, sizeof read.access - 1);
    line += sizeof read.access;
    if (!take_number(&line, 16, ' ', &read.offset) ||
            !take_number(&line, 16, ':', &major) ||
            !take_number(&line, 16, ' ', &minor)) {
        return false;
    }
    inode = strtoull(line, NULL, 10);
    line += strspn(line, "0123456789");
    line += strspn(line, " ");
    (void)snprintf(read.name, sizeof read.name, "%.*s", (int)strcspn(line, "\n"), line);
    read.begin = (uintptr_t)begin;
    read.end = (uintptr_t)end;
    read.device = makedev((unsigned)major, (unsigned)minor);
    read.inode = (ino_t)inode;
    *mapping = read;
    return true;
}

bool mappings_visit(uintptr_t begin, uintptr_t end,
        bool (*look)(void *user, const struct mapping *mapping), void *user)
{
    FILE *file = fopen("/proc/self/maps", "re");
    struct mapping mapping;
    char line[PATH_MAX + 128];
    bool goes_on = true;

    if (file == NULL) {
        return false;
    }
    while (goes_on && fgets(line, sizeof line, file) != NULL) {
        if (mapping_parse(line, &mapping) && mapping.end > begin) {
            goes_on = mapping.begin < end && look(user, &mapping);
        }
    }
    (void)fclose(file);
    return true;
}
