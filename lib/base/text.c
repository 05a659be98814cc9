/*
 * Strict conversions between text and values.
 */
#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    WORD_MAX = 64,
    RANGE_NUMBER_BYTES = 32
};

char text_lower(char letter)
{
    if (letter >= 'A' && letter <= 'Z') {
        return (char)(letter - 'A' + 'a');
    }
    return letter;
}

char text_upper(char letter)
{
    if (letter >= 'a' && letter <= 'z') {
        return (char)(letter - 'a' + 'A');
    }
    return letter;
}

bool text_ends_in(const char *text, const char *end)
{
    const size_t len = strlen(text);
    const size_t end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* strncasecmp() would ask the locale what a lower-case letter is. */
static bool is_same_word(const char *a, const char *b, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        if (text_lower(a[i]) != text_lower(b[i])) {
            return false;
        }
    }
    return true;
}

bool text_to_choice(const char *text, const char *choices, int *index)
{
    size_t len = strlen(text);
    int i = 0;

    for (;;) {
        size_t word = strcspn(choices, "|");

        if (word == len && is_same_word(text, choices, len)) {
            *index = i;
            return true;
        }
        if (choices[word] == '\0') {
            return false;
        }
        choices += word + 1;
        i++;
    }
}

const char *text_byte_unit(double *bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    size_t unit = 0;

    while (*bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        *bytes /= 1024;
        unit++;
    }
    return units[unit];
}

const char *text_seconds(double seconds, char text[TEXT_SECONDS])
{
    (void)snprintf(text, TEXT_SECONDS, seconds < 999.5 ? "%.3g" : "%.0f", seconds);
    return text;
}

bool text_from_choice(const char *choices, int index, char *text, size_t capacity)
{
    int len;

    for (; index > 0 && *choices != '\0'; index--) {
        choices += strcspn(choices, "|");
        choices += *choices == '|' ? 1 : 0;
    }
    if (*choices == '\0') {
        return false;
    }
    len = snprintf(text, capacity, "%.*s", (int)strcspn(choices, "|"), choices);
    return len >= 0 && (size_t)len < capacity;
}

bool text_to_bool(const char *text, bool *value)
{
    int index;

    if (!text_to_choice(text, "0|1|false|true|no|yes|off|on", &index)) {
        return false;
    }
    *value = index % 2 == 1;
    return true;
}

bool text_to_int64(const char *text, int64_t *value)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    int64_t number;

    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0') {
        return false;
    }
    errno = 0;
    number = strtoll(text, NULL, 10);
    if (errno != 0) {
        return false;
    }
    *value = number;
    return true;
}

bool text_to_range(const char *text, uint64_t *first, uint64_t *last)
{
    const char *dash = strchr(text, '-');
    const size_t len = dash != NULL ? (size_t)(dash - text) : strlen(text);
    char number[RANGE_NUMBER_BYTES];
    int64_t low;
    int64_t high;

    if (len >= sizeof number) {
        return false;
    }
    memcpy(number, text, len);
    number[len] = '\0';
    if (!text_to_int64(number, &low)) {
        return false;
    }
    high = dash == NULL ? low : INT64_MAX;
    if ((dash != NULL && dash[1] != '\0' && !text_to_int64(dash + 1, &high)) ||
            low < 0 || high < low) {
        return false;
    }
    *first = (uint64_t)low;
    *last = (uint64_t)high;
    return true;
}

bool text_to_size(const char *text, size_t *value)
{
    static const size_t factors[] = { 1, 1 << 10, 1 << 20, 1 << 30, 1 << 10, 1 << 20,
        1 << 30 };
    size_t digits = strspn(text, "0123456789");
    unsigned long long number;
    size_t bytes;
    int unit;

    if (digits == 0 || !text_to_choice(text + digits, "|k|m|g|kib|mib|gib", &unit)) {
        return false;
    }
    errno = 0;
    number = strtoull(text, NULL, 10);
    if (errno != 0 || number > SIZE_MAX ||
            !size_mul((size_t)number, factors[unit], &bytes)) {
        return false;
    }
    *value = bytes;
    return true;
}

bool text_to_real(const char *text, double *value)
{
    locale_t c_locale;
    double number;
    char *end;

    /* Keeps out what strtod() takes beside numbers: blanks, hex, inf and nan. */
    if (text[strspn(text, "0123456789.eE+-")] != '\0') {
        return false;
    }
    /* The C locale of glibc is a constant: this does not allocate and cannot fail. */
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return false;
    }
    number = strtod_l(text, &end, c_locale);
    freelocale(c_locale);
    if (end == text || *end != '\0' || !isfinite(number)) {
        return false;
    }
    *value = number;
    return true;
}

/* Writes with this many digits; true when it fits and reads back as the same value. */
static bool write_real(double value, int digits, char *text, size_t capacity)
{
    int len = snprintf(text, capacity, "%.*g", digits, value);
    double back;

    return len >= 0 && (size_t)len < capacity && text_to_real(text, &back) &&
            back == value;
}

bool text_from_real(double value, char *text, size_t capacity)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t callers;
    bool written;

    if (c_locale == (locale_t)0) {
        return false;
    }
    callers = uselocale(c_locale);
    /* 15 digits are what people wrote; 17 give back any value. */
    written = write_real(value, 15, text, capacity) ||
            write_real(value, 17, text, capacity);
    (void)uselocale(callers);
    freelocale(c_locale);
    return written;
}

size_t text_distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1]; /* distances of a's beginning to each beginning of b */
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    size_t i, j;

    if (a_len > WORD_MAX || b_len > WORD_MAX) {
        return SIZE_MAX;
    }
    for (j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (j = 1; j <= b_len; j++) {
            size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);

            diagonal = row[j];
            row[j] = size_min(replaced, size_min(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_len];
}

void text_append(char *text, size_t capacity, const char *format, ...)
{
    const size_t len = strlen(text);
    va_list values;

    va_start(values, format);
    (void)vsnprintf(text + len, capacity - len, format, values);
    va_end(values);
}
