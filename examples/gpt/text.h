/*
 * A text as tokens: one for each byte value that occurs in it.
 */
#ifndef GPT_TEXT_H
#define GPT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A text; zeroed is valid for text_fini(). */
struct text {
    size_t count; /* bytes */
    uint8_t *tokens; /* [count]; owned */
    int vocabulary; /* byte values that occur */
    uint8_t bytes[256]; /* [vocabulary], ascending: what a token stands for */
};

/**
 * Reads a file.
 * @param path        NULL: gpt.txt beside the program or in ../share/tutti
 * @param[out] text   released with text_fini(), also after a failure
 * @param[out] error  the reason in words when false is returned
 */
bool text_load(struct text *text, const char *path, char *error, size_t error_bytes);
void text_fini(struct text *text);

/** The token of a byte; -1 if the text does not have it. */
int text_token(const struct text *text, uint8_t byte);

/**
 * Copies `positions` tokens from `first` on, and as targets those that follow each.
 */
void text_copy(const struct text *text, size_t first, int positions, int *tokens,
        int *targets);

#endif
