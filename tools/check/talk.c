/*
 * The conversation with the agent of one host.
 */
#include "tools/check/talk.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    PAIR_BYTES = 128 /* of a line about a connection, with its zero */
};

static void take_noise(struct seen *seen, const char *line)
{
    if (seen->noise_lines++ == 0) {
        (void)snprintf(seen->noise, sizeof seen->noise, "%s", line);
    }
}

/* Its clock was read somewhere between our question and its answer: in the middle. */
static enum talk_next take_clock(
        struct talk *talk, const char *line, int64_t now_real_ns)
{
    struct seen *seen = talk->seen;
    int64_t there;
    int64_t ahead;
    double round_trip = (double)(now_real_ns - talk->asked_real_ns) / 1e9;

    if (strncmp(line, "clock ", 6) != 0 || !text_to_int64(line + 6, &there) ||
            __builtin_sub_overflow(there, talk->asked_real_ns, &ahead)) {
        return TALK_GO_ON;
    }
    if (!seen->has_clock || round_trip < seen->round_trip_s) {
        seen->has_clock = true;
        seen->round_trip_s = round_trip;
        seen->offset_s = (double)ahead / 1e9 - round_trip / 2;
    }
    if (++talk->clocks < TALK_CLOCKS) {
        return TALK_ASK_CLOCK;
    }
    talk->state = TALK_READY;
    return TALK_GO_ON;
}

static enum talk_next take_pair(
        struct talk *talk, const char *line, struct tried_pair *pair)
{
    char copy[PAIR_BYTES];
    char *words[5];
    uint64_t to;
    int what;

    if (strcmp(line, "done") == 0) {
        talk->state = TALK_READY;
        return TALK_GO_ON;
    }
    (void)snprintf(copy, sizeof copy, "%s", line);
    if (facts_words(copy, words, 5) != 4 || strcmp(words[0], "pair") != 0 ||
            !facts_number(words[1], &to) ||
            !text_to_choice(words[2], AGENT_PAIRS, &what) ||
            !text_to_int64(words[3], &pair->number)) {
        return TALK_GO_ON;
    }
    pair->to = (size_t)to;
    pair->what = (enum agent_pair)what;
    return TALK_PAIR;
}

static enum talk_next take_fact(struct talk *talk, const char *line)
{
    struct seen *seen = talk->seen;

    if (strcmp(line, FACTS_END) == 0) {
        seen->has_facts = true;
        talk->state = TALK_CLOCK;
        return TALK_ASK_CLOCK;
    }
    if (facts_take(&seen->facts, line) != TUTTI_OK) {
        take_noise(seen, line); /* what should have been there is judged */
    }
    return TALK_GO_ON;
}

enum talk_next talk_line(struct talk *talk, const char *line, int64_t now_real_ns,
        struct tried_pair *pair)
{
    switch (talk->state) {
    case TALK_NOISE:
        if (strcmp(line, FACTS_BEGIN) == 0) {
            talk->state = TALK_FACTS;
        } else {
            take_noise(talk->seen, line);
        }
        return TALK_GO_ON;
    case TALK_FACTS:
        return take_fact(talk, line);
    case TALK_CLOCK:
        return take_clock(talk, line, now_real_ns);
    case TALK_PAIRS:
        return take_pair(talk, line, pair);
    case TALK_READY:
    case TALK_OVER:
        break;
    }
    return TALK_GO_ON;
}
