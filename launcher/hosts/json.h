/*
 * JSON of files and variables, with errors that name where it is from.
 */
#ifndef TUTTI_LAUNCHER_HOSTS_JSON_H
#define TUTTI_LAUNCHER_HOSTS_JSON_H

#include <jansson.h>

#include <tutti/tutti.h>

/**
 * Reads an object from text, or from a file.
 * @param origin    the variable or file, for errors
 * @param[out] out  released with json_decref()
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no JSON, or no object), TUTTI_ERR_SYSTEM (no file)
 */
TUTTI_MUST_USE tutti_status json_read_text(
        json_t **out, const char *text, const char *origin);
TUTTI_MUST_USE tutti_status json_read_file(json_t **out, const char *path);

/** The text of a member; NULL when there is none. */
const char *json_member(const json_t *object, const char *key);

#endif
