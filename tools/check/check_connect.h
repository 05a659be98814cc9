/*
 * tuttirun --check-connect HOST PORT and tuttirun --check-listen PORT: one connection, to
 * show by hand what tuttirun --check found.
 */
#ifndef TUTTI_TOOLS_CHECK_CONNECT_H
#define TUTTI_TOOLS_CHECK_CONNECT_H

/** Exit statuses of --check-connect. */
enum connect_exit {
    CONNECT_EXIT_OK = 0,
    CONNECT_EXIT_USAGE = 2,
    CONNECT_EXIT_UNRESOLVED = 3, /* the name has no address          */
    CONNECT_EXIT_UNREACHED = 4 /* no address took the connection   */
};

/**
 * Resolves, connects and prints the result, in one line on stdout.
 * @param argv  host and port
 */
int connect_main(char *const *argv);
/** Listens, takes one connection within 20 s and prints its origin. @param argv  port */
int connect_listen_main(char *const *argv);

#endif
