/*
 * What tuttirun --check prints: columns as wide as they need to be.
 */
#include "tools/check/check_show.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

enum {
    COLUMNS = 10,
    CELL_MAX = 64,
    FINDINGS_SHOWN = 20 /* of those about no single host */
};

struct row {
    char cells[COLUMNS][CELL_MAX];
};

static void cell(char *text, const char *value)
{
    (void)snprintf(text, CELL_MAX, "%.*s", CELL_MAX - 1, value);
}

static void gpus_cell(char *text, uint64_t gpus)
{
    if (gpus == 0) {
        cell(text, "no GPU");
    } else {
        (void)snprintf(text, CELL_MAX, "%llu GPU%s", (unsigned long long)gpus,
                gpus == 1 ? "" : "s");
    }
}

static void clock_cell(char *text, const struct seen *seen)
{
    double offset = seen->offset_s;

    if (!seen->has_clock) {
        cell(text, "clock unknown");
    } else if (fabs(offset) <= seen->round_trip_s) {
        cell(text, "clock equal");
    } else {
        (void)snprintf(text, CELL_MAX,
                fabs(offset) < 1 ? "clock %+.1f ms" : "clock %+.1f s",
                fabs(offset) < 1 ? offset * 1e3 : offset);
    }
}

/* The same columns for all hosts; those of a host that did not answer end early. */
static void fill_row(struct row *row, const struct seen *seen)
{
    const struct facts *facts = &seen->facts;
    char bytes[CELL_MAX / 2];

    *row = (struct row){ .cells = { "" } };
    cell(row->cells[0], seen->name);
    cell(row->cells[1],
            seen->findings.errors > 0          ? "FAILS"
                    : seen->findings.count > 0 ? "warns"
                                               : "ok");
    if (!seen->has_facts) {
        return;
    }
    cell(row->cells[2], seen->is_here ? "here" : seen->address);
    (void)snprintf(row->cells[3], CELL_MAX, "%.0f ms", seen->answer_ms);
    (void)snprintf(row->cells[4], CELL_MAX, "tuttirun %.40s", facts->release);
    cell(row->cells[5], facts->launcher[0] != '\0' ? facts->launcher : "no MPI");
    gpus_cell(row->cells[6], facts->gpus);
    (void)snprintf(row->cells[7], CELL_MAX, "shm %s",
            host_findings_bytes(facts->shm_bytes, bytes, sizeof bytes));
    cell(row->cells[8], facts->cma_errno == 0 ? "CMA" : "no CMA");
    clock_cell(row->cells[9], seen);
}

static void widen(int widths[COLUMNS], const struct row *row)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        int len = (int)strlen(row->cells[i]);

        widths[i] = len > widths[i] ? len : widths[i];
    }
}

static void print_row(FILE *file, const struct row *row, const int widths[COLUMNS])
{
    size_t last = COLUMNS;

    while (last > 0 && row->cells[last - 1][0] == '\0') {
        last--;
    }
    for (size_t i = 0; i < last; i++) {
        (void)fprintf(file, "%s%-*s", i == 0 ? "" : "  ", i + 1 == last ? 0 : widths[i],
                row->cells[i]);
    }
    (void)fputc('\n', file);
}

static void print_findings(FILE *file, const struct findings *findings, size_t limit)
{
    size_t shown = findings->count < limit ? findings->count : limit;

    for (size_t i = 0; i < shown; i++) {
        const struct finding *finding = &findings->items[i];

        (void)fprintf(file, "    %c %s\n      %s\n",
                finding->level == FINDING_ERROR ? '!' : '~', finding->text,
                finding->command);
    }
    if (shown < findings->count) {
        (void)fprintf(file, "    and %zu more\n", findings->count - shown);
    }
}

static void print_pairs(FILE *file, const struct show_result *result)
{
    if (result->pairs > 0) {
        (void)fprintf(file, "%zu of %zu connections between hosts made, in %.1f ms\n",
                result->pairs_well, result->pairs, result->pairs_ms);
    } else if (result->host_count > 1) {
        (void)fprintf(file, "no connections between hosts were tried\n");
    }
    print_findings(file, result->general, FINDINGS_SHOWN);
}

static size_t count_warnings(const struct show_result *result)
{
    size_t warnings = result->general->count - result->general->errors;

    for (size_t i = 0; i < result->host_count; i++) {
        const struct findings *findings = &result->hosts[i]->findings;

        warnings += findings->count - findings->errors;
    }
    return warnings;
}

static size_t count_failing(const struct show_result *result)
{
    size_t failing = 0;

    for (size_t i = 0; i < result->host_count; i++) {
        failing += result->hosts[i]->findings.errors > 0 ? 1 : 0;
    }
    return failing;
}

bool show_is_well(const struct show_result *result)
{
    return count_failing(result) == 0 && result->general->errors == 0;
}

static void print_sum(FILE *file, const struct show_result *result)
{
    size_t failing = count_failing(result);
    size_t warnings = count_warnings(result);
    const char *plural = result->host_count == 1 ? "" : "s";

    if (failing > 0) {
        (void)fprintf(
                file, "%zu of %zu host%s failed", failing, result->host_count, plural);
    } else if (result->general->errors > 0) {
        (void)fprintf(file, "%zu host%s answered, but not all is well",
                result->host_count, plural);
    } else {
        (void)fprintf(file, "all is well on %zu host%s", result->host_count, plural);
    }
    if (warnings > 0) {
        (void)fprintf(file, "; %zu warning%s", warnings, warnings == 1 ? "" : "s");
    }
    (void)fputc('\n', file);
}

void show_text(FILE *file, const struct show_result *result)
{
    int widths[COLUMNS] = { 0 };
    struct row row;

    for (size_t i = 0; i < result->host_count; i++) {
        fill_row(&row, result->hosts[i]);
        widen(widths, &row);
    }
    for (size_t i = 0; i < result->host_count; i++) {
        fill_row(&row, result->hosts[i]);
        print_row(file, &row, widths);
        print_findings(file, &result->hosts[i]->findings, SIZE_MAX);
    }
    print_pairs(file, result);
    print_sum(file, result);
}
