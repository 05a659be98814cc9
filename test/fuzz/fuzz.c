/*
 * Taking inputs apart.
 */
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Noreturn void fuzz_fail(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "%s:%d: %s\n", file, line, condition);
    abort();
}

uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->size == 0) {
        return 0;
    }
    input->size--;
    return *input->data++;
}

uint8_t *fuzz_bytes(struct fuzz_input *input, size_t most, size_t *len)
{
    uint8_t *bytes;

    *len = input->size < most ? input->size : most;
    bytes = malloc(*len + (*len == 0));
    REQUIRE(bytes != NULL);
    memcpy(bytes, input->data, *len);
    input->data += *len;
    input->size -= *len;
    return bytes;
}

static char *take_text(struct fuzz_input *input, size_t len)
{
    char *text = malloc(len + 1);

    REQUIRE(text != NULL);
    memcpy(text, input->data, len);
    text[len] = '\0';
    input->data += len;
    input->size -= len;
    return text;
}

char *fuzz_line(struct fuzz_input *input)
{
    const uint8_t *end;
    char *line;

    if (input->size == 0) {
        return NULL;
    }
    end = memchr(input->data, '\n', input->size);
    line = take_text(input, end == NULL ? input->size : (size_t)(end - input->data));
    (void)fuzz_byte(input);
    return line;
}

char *fuzz_text(struct fuzz_input *input)
{
    return take_text(input, input->size);
}

static int file = -1;

const char *fuzz_open_file(struct fuzz_input *input)
{
    static char path[32];

    file = memfd_create("input", MFD_CLOEXEC);
    REQUIRE(file >= 0);
    REQUIRE(write(file, input->data, input->size) == (ssize_t)input->size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return path;
}

void fuzz_close_file(void)
{
    (void)close(file);
}
