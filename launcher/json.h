/*
 * JSON: of files and variables, with errors that name where it is from, and of texts of any bytes.
 */
#ifndef TUTTI_LAUNCHER_JSON_H
#define TUTTI_LAUNCHER_JSON_H

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

/** A text; null for NULL. Bytes that are no UTF-8 become '?'. */
json_t *json_text(const char *text);

/** The text of a member; NULL when there is none. */
const char *json_member(const json_t *object, const char *key);

#endif
