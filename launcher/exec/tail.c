/*
 * The last lines of a stream.
 */
#include "launcher/exec/tail.h"

#include <string.h>

static void drop_first(struct tail *tail)
{
    const char *end = memchr(tail->text, '\n', tail->len);
    size_t len = end == NULL ? tail->len : (size_t)(end - tail->text) + 1;

    memmove(tail->text, tail->text + len, tail->len - len);
    tail->len -= len;
    tail->count--;
}

void tail_add(struct tail *tail, const char *line, size_t len)
{
    if (len > LINK_TAIL_MAX) {
        line += len - LINK_TAIL_MAX;
        len = LINK_TAIL_MAX;
    }
    while (tail->count > 0 &&
            (tail->count == LINK_TAIL_LINES || tail->len + len > LINK_TAIL_MAX)) {
        drop_first(tail);
    }
    memcpy(tail->text + tail->len, line, len);
    tail->len += len;
    tail->count++;
}
