/*
 * What a program prints about its version.
 */
#ifndef TUTTI_LAUNCHER_STARTER_VERSION_H
#define TUTTI_LAUNCHER_STARTER_VERSION_H

enum {
    VERSION_TEXT_MAX = 1024, /* bytes that are looked at, with a zero */
    VERSION_WAIT_MS = 10000 /* a program that is silent so long is ended */
};

/**
 * Runs "PATH --version" and reads the beginning of what it prints; "" when it cannot be run
 * or is silent.
 */
void version_read(
        const char *path, char *const *environment, char text[VERSION_TEXT_MAX]);

#endif
