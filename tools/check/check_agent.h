/*
 * tuttirun --check-host: what tuttirun --check starts on every host. It writes the facts of
 * the host (facts.h) to stdout and then executes commands from stdin, a line each:
 *
 *   clock                          answers "clock NS", its CLOCK_REALTIME
 *   to ID NONCE PORT ADDRESS       a host to connect to: at most AGENT_PEERS_MAX
 *   go                             connects to all of them at once; answers, for each,
 *                                  "pair ID WHAT NUMBER" (see enum agent_pair), and "done"
 *
 * It ends with its input. Meanwhile it accepts connections and sends its nonce on each, which
 * shows that the connection reached the intended host: addresses such as those of docker0 are
 * the same on many hosts.
 */
#ifndef TUTTI_TOOLS_CHECK_AGENT_H
#define TUTTI_TOOLS_CHECK_AGENT_H

enum {
    AGENT_PEERS_MAX = 256, /* hosts that one host connects to          */
    AGENT_CONNECT_MS = 2000 /* for all connections together            */
};

/** What became of a connection. */
enum agent_pair {
    AGENT_PAIR_OK, /* number: microseconds                            */
    AGENT_PAIR_FAILED, /* number: errno                                   */
    AGENT_PAIR_STRANGER /* another host, or none of ours, answered; number: 0 */
};

/** "ok|failed|stranger", in the order of the enum, as they are on the line. */
#define AGENT_PAIRS "ok|failed|stranger"

/**
 * @param argv  what follows --check-host: the path of the MPI launcher
 * @return exit status of the process
 */
int agent_main(char *const *argv, char *const *environment);

#endif
