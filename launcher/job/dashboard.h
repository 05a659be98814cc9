/*
 * --dashboard: how the ranks are doing, as a page for browsers. tuttirun's own loop serves it,
 * and is not held up by who reads it (session/http.h). The page is dashboard.html; it asks for
 * the state once a second.
 */
#ifndef TUTTI_LAUNCHER_JOB_DASHBOARD_H
#define TUTTI_LAUNCHER_JOB_DASHBOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/wire.h"
#include "launcher/session/http.h"

struct job;

/** Zeroed with http.listener.fd -1: there is none. */
struct dashboard {
    struct http_server http;
    struct wire_writer state; /* JSON; made anew when it is old and asked for */
    int64_t made; /* when that was, our clock                                */
    int64_t asked; /* when it was asked for last; 0: never                   */
    bool shows_end; /* state is of after the end of the job                    */
    bool has_shown_end; /* such a state was asked for                            */
};

/** Listens where that was asked for, and says where; when it cannot, it says why. */
void dashboard_begin(struct job *job);
/** The job is over: a page that asks for the state learns how it has ended, if it does so soon. */
void dashboard_show_end(struct job *job);
void dashboard_end(struct job *job);

#endif
