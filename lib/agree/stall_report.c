/*
 * The text of a stall report.
 */
#include "agree/stall_report.h"

#include <stdio.h>
#include <string.h>

void stall_report_add(struct stall_report *report, const char *text)
{
    const size_t room = sizeof report->text - 1 - report->len;
    const size_t len = strnlen(text, room);

    memcpy(report->text + report->len, text, len);
    report->len += len;
    report->text[report->len] = '\0';
}

void stall_report_begin(struct stall_report *report, int64_t stalled_ns)
{
    char text[64];

    report->len = 0;
    (void)snprintf(
            text, sizeof text, "stalled for %.3g s: ", (double)stalled_ns * 1e-9);
    stall_report_add(report, text);
}

void stall_report_name(
        struct stall_report *report, const struct tensor_state *tensor, int position)
{
    char text[TUTTI_NAME_MAX + 64];

    if (position < STALL_NAMES_MAX) {
        (void)snprintf(text, sizeof text, "%s%s \"%s\"", position > 0 ? ", " : "",
                meta_collective_name(tensor->collective), tensor->name);
        stall_report_add(report, text);
    }
}

void stall_report_more(struct stall_report *report, int count, int named_max)
{
    char text[32];

    if (count > named_max) {
        (void)snprintf(text, sizeof text, " and %d more", count - named_max);
        stall_report_add(report, text);
    }
}
