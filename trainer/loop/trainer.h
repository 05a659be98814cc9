/*
 * What a trainer consists of, and what its files do for each other.
 */
#ifndef TUTTI_TRAINER_LOOP_TRAINER_H
#define TUTTI_TRAINER_LOOP_TRAINER_H

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <tutti/trainer/loop.h>

#include "state/agree.h"

enum {
    METRICS_MAX = 64,
    METRIC_NAME_MAX = 100, /* bytes, without the terminating zero */
};

/** Where a run is; equal on all ranks. It is a tensor of a checkpoint, so int64 only. */
struct position {
    int64_t steps; /* done                                                     */
    int64_t epochs; /* done                                                     */
    int64_t epoch_steps; /* done of the current epoch                                */
    int64_t samples; /* of all ranks                                             */
    int64_t skipped; /* steps without an update                                  */
    int64_t best_step; /* done when the monitored metric was the best; -1: never   */
    int64_t waited; /* values of it since then that were no better              */
    tutti_shard_state shard; /* when the checkpoint was saved                      */
    int64_t ranks; /* likewise                                                 */
};

/** Likewise, of float64. */
struct measures {
    double loss_sum; /* of loss * samples of all ranks since the last report     */
    double loss_weight; /* samples of these                                         */
    double best; /* value of the monitored metric; NaN: none yet             */
};

struct metric {
    char name[METRIC_NAME_MAX + 1];
    double sum; /* of value * weight on this rank since the last report     */
    double weight; /* likewise                                                 */
    double value; /* mean over the ranks; NaN before the first report         */
    bool fresh; /* some rank had a value in the last report                 */
};

/** What rates are made of: totals until a time, or their differences between two. */
struct lap {
    double seconds; /* monotonic                                               */
    double waited; /* seconds of this rank inside tutti                       */
    double samples; /* of all ranks                                            */
    double steps;
};

/** A file that grows at its end, and has whole records only. */
struct log_file {
    char path[PATH_MAX]; /* empty: not open */
    int fd;
    off_t bytes; /* that are in it */
};

struct tutti_trainer {
    struct state_group group; /* the ranks that train                          */
    tutti_trainer_options options; /* a copy; its pointers are borrowed. progress is
                                      what this rank shows, once a run has begun  */
    tutti_reducer *reducer; /* made here, as was options.optimizer; NULL: neither  */
    int64_t *indices; /* room for a batch; owned; NULL without a shard          */
    tutti_state_tensor *tensors; /* of a checkpoint, once started; owned          */
    size_t tensor_count;
    size_t carried; /* the last of them: the reducer's                        */

    struct position position;
    struct measures measures;
    struct metric metrics[METRICS_MAX]; /* in the order of their names, so that ranks
                                           may begin with different ones          */
    int metric_count;
    double learning_rate; /* of the last step; NaN: the loop does not know it       */
    int64_t saved_steps; /* position.steps of the last checkpoint; -1: none        */
    bool started; /* the state is loaded or broadcast                       */
    bool evaluating; /* inside the callback                                    */
    bool epoch_over; /* no rank has another batch in this epoch                */
    bool stopping; /* all ranks know that one of them asked for it           */
    bool told; /* all ranks know that tuttirun has told one something      */
    bool leaving; /* that is committed: the ranks leave, to be started anew   */
    atomic_int stop; /* asked for on this rank                                 */

    tutti_events *events; /* with lines open on rank 0 during a run; NULL: no log   */
    struct log_file lines;
    int64_t lost_reports; /* that could not be written in whole                     */
    bool drawn; /* the bar is on the line of the cursor                   */
    int64_t drawn_ns; /* when, monotonic                                        */
    struct lap run; /* when this run began                                    */
    struct lap report; /* when the last report was made                          */
};

/* ------------------------------------------------------------------------- trainer.c */

/**
 * Ends the job if something has failed that the other ranks cannot know of, and may wait for: the
 * contexts fail with its message. What all ranks know of already (a mismatch, a failed context) is
 * only returned.
 * @param status  of this rank; its message is tutti_last_error()
 * @param what    what has ended, for example "the step callback"
 * @return status, with the message
 */
TUTTI_MUST_USE tutti_status trainer_ended(
        tutti_trainer *trainer, tutti_status status, const char *what);

/* ------------------------------------------------------------------------- metrics.c */

/** The metric of a name; NULL if there is none. */
const struct metric *metrics_find(const tutti_trainer *trainer, const char *name);

/** Two metrics of the loop's own, beside the loss and the learning rate. */
#define METRICS_RATE "samples_per_s"
#define METRICS_SHARE "communication"

/** As tutti_trainer_metric_weighted(), of any name. */
TUTTI_MUST_USE tutti_status metrics_add(
        tutti_trainer *trainer, const char *name, double value, double weight);

/** The names of all metrics, cut to the room, for messages. Returns text. */
const char *metrics_names(const tutti_trainer *trainer, char *text, size_t room);

/**
 * Averages what was added over the ranks, and begins anew.
 * @return TUTTI_OK, TUTTI_ERR_MISMATCH (on all ranks: they have different metrics; nothing has
 *         changed), and the statuses of tutti_allreduce()
 */
TUTTI_MUST_USE tutti_status metrics_average(tutti_trainer *trainer);

/** Takes the next value of the monitored metric; true if it is the best so far. NaN never is. */
bool monitor_update(tutti_trainer *trainer, double value);

/** True if the run is to end because that metric no longer improves. */
bool monitor_exhausted(const tutti_trainer *trainer);

/* --------------------------- events.c: files of TensorBoard, and other logs */

/**
 * Opens a file for writing at its end.
 * @param fresh  it must not exist
 * @return TUTTI_AGAIN: it exists, and should not; TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status log_file_open(
        struct log_file *file, const char *directory, const char *name, bool fresh);

/** Appends all or nothing, for example on a full disk: TUTTI_OK, TUTTI_ERR_SYSTEM. */
TUTTI_MUST_USE tutti_status log_file_append(
        struct log_file *file, const void *data, size_t bytes);

/** Closes a file, if it is open; TUTTI_ERR_SYSTEM where the system tells only now that a write
 *  failed. */
tutti_status log_file_close(struct log_file *file);

/* --------------------------- metrics_log.c: metrics.jsonl, and events for TensorBoard */

/** Opens the log on this rank. An error leaves what metrics_log_close() closes. */
TUTTI_MUST_USE tutti_status metrics_log_open(tutti_trainer *trainer);

/**
 * Writes the metrics of the last report, if the log is open. An error is counted, and the first
 * one is logged: a run goes on when its diary cannot be written.
 */
void metrics_log_write(tutti_trainer *trainer);

/** Closes the log, if it is open; an error is counted and logged likewise. */
void metrics_log_close(tutti_trainer *trainer);

/* --------------------------------- report.c: the metrics of the loop itself, and what is shown */

/** Chooses what this rank shows, and begins to count time, waiting and samples. */
void report_begin(tutti_trainer *trainer);

/** Averages, writes and shows the metrics; the statuses of metrics_average(). */
TUTTI_MUST_USE tutti_status report_make(tutti_trainer *trainer);

/** Draws the bar, if there is one that was not drawn in the last tenth of a second. */
void report_progress(tutti_trainer *trainer);

/** Fills the summary and shows it. */
void report_end(tutti_trainer *trainer, tutti_trainer_summary *summary);

/** Draws the bar: 0 to 1 is done; the text stands behind it. */
void progress_draw(tutti_trainer *trainer, double done, const char *text);

/** Writes a line, in place of the bar if there is one. */
void progress_line(tutti_trainer *trainer, const char *text);

/* ------------------------------------------------- checkpoint.c: the last and the best */

/** Makes the state equal on all ranks: the last checkpoint's, or else that of rank 0. */
TUTTI_MUST_USE tutti_status checkpoint_start(tutti_trainer *trainer);

/** Commits, where the job is elastic. TUTTI_OK, also where the ranks are to leave: `leaving`. */
TUTTI_MUST_USE tutti_status checkpoint_commit(tutti_trainer *trainer);

/** Saves the last checkpoint, if there are to be any and steps were done since then. */
TUTTI_MUST_USE tutti_status checkpoint_save_last(tutti_trainer *trainer);

/** Saves the best checkpoint, if there are to be any. */
TUTTI_MUST_USE tutti_status checkpoint_save_best(tutti_trainer *trainer);

#endif
