#include "launcher/arguments.h"

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"

void arguments_fini(struct arguments *list)
{
    for (size_t i = 0; i < list->count; i++) {
        mem_free(list->items[i]);
    }
    mem_free(list->items);
    *list = (struct arguments){ .items = NULL };
}

/* Takes ownership of text, which may be NULL when its allocation failed. */
static void append_owned(struct arguments *list, char *text)
{
    if (text == NULL || list->failed) {
        goto err_drop;
    }
    if (list->count + 2 > list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
        char **items = mem_resize(list->items, capacity, sizeof *items);

        if (items == NULL) {
            goto err_drop;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = text;
    list->items[list->count] = NULL;
    return;

err_drop:
    mem_free(text);
    list->failed = true;
}

void arguments_add(struct arguments *list, const char *text)
{
    append_owned(list, mem_strdup(text));
}

static char *format_text(const char *format, va_list values)
        __attribute__((format(printf, 1, 0)));

static char *format_text(const char *format, va_list values)
{
    va_list again;
    char *text = NULL;
    int len;

    va_copy(again, values);
    len = vsnprintf(NULL, 0, format, values);
    if (len >= 0) {
        text = mem_alloc((size_t)len + 1);
    }
    if (text != NULL) {
        (void)vsnprintf(text, (size_t)len + 1, format, again);
    }
    va_end(again);
    return text;
}

void arguments_add_format(struct arguments *list, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    append_owned(list, format_text(format, values));
    va_end(values);
}

void arguments_add_all(struct arguments *list, char *const *texts)
{
    for (; texts != NULL && *texts != NULL; texts++) {
        arguments_add(list, *texts);
    }
}

bool arguments_same_name(const char *a, const char *b)
{
    const size_t len = strcspn(a, "=");

    return strcspn(b, "=") == len && strncmp(a, b, len) == 0;
}

/* Index of the first entry of that name; list->count when there is none. */
static size_t index_of(const struct arguments *list, const char *entry)
{
    size_t i = 0;

    while (i < list->count && !arguments_same_name(list->items[i], entry)) {
        i++;
    }
    return i;
}

bool arguments_has(const struct arguments *list, const char *entry)
{
    return index_of(list, entry) < list->count;
}

/* The last entry takes the place of an earlier one of its name. */
static void settle_last(struct arguments *list)
{
    char *last = list->failed ? NULL : list->items[list->count - 1];
    const size_t i = last == NULL ? 0 : index_of(list, last);

    if (last != NULL && i < list->count - 1) {
        list->items[--list->count] = NULL;
        mem_free(list->items[i]);
        list->items[i] = last;
    }
}

void arguments_put(struct arguments *list, const char *entry)
{
    arguments_add(list, entry);
    settle_last(list);
}

void arguments_set(struct arguments *list, const char *name, const char *value)
{
    arguments_add_format(list, "%s=%s", name, value);
    settle_last(list);
}

tutti_status arguments_status(const struct arguments *list)
{
    if (list->failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a command line");
    }
    return TUTTI_OK;
}

/*
 * Copies the word at *text to `word` without its quotes and moves *text behind it;
 * false when a quote is not closed. `word` has room for all of *text.
 */
static bool read_word(const char **text, char *word)
{
    const char *p = *text;
    char quote = '\0'; /* the open quote, or 0 */

    for (; *p != '\0' && (quote != '\0' || strchr(" \t\r\n", *p) == NULL); p++) {
        if (*p == quote) {
            quote = '\0';
        } else if (quote == '\0' && (*p == '\'' || *p == '"')) {
            quote = *p;
        } else if (*p == '\\' && quote != '\'' && p[1] != '\0') {
            *word++ = *++p;
        } else {
            *word++ = *p;
        }
    }
    *word = '\0';
    *text = p;
    return quote == '\0';
}

tutti_status arguments_split(
        struct arguments *list, const char *text, const char *origin)
{
    struct arguments words = { .items = NULL };
    char *word = mem_alloc(strlen(text) + 1);
    const char *p = text + strspn(text, " \t\r\n");
    tutti_status status = TUTTI_OK;

    if (word == NULL) {
        list->failed = true;
        return arguments_status(list);
    }
    while (*p != '\0' && status == TUTTI_OK) {
        if (read_word(&p, word)) {
            arguments_add(&words, word);
        } else {
            status = error_set(
                    TUTTI_ERR_INVALID, "%s: a quote is not closed: %s", origin, text);
        }
        p += strspn(p, " \t\r\n");
    }
    if (status == TUTTI_OK && words.count > 0) {
        arguments_add_all(list, words.items);
    }
    list->failed = list->failed || words.failed;
    arguments_fini(&words);
    mem_free(word);
    return status;
}

static const char plain_characters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

/* Appends one word to `line`, which has room for 9 bytes per character and 3 more. */
static char *quote_word(char *line, const char *word)
{
    const char *p = word;

    if (*word != '\0' && word[strspn(word, plain_characters)] == '\0') {
        return stpcpy(line, word);
    }
    *line++ = '\'';
    for (; *p != '\0'; p++) {
        if (*p == '\'') {
            line = stpcpy(line, "'\\''");
        } else if (is_control(*p)) {
            line += snprintf(line, 10, "'$'\\%03o''", (unsigned)(unsigned char)*p);
        } else {
            *line++ = *p;
        }
    }
    return stpcpy(line, "'");
}

char *arguments_quote(const struct arguments *list)
{
    size_t capacity = 1;
    char *line;
    char *end;

    for (size_t i = 0; i < list->count; i++) {
        capacity += strlen(list->items[i]) * 9 + 4;
    }
    line = mem_alloc(capacity);
    if (line == NULL) {
        return NULL;
    }
    end = line;
    *end = '\0';
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0) {
            *end++ = ' ';
        }
        end = quote_word(end, list->items[i]);
    }
    return line;
}

char *arguments_join(const struct arguments *list, const char *separator)
{
    size_t capacity = 1;
    char *line;
    char *end;

    for (size_t i = 0; i < list->count; i++) {
        capacity += strlen(list->items[i]) + strlen(separator);
    }
    line = list->failed ? NULL : mem_alloc(capacity);
    if (line == NULL) {
        return NULL;
    }
    end = line;
    *end = '\0';
    for (size_t i = 0; i < list->count; i++) {
        end = stpcpy(stpcpy(end, i == 0 ? "" : separator), list->items[i]);
    }
    return line;
}

const char *environment_get(char *const *environment, const char *name)
{
    size_t len = strlen(name);

    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=') {
            return *environment + len + 1;
        }
    }
    return NULL;
}

bool environment_get_int(
        char *const *environment, const char *name, int min, int *value)
{
    const char *text = environment_get(environment, name);
    int64_t number;

    if (text == NULL || !text_to_int64(text, &number) || number < min ||
            number > INT_MAX) {
        return false;
    }
    *value = (int)number;
    return true;
}
