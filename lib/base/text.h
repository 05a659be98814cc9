/*
 * Numbers and words from text, strictly: all of the text must be the value, and nothing
 * is read as something near it. Independent of the locale.
 */
#ifndef TUTTI_BASE_TEXT_H
#define TUTTI_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** 1 0 true false yes no on off, in any case; false when it is something else. */
bool text_to_bool(const char *text, bool *value);
/** Decimal digits with an optional '-'; false when malformed or out of range. */
bool text_to_int64(const char *text, int64_t *value);
/** "100-120", "100-" (to the end of all) or "100": numbers from 0 on, the first not above the last. */
bool text_to_range(const char *text, uint64_t *first, uint64_t *last);
/** Decimal digits, then nothing or k m g KiB MiB GiB in any case (powers of 1024). */
bool text_to_size(const char *text, size_t *value);
/** A finite decimal number such as 0.5 or 1e-3. */
bool text_to_real(const char *text, double *value);
/** One ASCII letter in lower or upper case; other characters as they are. */
char text_lower(char letter);
char text_upper(char letter);
/** True when a text ends in another one. */
bool text_ends_in(const char *text, const char *end);
/** Appends to a text of `capacity` bytes, cut where it does not fit. */
void text_append(char *text, size_t capacity, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/** Divides bytes by 1024 until few are left; returns their unit: "MiB". */
const char *text_byte_unit(double *bytes);
/** Characters of text_seconds() at most, with the end. */
#define TEXT_SECONDS 32
/** Three figures, and all before the point: "0.0262", "12.5", "1234". @return `text` */
const char *text_seconds(double seconds, char text[TEXT_SECONDS]);
/** Index of a word among "one|two|three", in any case. */
bool text_to_choice(const char *text, const char *choices, int *index);

/** Writes a real so that text_to_real() gives it back; false when it does not fit. */
bool text_from_real(double value, char *text, size_t capacity);
/** Writes the index-th of "one|two|three"; false when there is none, or it does not fit. */
bool text_from_choice(const char *choices, int index, char *text, size_t capacity);

/**
 * How many characters must be inserted, removed or replaced to turn one word into the
 * other; SIZE_MAX when a word has more than 64 characters.
 */
size_t text_distance(const char *a, const char *b);

#endif
