/*
 * Ends of ranks in words.
 */
#include "launcher/job/exit_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "launcher/exit_status.h"
#include "launcher/job/root_cause.h"

void exit_text_signal(int number, char *text, size_t capacity)
{
    const char *name = sigabbrev_np(number);

    if (name == NULL) {
        (void)snprintf(text, capacity, "signal %d", number);
    } else {
        (void)snprintf(text, capacity, "signal %d (SIG%s)", number, name);
    }
}

static void exit_text_killed(const struct rank *rank, char text[EXIT_TEXT_MAX])
{
    char signal_words[64];

    exit_text_signal(rank->value, signal_words, sizeof signal_words);
    if (rank->is_oom) {
        (void)snprintf(text, EXIT_TEXT_MAX,
                "was killed by the kernel for want of memory%s%s%s",
                rank->detail == NULL ? "" : " (",
                rank->detail == NULL ? "" : rank->detail,
                rank->detail == NULL ? "" : ")");
    } else {
        (void)snprintf(text, EXIT_TEXT_MAX, "was %s by %s%s",
                rank->was_stopped ? "ended" : "killed", signal_words,
                rank->dumped_core ? " and left a core file" : "");
    }
}

static void exit_text_not_run(const struct rank *rank, const char *what, char *text)
{
    (void)snprintf(text, EXIT_TEXT_MAX, "%s: %s", what,
            rank->detail != NULL ? rank->detail : strerrordesc_np(rank->value));
}

/* What an exit came before, though others needed this rank. */
static const char *too_early(const struct rank *rank)
{
    if (rank->is_awaited) {
        return " before it had called MPI_Init, while others waited for it there";
    }
    return root_cause_has_left(rank)
            ? " before the library was finalized, while others ran"
            : "";
}

void exit_text_end(const struct rank *rank, char text[EXIT_TEXT_MAX])
{
    text[0] = '\0';
    switch (rank->end) {
    case RANK_END_NONE:
        break;
    case RANK_END_EXIT:
        (void)snprintf(text, EXIT_TEXT_MAX, "exited with status %d%s", rank->value,
                too_early(rank));
        break;
    case RANK_END_SIGNAL:
        exit_text_killed(rank, text);
        break;
    case RANK_END_EXEC:
        exit_text_not_run(rank, "could not be run", text);
        break;
    case RANK_END_SETUP:
        exit_text_not_run(rank, "could not be started", text);
        break;
    case RANK_END_LOST:
        (void)snprintf(text, EXIT_TEXT_MAX, "was lost");
        break;
    case RANK_END_SILENT:
        (void)snprintf(text, EXIT_TEXT_MAX, "fell silent");
        break;
    case RANK_END_STUCK:
        (void)snprintf(text, EXIT_TEXT_MAX, "was stopped and did not go on");
        break;
    }
}

void exit_text_duration(int64_t ns, char *text, size_t capacity)
{
    int64_t ms = ns / 1000000;

    if (ms < 100) {
        (void)snprintf(text, capacity, "%" PRId64 " ms", ms < 0 ? 0 : ms);
    } else if (ms < 120000) {
        (void)snprintf(text, capacity, "%" PRId64 ".%" PRId64 " s", ms / 1000,
                ms % 1000 / 100);
    } else {
        (void)snprintf(text, capacity, "%" PRId64 " min %" PRId64 " s", ms / 60000,
                ms % 60000 / 1000);
    }
}

int exit_text_status(const struct rank *rank)
{
    switch (rank->end) {
    case RANK_END_EXIT:
        return rank->value == 0 ? 1 : rank->value;
    case RANK_END_SIGNAL:
        return 128 + rank->value;
    case RANK_END_EXEC:
        return rank->value == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    case RANK_END_NONE:
    case RANK_END_SETUP:
    case RANK_END_LOST:
    case RANK_END_SILENT:
    case RANK_END_STUCK:
        break;
    }
    return EXIT_LAUNCHER;
}
