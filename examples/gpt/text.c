#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"

/** Reads a file to its end. */
static bool read_all(struct text *text, FILE *file)
{
    size_t room = 0;
    size_t got;

    do {
        uint8_t *larger;

        room = room == 0 ? 65536 : 2 * room;
        larger = realloc(text->tokens, room);
        if (larger == NULL) {
            return false;
        }
        text->tokens = larger;
        got = fread(text->tokens + text->count, 1, room - text->count, file);
        text->count += got;
    } while (text->count == room);
    return ferror(file) == 0;
}

/** Bytes to tokens, in place. */
static void number_bytes(struct text *text)
{
    bool occurs[256] = { false };
    uint8_t token[256] = { 0 };

    for (size_t i = 0; i < text->count; i++) {
        occurs[text->tokens[i]] = true;
    }
    for (int byte = 0; byte < 256; byte++) {
        if (occurs[byte]) {
            token[byte] = (uint8_t)text->vocabulary;
            text->bytes[text->vocabulary++] = (uint8_t)byte;
        }
    }
    for (size_t i = 0; i < text->count; i++) {
        text->tokens[i] = token[text->tokens[i]];
    }
}

bool text_load(struct text *text, const char *path, char *error, size_t error_bytes)
{
    char found[4096];
    FILE *file;
    bool complete;

    *text = (struct text){ .count = 0 };
    if (path == NULL) {
        if (!find_beside_program("gpt.txt", found, sizeof found)) {
            (void)snprintf(error, error_bytes,
                    "gpt.txt is neither beside the program nor in ../share/tutti from "
                    "there; give a file with --text");
            return false;
        }
        path = found;
    }
    file = fopen(path, "r");
    complete = file != NULL && read_all(text, file);
    if (!complete) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the example reads in one thread */
        (void)snprintf(error, error_bytes, "cannot read %s: %s", path, strerror(errno));
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    number_bytes(text);
    return complete;
}

void text_fini(struct text *text)
{
    free(text->tokens);
    *text = (struct text){ .count = 0 };
}

int text_token(const struct text *text, uint8_t byte)
{
    const uint8_t *at = memchr(text->bytes, byte, (size_t)text->vocabulary);

    return at != NULL ? (int)(at - text->bytes) : -1;
}

void text_copy(
        const struct text *text, size_t first, int positions, int *tokens, int *targets)
{
    for (int p = 0; p < positions; p++) {
        tokens[p] = text->tokens[first + (size_t)p];
        targets[p] = text->tokens[first + (size_t)p + 1];
    }
}
