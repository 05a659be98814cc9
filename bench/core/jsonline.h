/*
 * Writes one JSON object on one line.
 */
#ifndef TUTTI_BENCH_CORE_JSONLINE_H
#define TUTTI_BENCH_CORE_JSONLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_JSON_MAX 4096

/** Zeroed is an empty object. */
struct bench_json {
    char text[BENCH_JSON_MAX]; /* "{..." without the closing brace; NUL-terminated */
    size_t used; /* bytes in text */
    bool overflow; /* something did not fit */
};

/** Appends a member. Keys are written as they are; text is escaped. */
void bench_json_text(struct bench_json *json, const char *key, const char *value);
void bench_json_integer(struct bench_json *json, const char *key, int64_t value);
/** The same; null when it is negative, for "not counted". */
void bench_json_count(struct bench_json *json, const char *key, int64_t value);
/** A number with six significant digits; null when it is not finite. */
void bench_json_number(struct bench_json *json, const char *key, double value);
/** An array of two numbers. */
void bench_json_range(
        struct bench_json *json, const char *key, double low, double high);
void bench_json_null(struct bench_json *json, const char *key);

/** Closes the object and ends the line; NULL when it did not fit. */
const char *bench_json_finish(struct bench_json *json);

#endif
