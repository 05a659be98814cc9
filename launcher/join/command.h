/*
 * A command that the first host sent, on a host that joined: /bin/sh -c, as ssh would run
 * it, with pipes.
 */
#ifndef TUTTI_LAUNCHER_JOIN_COMMAND_H
#define TUTTI_LAUNCHER_JOIN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/join/join_message.h"

enum {
    COMMAND_STREAMS = 3
};

/** Zeroed is none. */
struct command {
    uint32_t channel;
    pid_t pid; /* its process group, too; 0: there is none         */
    struct loop *loop; /* that watches its streams                          */
    struct loop_watch watches[COMMAND_STREAMS];
    int streams[COMMAND_STREAMS]; /* our ends of stdin, stdout, stderr; -1: closed */
    uint8_t *input; /* not yet written; owned                           */
    size_t input_len;
    size_t input_capacity;
    bool input_ends; /* nothing comes after that                         */
    bool has_ended; /* and was reaped                                   */
    int status; /* its exit status, 128+signal                      */
};

/**
 * Starts `sh -c` of a text that need not end in a zero; false when it cannot.
 * @param loop  returns from waiting when something is to be relayed
 */
bool command_start(struct command *command, struct loop *loop, uint32_t channel,
        const char *text, size_t len);
void command_fini(struct command *command);

/**
 * Input for it; no bytes: the end. More is asked for when it has taken all; what comes
 * unasked and is too much ends its input.
 */
void command_give(struct command *command, const char *bytes, size_t len);
/** Notes what waitpid() said. */
void command_note_end(struct command *command, int end);
/** True when it has ended and all of its output was relayed. */
bool command_is_over(const struct command *command);
/** A signal to all of its process group. */
void command_kill(const struct command *command, int number);

/** Sends what is there of its output, writes what it takes of its input. */
void command_relay(struct command *command, struct session *session);

#endif
