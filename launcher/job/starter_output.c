/*
 * The last lines of the starter.
 */
#include "launcher/job/starter_output.h"

#include <string.h>

void starter_output_end(struct starter_output *said, said_show show, void *context)
{
    char *line = said->lines[said->count % STARTER_OUTPUT_LINES];

    if (said->partial_len == 0) {
        return;
    }
    memcpy(line, said->partial, said->partial_len);
    line[said->partial_len] = '\0';
    said->partial_len = 0;
    said->count++;
    show(context, line);
}

void starter_output_add(struct starter_output *said, const char *bytes, size_t len,
        said_show show, void *context)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];

        if (byte == '\n') {
            starter_output_end(said, show, context);
        } else if ((byte >= 0x20 || byte == '\t') && byte != 0x7f &&
                said->partial_len + 1 < STARTER_OUTPUT_LINE_MAX) {
            said->partial[said->partial_len++] = bytes[i];
        }
    }
}

size_t starter_output_kept(const struct starter_output *said)
{
    return said->count < STARTER_OUTPUT_LINES ? said->count : STARTER_OUTPUT_LINES;
}

const char *starter_output_line(const struct starter_output *said, size_t i)
{
    return said->lines[(said->count - starter_output_kept(said) + i) %
            STARTER_OUTPUT_LINES];
}
