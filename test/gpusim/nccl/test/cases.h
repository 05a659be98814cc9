/*
 * The cases: each is run by all ranks, and checks with CHECK().
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_TEST_CASES_H
#define TUTTI_TEST_GPUSIM_NCCL_TEST_CASES_H

#include "test/gpusim/nccl/test/ranks.h"

/* What is computed (cases_values.c). */
void case_values(struct rank *rank);
void case_rounding(struct rank *rank);
void case_scaled(struct rank *rank);
void case_large(struct rank *rank);
void case_pairs(struct rank *rank);
void case_group(struct rank *rank);
void case_float8(struct rank *rank);

/* What ranks must do alike, and what hangs otherwise (cases_order.c). */
void case_other_function(struct rank *rank);
void case_other_count(struct rank *rank);
void case_other_type(struct rank *rank);
void case_other_op(struct rank *rank);
void case_other_root(struct rank *rank);
void case_other_group(struct rank *rank);
void case_other_host_call(struct rank *rank);
void case_other_length(struct rank *rank);
void case_unmatched(struct rank *rank);
void case_ungrouped(struct rank *rank);
void case_crossed(struct rank *rank);
void case_straight(struct rank *rank);
void case_missing(struct rank *rank);
void case_unordered_streams(struct rank *rank);

/* Communicators from their making to their end (cases_life.c). */
void case_cycles(struct rank *rank);
void case_polled(struct rank *rank);
void case_not_polled(struct rank *rank);
void case_mixed(struct rank *rank);
void case_duplicate(struct rank *rank);
void case_host_ids(struct rank *rank);
void case_rank_twice(struct rank *rank);
void case_other_size(struct rank *rank);
void case_one_thread(struct rank *rank);
void case_split(struct rank *rank);
void case_split_polled(struct rank *rank);
void case_split_busy(struct rank *rank);
void case_used_destroyed(struct rank *rank);
void case_used_aborted(struct rank *rank);
void case_used_finalized(struct rank *rank);
void case_destroy_meets(struct rank *rank);
void case_finalize(struct rank *rank);

/* When something goes wrong (cases_faults.c). */
void case_skip(struct rank *rank);
void case_kill(struct rank *rank);
void case_kill_in_init(struct rank *rank);
void case_abort_group(struct rank *rank);
void case_abort_one_by_one(struct rank *rank);
void case_revoke(struct rank *rank);
void case_shrink(struct rank *rank);
void case_async(struct rank *rank);
void case_kernel(struct rank *rank);
void case_call(struct rank *rank);
void case_slow(struct rank *rank);
void case_init(struct rank *rank);
void case_late(struct rank *rank);

/* Memory and arguments (cases_memory.c). */
void case_registration(struct rank *rank);
void case_freed_registered(struct rank *rank);
void case_left_registered(struct rank *rank);
void case_registered_apart(struct rank *rank);
void case_registered_elsewhere(struct rank *rank);
void case_wrong_handle(struct rank *rank);
void case_window(struct rank *rank);
void case_host_memory(struct rank *rank);
void case_overlap(struct rank *rank);
void case_other_device(struct rank *rank);
void case_race(struct rank *rank);

#endif
