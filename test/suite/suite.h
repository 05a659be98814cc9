/*
 * The behavioural tests of the public API: topics that all ranks of a job run together,
 * whether the ranks are threads of one process or processes.
 *
 * A topic gets the context that all topics share, and opens further ones where it breaks
 * them or configures them. It leaves the shared context working, with nothing in flight.
 */
#ifndef TUTTI_TEST_SUITE_SUITE_H
#define TUTTI_TEST_SUITE_SUITE_H

#include <stdbool.h>

#include "test/suite/checks.h"
#include "test/suite/job.h"

typedef void (*suite_topic)(tutti *t, struct checks *c);

void suite_values(tutti *t, struct checks *c);
void suite_trees(tutti *t, struct checks *c);
void suite_collectives(tutti *t, struct checks *c);
void suite_rows(tutti *t, struct checks *c);
void suite_claims(tutti *t, struct checks *c);
void suite_join(tutti *t, struct checks *c);
void suite_many_sets(tutti *t, struct checks *c);
void suite_ends(tutti *t, struct checks *c);
void suite_leaving(tutti *t, struct checks *c);
void suite_programs(tutti *t, struct checks *c);
void suite_bad_rows(tutti *t, struct checks *c);
void suite_moves(tutti *t, struct checks *c);
void suite_messages(tutti *t, struct checks *c);
void suite_board(tutti *t, struct checks *c);
void suite_threads(tutti *t, struct checks *c);
void suite_rivals(tutti *t, struct checks *c);
void suite_late(tutti *t, struct checks *c);
void suite_requests(tutti *t, struct checks *c);
void suite_refusals(tutti *t, struct checks *c);
void suite_mismatches(tutti *t, struct checks *c);
void suite_steps(tutti *t, struct checks *c);
void suite_sets(tutti *t, struct checks *c);
void suite_groups(tutti *t, struct checks *c);
void suite_registered(tutti *t, struct checks *c);
void suite_ids(tutti *t, struct checks *c);
void suite_cancel(tutti *t, struct checks *c);
void suite_stall(tutti *t, struct checks *c);
void suite_failure(tutti *t, struct checks *c);
void suite_abort(tutti *t, struct checks *c);
void suite_finalize(tutti *t, struct checks *c);
void suite_config(tutti *t, struct checks *c);
void suite_memory(tutti *t, struct checks *c);
void suite_nodes(tutti *t, struct checks *c);

/** What the command line asks for. */
struct suite_selection {
    bool list; /* --list: print the messages that are provoked      */
    char **without; /* "--without", a topic that is left out, and again  */
    int without_count; /* how often                                         */
    bool gpu; /* --gpu: tensors lie in simulated device memory     */
    const char *nccl; /* --nccl: "none", or a file; NULL: the simulated one */
    int count; /* topics named; 0: all                              */
    char **names; /* them                                              */
};

/**
 * Parses [--list] [--without topic]... [--gpu] [--nccl file] [topic...]; false, having said
 * so, for an unknown topic.
 */
bool suite_select(int argc, char **argv, struct suite_selection *selection);

/** gpu_begin() with the simulator of this build; `nccl` as in the selection. */
void suite_begin_gpu(const char *nccl, int ranks);

/**
 * Checks, with GPUs, that device memory went the way that it was to go: with NCCL not all of
 * it through host memory, without it all.
 */
void suite_check_paths(tutti *t, struct checks *c);

/** Runs the selected topics on this rank: opens and finalizes the shared context. */
void suite_run(const struct suite_selection *selection, struct checks *c);

#endif
