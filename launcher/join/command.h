/*
 * A command that the first host sent, on a host that joined: /bin/sh -c, as ssh would run
 * it, with pipes.
 */
#ifndef TUTTI_LAUNCHER_JOIN_COMMAND_H
#define TUTTI_LAUNCHER_JOIN_COMMAND_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    COMMAND_STREAMS = 3 /* of a command that are polled */
};

/** Zeroed is none. */
struct command {
    uint32_t channel;
    pid_t pid; /* its process group, too; 0: there is none         */
    int streams[COMMAND_STREAMS]; /* our ends of stdin, stdout, stderr; -1: closed */
    uint8_t *input; /* not yet written; owned                           */
    size_t input_len;
    size_t input_capacity;
    bool input_ends; /* nothing comes after that                         */
    bool has_ended; /* and was reaped                                   */
    int status; /* its exit status, 128+signal                      */
};

/** Starts `sh -c` of a text that need not end in a zero; false when it cannot. */
bool command_start(
        struct command *command, uint32_t channel, const char *text, size_t len);
void command_fini(struct command *command);

/** Input for it; no bytes: the end. What is too much to keep ends its input. */
void command_give(struct command *command, const char *bytes, size_t len);
/** Notes what waitpid() said. */
void command_note_end(struct command *command, int end);
/** True when it has ended and all of its output was relayed. */
bool command_is_over(const struct command *command);
/** A signal to all of its process group. */
void command_kill(const struct command *command, int number);

/** Puts what can be waited for; returns how many, up to COMMAND_STREAMS. */
nfds_t command_list(const struct command *command, struct pollfd *polls);
/** Reads what is there of its output and sends it, writes what it takes of its input. */
void command_relay(struct command *command, int fd);

#endif
