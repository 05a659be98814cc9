/*
 * One stream of a rank's output: read from the program, written to its log, split into
 * lines, and sent to tuttirun.
 */
#ifndef TUTTI_LAUNCHER_EXEC_OUTPUT_H
#define TUTTI_LAUNCHER_EXEC_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/exec/lines.h"
#include "launcher/exec/logs.h"

/** How a stream is handled. */
struct output_plan {
    uint8_t stream; /* 1 stdout, 2 stderr                              */
    int rank; /* for sentences; -1: unknown                        */
    uint8_t forward; /* what goes to tuttirun, enum link_forward          */
    bool is_alone; /* no other rank's bytes may come between              */
    uint64_t bytes_per_second; /* of lines; 0: no limit                        */
    const char *folder; /* of its log; "": none                               */
    struct wire_writer *out; /* where lines and sentences go                */
    struct tail *tail; /* of its last lines; NULL: not kept                */
};

/** Zeroed is valid input for output_fini(), but fd is to be -1. */
struct output {
    struct output_plan plan;
    int fd; /* owned; -1: at its end                                  */
    struct log_file log;
    struct lines lines;
    struct rate rate;
    char *batch; /* lines that make one message, or bytes that may; owned  */
    size_t batch_len; /* bytes there                                            */
    int64_t now; /* when the bytes at hand were read                       */
};

/**
 * A log that cannot be opened is told to tuttirun and is no error: the rank runs.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status output_init(
        struct output *output, const struct output_plan *plan);
void output_fini(struct output *output);

/** Reads what there is of fd, once; closes it at its end. */
void output_read(struct output *output, int64_t now);
/** Does what is due by its time. */
void output_tick(struct output *output, int64_t now);
/** When output_tick() has something to do; INT64_MAX: never. */
int64_t output_due(const struct output *output);
/** The program has ended: sends a last line without newline, too. */
void output_flush(struct output *output, int64_t now);

#endif
