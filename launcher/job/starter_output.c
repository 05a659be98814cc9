/*
 * The last lines of the MPI launcher.
 */
#include "launcher/job/starter_output.h"

#include <string.h>

void starter_output_end(
        struct starter_output *output, starter_output_show show, void *context)
{
    char *line = output->lines[output->count % STARTER_OUTPUT_LINES];

    if (output->partial_len == 0) {
        return;
    }
    memcpy(line, output->partial, output->partial_len);
    line[output->partial_len] = '\0';
    output->partial_len = 0;
    output->count++;
    show(context, line);
}

void starter_output_add(struct starter_output *output, const char *bytes, size_t len,
        starter_output_show show, void *context)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];

        if (byte == '\n') {
            starter_output_end(output, show, context);
        } else if ((byte >= 0x20 || byte == '\t') && byte != 0x7f &&
                output->partial_len + 1 < STARTER_OUTPUT_LINE_MAX) {
            output->partial[output->partial_len++] = bytes[i];
        }
    }
}

size_t starter_output_kept(const struct starter_output *output)
{
    return output->count < STARTER_OUTPUT_LINES ? output->count : STARTER_OUTPUT_LINES;
}

const char *starter_output_line(const struct starter_output *output, size_t i)
{
    return output->lines[(output->count - starter_output_kept(output) + i) %
            STARTER_OUTPUT_LINES];
}
