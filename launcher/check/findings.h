/*
 * What tuttirun --check has to say, each with the command that shows it.
 */
#ifndef TUTTI_LAUNCHER_CHECK_FINDINGS_H
#define TUTTI_LAUNCHER_CHECK_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

enum {
    FINDING_TEXT_MAX = 1024 /* bytes of a sentence with its zero */
};

enum finding_level {
    FINDING_WARNING, /* jobs run, but not as they should      */
    FINDING_ERROR /* jobs with this host fail, or may hang */
};

struct finding {
    enum finding_level level;
    char text[FINDING_TEXT_MAX];
    char *command; /* to copy and paste; owned */
};

/** Zeroed is valid and empty. Adding latches the first failure. */
struct findings {
    struct finding *items; /* owned                     */
    size_t count;
    size_t capacity;
    size_t errors; /* of them                   */
    bool failed; /* out of memory             */
};

void findings_fini(struct findings *list);
/** Adds one. Takes ownership of command, which is NULL when out of memory. */
void findings_add(struct findings *list, enum finding_level level, char *command,
        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
