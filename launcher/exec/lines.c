#include "launcher/exec/lines.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static const int64_t second = 1000000000;

void rate_init(struct rate *rate, uint64_t per_second, int64_t now)
{
    /* More than this is no limit, and would overflow. */
    if (per_second > (uint64_t)1 << 32) {
        per_second = 0;
    }
    *rate = (struct rate){
        .per_second = per_second,
        .credit = (int64_t)per_second,
        .filled = now,
    };
}

static void fill(struct rate *rate, int64_t now)
{
    int64_t full = (int64_t)rate->per_second;
    int64_t passed = now - rate->filled;
    int64_t more;

    if (passed >= 2 * second) {
        rate->credit = full;
        rate->filled = now;
        return;
    }
    more = (int64_t)((double)full * (double)passed / (double)second);
    if (more > 0) {
        rate->credit = rate->credit + more > full ? full : rate->credit + more;
        rate->filled = now;
    }
}

bool rate_take(struct rate *rate, size_t bytes, int64_t now)
{
    if (rate->per_second == 0) {
        return true;
    }
    fill(rate, now);
    if (rate->credit <= 0) {
        rate->dropping = rate->dropped == 0 ? now : rate->dropping;
        rate->dropped++;
        return false;
    }
    rate->credit -= (int64_t)bytes;
    return true;
}

int64_t rate_due(const struct rate *rate)
{
    return rate->dropped > 0 ? rate->dropping + second : INT64_MAX;
}

uint64_t rate_take_dropped(struct rate *rate)
{
    uint64_t dropped = rate->dropped;

    rate->dropped = 0;
    return dropped;
}

static const char cut_mark[] = " [cut]\n";

static_assert(LINES_MAX + sizeof cut_mark <= LINES_SHOWN_MAX, "the mark fits");

tutti_status lines_init(struct lines *lines, lines_sink *sink, void *to)
{
    *lines = (struct lines){
        .sink = sink,
        .to = to,
        .line = mem_alloc(LINES_SHOWN_MAX),
        .update = mem_alloc(LINES_SHOWN_MAX),
        .shown = -LINES_UPDATE_NS,
    };
    if (lines->line == NULL || lines->update == NULL) {
        lines_fini(lines);
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the rank's output");
    }
    return TUTTI_OK;
}

void lines_fini(struct lines *lines)
{
    mem_free(lines->line);
    mem_free(lines->update);
    *lines = (struct lines){ .line = NULL };
}

/* Bytes of a character by its first byte; 1 for what cannot be a first byte. */
static size_t character_bytes(unsigned char first)
{
    return first >= 0xF0 && first <= 0xF4 ? 4
            : first >= 0xE0               ? 3
            : first >= 0xC2               ? 2
                                          : 1;
}

/* Length without a character at the end that is not whole. */
static size_t whole_characters(const char *text, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char byte = (unsigned char)text[len - back];

        if ((byte & 0xC0U) != 0x80U) {
            return byte <= 0xF4 && character_bytes(byte) > back ? len - back : len;
        }
    }
    return len;
}

static void cut(struct lines *lines)
{
    size_t len = whole_characters(lines->line, lines->len);

    memcpy(lines->line + len, cut_mark, sizeof cut_mark - 1);
    lines->sink(lines->to, lines->line, len + sizeof cut_mark - 1);
    lines->len = 0;
    lines->update_len = 0; /* the line was written over it */
    lines->is_cut = true;
}

static void add(struct lines *lines, const char *bytes, size_t len)
{
    size_t room = LINES_MAX - lines->len;

    lines->is_shown = false;
    if (lines->is_cut) {
        return;
    }
    memcpy(lines->line + lines->len, bytes, size_min(len, room));
    lines->len += size_min(len, room);
    if (len > room) {
        cut(lines);
    }
}

static void show(struct lines *lines, char *text, size_t len)
{
    text[len] = '\n';
    lines->sink(lines->to, text, len + 1);
}

/* At '\n'. A line that only ends a shown update is not shown again as an empty one. */
static void finish_line(struct lines *lines)
{
    if (lines->len > 0) {
        show(lines, lines->line, lines->len);
    } else if (lines->update_len > 0) {
        show(lines, lines->update, lines->update_len);
    } else if (!lines->is_cut && !lines->is_shown) {
        show(lines, lines->line, 0);
    }
    lines->len = 0;
    lines->update_len = 0;
    lines->is_cut = false;
    lines->is_shown = false;
    lines->after_return = false;
}

/* At '\r' when no '\n' followed it. */
static void finish_update(struct lines *lines)
{
    char *spare = lines->update;

    lines->after_return = false;
    lines->is_cut = false;
    if (lines->len > 0) {
        lines->update = lines->line;
        lines->update_len = lines->len;
        lines->line = spare;
        lines->len = 0;
    }
}

static void show_update(struct lines *lines, int64_t now)
{
    if (lines->update_len > 0 && now - lines->shown >= LINES_UPDATE_NS) {
        show(lines, lines->update, lines->update_len);
        lines->update_len = 0;
        lines->shown = now;
        lines->is_shown = true;
    }
}

static bool is_ordinary(char byte)
{
    return byte != '\n' && byte != '\r' && byte != '\0';
}

/* Returns how many bytes it took, at least 1. */
static size_t take(struct lines *lines, const char *bytes, size_t len, int64_t now)
{
    size_t count = 0;

    if (bytes[0] == '\n') {
        finish_line(lines);
        return 1;
    }
    if (lines->after_return) {
        finish_update(lines);
        show_update(lines, now);
    }
    if (bytes[0] == '\r') {
        lines->after_return = true;
        return 1;
    }
    if (bytes[0] == '\0') {
        add(lines, "\\0", 2);
        return 1;
    }
    while (count < len && is_ordinary(bytes[count])) {
        count++;
    }
    add(lines, bytes, count);
    return count;
}

void lines_feed(struct lines *lines, const char *bytes, size_t len, int64_t now)
{
    size_t used = 0;

    while (used < len) {
        used += take(lines, bytes + used, len - used, now);
    }
}

void lines_tick(struct lines *lines, int64_t now)
{
    if (now < lines_due(lines)) {
        return;
    }
    if (lines->after_return) {
        finish_update(lines);
    }
    show_update(lines, now);
}

int64_t lines_due(const struct lines *lines)
{
    bool is_waiting = lines->update_len > 0 || (lines->after_return && lines->len > 0);

    return is_waiting ? lines->shown + LINES_UPDATE_NS : INT64_MAX;
}

void lines_end(struct lines *lines)
{
    if (lines->len > 0 || lines->update_len > 0) {
        finish_line(lines);
    }
    lines->is_cut = false;
    lines->is_shown = false;
    lines->after_return = false;
}

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
