/*
 * Ends of ranks in words and as exit statuses.
 */
#include <errno.h>

#include "launcher/job/exit_text.h"
#include "test/unit/unit.h"

UNIT_TEST(test_ends)
{
    static char limit[] = "cgroup limit 512 MiB";
    static char what[] = "/x/train: Permission denied";
    static const struct {
        struct rank rank;
        const char *words;
        int status;
    } cases[] = {
        { { .end = RANK_END_EXIT, .value = 3 }, "exited with status 3", 3 },
        { { .end = RANK_END_EXIT, .stage = LIBRARY_STAGE_RUNNING },
                "exited with status 0 before the library was finalized, while others "
                "ran",
                1 },
        { { .end = RANK_END_SIGNAL, .value = 11 }, "was killed by signal 11 (SIGSEGV)",
                139 },
        { { .end = RANK_END_SIGNAL, .value = 6, .dumped_core = true },
                "was killed by signal 6 (SIGABRT) and left a core file", 134 },
        { { .end = RANK_END_SIGNAL, .value = 15, .was_stopped = true },
                "was ended by signal 15 (SIGTERM)", 143 },
        { { .end = RANK_END_SIGNAL, .value = 9, .is_oom = true },
                "was killed by the kernel for want of memory", 137 },
        { { .end = RANK_END_SIGNAL, .value = 9, .is_oom = true, .detail = limit },
                "was killed by the kernel for want of memory (cgroup limit 512 MiB)",
                137 },
        { { .end = RANK_END_SIGNAL, .value = 40 }, "was killed by signal 40", 168 },
        { { .end = RANK_END_EXEC, .value = EACCES, .detail = what },
                "could not be run: /x/train: Permission denied", 126 },
        { { .end = RANK_END_EXEC, .value = ENOENT },
                "could not be run: No such file or directory", 127 },
        { { .end = RANK_END_SETUP, .value = EAGAIN },
                "could not be started: Resource temporarily unavailable", 125 },
        { { .end = RANK_END_LOST }, "was lost", 125 },
        { { .end = RANK_END_SILENT }, "fell silent", 125 },
        { { .end = RANK_END_STUCK }, "was stopped and did not go on", 125 },
        { { .end = RANK_END_NONE }, "", 125 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[EXIT_TEXT_MAX];

        exit_text_end(&cases[i].rank, text);
        assert_string_equal(text, cases[i].words);
        assert_int_equal(exit_text_status(&cases[i].rank), cases[i].status);
    }
}

UNIT_TEST(test_durations)
{
    static const struct {
        int64_t ms;
        const char *words;
    } cases[] = {
        { -5, "0 ms" },
        { 0, "0 ms" },
        { 99, "99 ms" },
        { 100, "0.1 s" },
        { 12345, "12.3 s" },
        { 119999, "119.9 s" },
        { 200000, "3 min 20 s" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];

        exit_text_duration(cases[i].ms * 1000000, text, sizeof text);
        assert_string_equal(text, cases[i].words);
    }
}
