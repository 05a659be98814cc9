/*
 * A draft: a new file beside the one whose place it takes when it is whole.
 */
#ifndef TUTTI_BASE_DRAFT_H
#define TUTTI_BASE_DRAFT_H

#include <stddef.h>

/**
 * Creates a draft for `path`. Its name cannot be foreseen and nothing of that name is opened, so
 * that in a folder of several users nobody can have put a link there. The caller writes and closes
 * it, and renames or unlinks it.
 * @param[out] draft  its path; room for `capacity` bytes
 * @return a descriptor for writing; -1: errno
 */
int draft_open(const char *path, char *draft, size_t capacity);

#endif
