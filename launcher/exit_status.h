/*
 * Exit statuses of tuttirun that are not a rank's. What env, timeout, shells and containers
 * return when they themselves failed is the same.
 */
#ifndef TUTTI_LAUNCHER_EXIT_STATUS_H
#define TUTTI_LAUNCHER_EXIT_STATUS_H

enum {
    EXIT_TIMEOUT = 124, /* --timeout                        */
    EXIT_LAUNCHER = 125, /* tuttirun or the MPI launcher failed   */
    EXIT_CANNOT_RUN = 126, /* a host could not run the program */
    EXIT_NOT_FOUND = 127 /* a host did not find the program  */
};

#endif
