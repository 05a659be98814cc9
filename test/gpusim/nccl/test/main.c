/*
 * Runs one case of the simulated NCCL: test_gpusim_nccl CASE processes|threads RANKS
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/nccl/test/cases.h"

/* A rule that is broken ends the process with this status. */
#define FOUND 97

static const struct {
    const char *name;
    void (*body)(struct rank *rank);
    struct expectation expected;
    const char *environment[6]; /* names and values, by turns */
} cases[] = {
    { .name = "values", .body = case_values },
    { .name = "rounding", .body = case_rounding },
    { .name = "scaled", .body = case_scaled },
    { .name = "large", .body = case_large },
    { .name = "pairs", .body = case_pairs },
    { .name = "group", .body = case_group },
    { .name = "float8",
            .body = case_float8,
            .expected = { .status = FOUND, .says = "only moves 8-bit floats" } },
    { .name = "other_function",
            .body = case_other_function,
            .expected = { .status = FOUND, .says = "MISMATCH in communicator" } },
    { .name = "other_count",
            .body = case_other_count,
            .expected = { .status = FOUND, .says = "MISMATCH in communicator" } },
    { .name = "other_type",
            .body = case_other_type,
            .expected = { .status = FOUND, .says = "MISMATCH in communicator" } },
    { .name = "other_op",
            .body = case_other_op,
            .expected = { .status = FOUND, .says = "MISMATCH in communicator" } },
    { .name = "other_root",
            .body = case_other_root,
            .expected = { .status = FOUND, .says = "MISMATCH in communicator" } },
    { .name = "other_group",
            .body = case_other_group,
            .expected = { .status = FOUND, .says = "MISMATCH in communicator" } },
    { .name = "other_host_call",
            .body = case_other_host_call,
            .expected = { .status = FOUND, .says = "calls ncclCommSplit" } },
    { .name = "other_length",
            .body = case_other_length,
            .expected = { .status = FOUND,
                    .says = "receives 252 bytes of float32, rank 0 sends 256" } },
    { .name = "unmatched",
            .body = case_unmatched,
            .expected = { .status = FOUND, .says = "HANG: rank 0" },
            .environment = { "GPUSIM_HANG_S", "1" } },
    { .name = "ungrouped",
            .body = case_ungrouped,
            .expected = { .status = FOUND, .says = "waits in ncclSend" },
            .environment = { "GPUSIM_HANG_S", "1" } },
    { .name = "crossed",
            .body = case_crossed,
            .expected = { .status = FOUND,
                    .says = "waiting on its device behind ncclAllReduce" },
            .environment = { "GPUSIM_HANG_S", "1" } },
    { .name = "straight", .body = case_straight },
    { .name = "missing",
            .body = case_missing,
            .expected = { .status = FOUND,
                    .says = "which has done ncclAllReduce #0 and launched nothing "
                            "since" },
            .environment = { "GPUSIM_HANG_S", "1" } },
    { .name = "unordered_streams", .body = case_unordered_streams },
    { .name = "cycles", .body = case_cycles },
    { .name = "polled", .body = case_polled },
    { .name = "not_polled",
            .body = case_not_polled,
            .expected = { .status = FOUND,
                    .says = "use before ncclCommGetAsyncError has said" } },
    { .name = "mixed",
            .body = case_mixed,
            .expected = { .status = FOUND, .says = "blocking and with non-blocking" } },
    { .name = "duplicate", .body = case_duplicate },
    { .name = "host_ids", .body = case_host_ids },
    { .name = "rank_twice",
            .body = case_rank_twice,
            .expected = { .status = FOUND, .says = "the rank is there already" },
            .environment = { "GPUSIM_HANG_S", "1" } },
    { .name = "other_size",
            .body = case_other_size,
            .expected = { .status = FOUND, .says = "ranks, for rank" },
            .environment = { "GPUSIM_HANG_S", "1" } },
    { .name = "one_thread", .body = case_one_thread },
    { .name = "split", .body = case_split },
    { .name = "split_polled", .body = case_split_polled },
    { .name = "split_busy",
            .body = case_split_busy,
            .expected = { .status = FOUND, .says = "operations are outstanding" } },
    { .name = "used_destroyed",
            .body = case_used_destroyed,
            .expected = { .status = FOUND, .says = "use after its end" } },
    { .name = "used_aborted",
            .body = case_used_aborted,
            .expected = { .status = FOUND, .says = "use after its end" } },
    { .name = "used_finalized",
            .body = case_used_finalized,
            .expected = { .status = FOUND, .says = "after ncclCommFinalize" } },
    { .name = "destroy_meets", .body = case_destroy_meets },
    { .name = "finalize", .body = case_finalize },
    { .name = "skip",
            .body = case_skip,
            .environment = { "GPUSIM_NCCL_FAIL", "1:skip:2:0" } },
    { .name = "kill", .body = case_kill, .expected = { .may_die = true } },
    { .name = "kill_in_init",
            .body = case_kill_in_init,
            .expected = { .may_die = true } },
    { .name = "abort_group",
            .body = case_abort_group,
            .environment = { "GPUSIM_RESIDENT", "2" } },
    { .name = "abort_one_by_one",
            .body = case_abort_one_by_one,
            .expected = { .status = FOUND, .says = "HANG: rank 0" },
            .environment = { "GPUSIM_RESIDENT", "2", "GPUSIM_HANG_S", "1" } },
    { .name = "revoke",
            .body = case_revoke,
            .expected = { .status = FOUND, .says = "after ncclCommRevoke" } },
    { .name = "shrink", .body = case_shrink, .expected = { .may_die = true } },
    { .name = "async",
            .body = case_async,
            .environment = { "GPUSIM_NCCL_FAIL", "0:async:2:6" } },
    { .name = "kernel",
            .body = case_kernel,
            .environment = { "GPUSIM_NCCL_FAIL", "0:kernel:1:700" } },
    { .name = "call",
            .body = case_call,
            .environment = { "GPUSIM_NCCL_FAIL", "0:ncclAllReduce:3:2" } },
    { .name = "slow",
            .body = case_slow,
            .environment = { "GPUSIM_NCCL_FAIL", "0:slow:1:50000" } },
    { .name = "init",
            .body = case_init,
            .environment = { "GPUSIM_NCCL_FAIL", "0:init:1:0" } },
    { .name = "late",
            .body = case_late,
            .environment = { "GPUSIM_NCCL_FAIL", "0:late:1:0" } },
    { .name = "registration", .body = case_registration },
    { .name = "left_registered",
            .body = case_left_registered,
            .expected = { .status = FOUND,
                    .says = "memory is still registered with it" } },
    { .name = "registered_apart",
            .body = case_registered_apart,
            .expected = { .status = FOUND, .says = "registered at 0 and 0" } },
    { .name = "registered_elsewhere",
            .body = case_registered_elsewhere,
            .expected = { .status = FOUND, .says = "registered at 257 and 257" } },
    { .name = "freed_registered",
            .body = case_freed_registered,
            .expected = { .status = FOUND,
                    .says = "which is registered with a communicator" } },
    { .name = "wrong_handle",
            .body = case_wrong_handle,
            .expected = { .status = FOUND,
                    .says = "a handle that is not of this communicator" } },
    { .name = "window", .body = case_window },
    { .name = "host_memory",
            .body = case_host_memory,
            .expected = { .status = FOUND, .says = "not (all) device memory" } },
    { .name = "overlap",
            .body = case_overlap,
            .expected = { .status = FOUND, .says = "input and output overlap" } },
    { .name = "other_device",
            .body = case_other_device,
            .expected = { .status = FOUND, .says = "a stream of another device" } },
    { .name = "race",
            .body = case_race,
            .expected = { .status = FOUND, .says = "RACE" } },
};

int main(int count, char **arguments)
{
    size_t i;
    size_t k;

    if (count != 4) {
        (void)fprintf(stderr, "usage: %s CASE processes|threads RANKS\n", arguments[0]);
        return 2;
    }
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, arguments[1]) != 0) {
            continue;
        }
        for (k = 0;
                k + 1 < sizeof cases[i].environment / sizeof cases[i].environment[0] &&
                cases[i].environment[k] != NULL;
                k += 2) {
            (void)setenv(cases[i].environment[k], cases[i].environment[k + 1], 1);
        }
        return ranks_run(cases[i].body, (int)strtol(arguments[3], NULL, 10),
                strcmp(arguments[2], "threads") == 0, &cases[i].expected);
    }
    (void)fprintf(stderr, "no case %s\n", arguments[1]);
    return 2;
}
