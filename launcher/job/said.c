/*
 * The last lines of the engine.
 */
#include "launcher/job/said.h"

#include <string.h>

void said_end(struct said *said, said_show show, void *context)
{
    char *line = said->lines[said->count % SAID_LINES];

    if (said->partial_len == 0) {
        return;
    }
    memcpy(line, said->partial, said->partial_len);
    line[said->partial_len] = '\0';
    said->partial_len = 0;
    said->count++;
    show(context, line);
}

void said_add(
        struct said *said, const char *bytes, size_t len, said_show show, void *context)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];

        if (byte == '\n') {
            said_end(said, show, context);
        } else if ((byte >= 0x20 || byte == '\t') && byte != 0x7f &&
                said->partial_len + 1 < SAID_LINE_MAX) {
            said->partial[said->partial_len++] = bytes[i];
        }
    }
}

size_t said_kept(const struct said *said)
{
    return said->count < SAID_LINES ? said->count : SAID_LINES;
}

const char *said_line(const struct said *said, size_t i)
{
    return said->lines[(said->count - said_kept(said) + i) % SAID_LINES];
}
