/*
 * The metrics of all ranks of a host, told by one supervisor: that of local rank 0. The others
 * give it a descriptor of their rank's recording, from which it reads the counters
 * (observe/metrics.h) whenever somebody asks, also of a rank that has died.
 *
 * It serves them over HTTP (--metrics-port) and writes them to a file now and then
 * (--metrics-file). What goes wrong is a note for the console, and no more.
 */
#ifndef TUTTI_LAUNCHER_EXEC_HOST_METRICS_H
#define TUTTI_LAUNCHER_EXEC_HOST_METRICS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/exec/rank.h"
#include "launcher/session/http.h"
#include "observe/metrics.h"

/** What --metrics-port, --metrics-address, --metrics-file and --metrics-interval say. */
struct metrics_orders {
    int port; /* 0: no HTTP                                      */
    char address[64]; /* in numbers                                      */
    char file[PATH_MAX]; /* "": none; "%h" is the host's name               */
    int64_t interval_ns; /* between writes                                  */
};

/** Zeroed with fd and http.listener.fd -1 is valid input for host_metrics_fini(). */
struct host_metrics {
    struct metrics_orders orders;
    bool is_collector; /* of the host                                    */
    char name[48]; /* where descriptors are sent to: an abstract Unix socket */
    int fd; /* of that socket, or -1                                     */
    struct loop *loop; /* borrowed                                       */
    struct loop_watch watch;
    int *recordings; /* descriptors, one for each rank that has sent it; owned */
    size_t count, capacity;
    int own; /* the recording that is still to be sent; -1: none        */
    int64_t write_due; /* INT64_MAX: no file                             */
    struct http_server http;
    bool has_failed; /* to write the file: said once                     */
};

/**
 * Begins, where anything was asked for.
 * @param secret     of the job, which other users do not know
 * @param recording  this rank's; -1: none
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (what works of it goes on)
 */
TUTTI_MUST_USE tutti_status host_metrics_begin(struct host_metrics *host,
        struct loop *loop, const struct rank_place *rank, const char *secret,
        int recording);
/** Does what is due. @return as above, a failure once */
TUTTI_MUST_USE tutti_status host_metrics_step(struct host_metrics *host, int64_t now);
/** Writes the file for the last time, and ends. */
void host_metrics_fini(struct host_metrics *host);

/** The metrics of a recording; false: there is none yet, or it is none. */
bool host_metrics_read(
        int recording, struct metrics *metrics, struct metrics_source *source);

/** The format that a file's name stands for: .prom, .json, .jsonl; -1: none. */
int host_metrics_format_of(const char *file);

#endif
