/*
 * What the targets share. A target is one file with LLVMFuzzerTestOneInput(), which libFuzzer
 * calls, or replay.c with each file of the corpus. A finding is a crash, a sanitizer's report,
 * or REQUIRE().
 */
#ifndef TUTTI_TEST_FUZZ_FUZZ_H
#define TUTTI_TEST_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Ends the process when it does not hold. */
#define REQUIRE(condition) \
    ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/** An input that is taken bit by bit. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

/** The next byte; 0 at the end. */
uint8_t fuzz_byte(struct fuzz_input *input);
/** Up to so many of the next bytes, in a block of their own, so that reading beyond is seen. */
uint8_t *fuzz_bytes(struct fuzz_input *input, size_t most, size_t *len);
/** The next line, without its newline, in a block of its own; NULL: there is none. */
char *fuzz_line(struct fuzz_input *input);
/** All that is left, as a text. */
char *fuzz_text(struct fuzz_input *input);
/** A path that reads as the rest of the input; the file is closed by fuzz_close_file(). */
const char *fuzz_open_file(struct fuzz_input *input);
void fuzz_close_file(void);

#endif
