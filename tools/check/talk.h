/*
 * The protocol with the agent of one host (check_agent.h): takes lines and fills struct seen.
 * No I/O; the time is a parameter.
 */
#ifndef TUTTI_TOOLS_CHECK_TALK_H
#define TUTTI_TOOLS_CHECK_TALK_H

#include <stdint.h>

#include "tools/check/host_findings.h"

enum {
    TALK_CLOCKS = 3 /* questions for the clock; the fastest answer counts */
};

/** Where the conversation is. */
enum talk_state {
    TALK_NOISE, /* before the mark: output of a shell        */
    TALK_FACTS, /* between the marks                          */
    TALK_CLOCK, /* was asked for its clock                    */
    TALK_READY, /* nothing is asked                           */
    TALK_PAIRS, /* connects to the others                     */
    TALK_OVER /* it has ended, or its output is ignored      */
};

struct talk {
    struct seen *seen; /* borrowed                                        */
    enum talk_state state; /* the caller sets TALK_PAIRS and TALK_OVER        */
    int clocks; /* answers so far                                  */
    int64_t asked_real_ns; /* our CLOCK_REALTIME when it was asked            */
};

/** What is to be done after a line. */
enum talk_next {
    TALK_GO_ON, /* nothing                                                */
    TALK_ASK_CLOCK, /* set asked_real_ns and send "clock"                     */
    TALK_PAIR, /* *pair is the outcome of a connection; `from` is not set */
};

/**
 * Takes a line.
 * @param now_real_ns  CLOCK_REALTIME when it came
 */
enum talk_next talk_line(struct talk *talk, const char *line, int64_t now_real_ns,
        struct tried_pair *pair);

#endif
