/*
 * What the bench writes: JSON lines and the columns.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/arguments.h"
#include "bench/core/columns.h"
#include "bench/core/jsonline.h"
#include "test/unit/unit.h"

UNIT_TEST(test_json_members_in_order)
{
    struct bench_json json = { .used = 0 };

    bench_json_text(&json, "bench", "latency");
    bench_json_integer(&json, "bytes", INT64_C(5000000000));
    bench_json_number(&json, "tutti_us", 1.5);
    bench_json_range(&json, "spread", 0.5, 2);
    bench_json_null(&json, "mpi_us");
    bench_json_count(&json, "wrong", -1);
    bench_json_count(&json, "mpi_wrong", 3);
    assert_string_equal(bench_json_finish(&json),
            "{\"bench\":\"latency\",\"bytes\":5000000000,\"tutti_us\":1.5,"
            "\"spread\":[0.5,2],\"mpi_us\":null,\"wrong\":null,\"mpi_wrong\":3}\n");
}

UNIT_TEST(test_json_escapes_text)
{
    struct bench_json json = { .used = 0 };

    bench_json_text(&json, "t", "a\"b\\c\nd\x01");
    assert_string_equal(
            bench_json_finish(&json), "{\"t\":\"a\\\"b\\\\c\\u000ad\\u0001\"}\n");
}

UNIT_TEST(test_json_has_no_infinite_numbers)
{
    struct bench_json json = { .used = 0 };

    bench_json_number(&json, "a", INFINITY);
    bench_json_range(&json, "b", NAN, 1);
    assert_string_equal(bench_json_finish(&json), "{\"a\":null,\"b\":[null,1]}\n");
}

/* What is printed between sheet_open() and sheet_close(). */
struct sheet {
    FILE *out;
    char *text;
    size_t length;
};

static void sheet_open(struct sheet *sheet)
{
    sheet->out = open_memstream(&sheet->text, &sheet->length);
    assert_non_null(sheet->out);
}

/* The text, which the caller frees. */
static char *sheet_close(struct sheet *sheet)
{
    assert_int_equal(fclose(sheet->out), 0);
    return sheet->text;
}

/* Prints a row; the caller frees the text. */
static char *row_text(const struct bench_row *row)
{
    struct sheet sheet;

    sheet_open(&sheet);
    bench_columns_row(sheet.out, row);
    return sheet_close(&sheet);
}

static struct bench_row example_row(void)
{
    return (struct bench_row){
        .bytes = 1024,
        .count = 256,
        .type = "float32",
        .redop = "sum",
        .root = -1,
        .in_place = { .measured = true,
                .time_us = 12.5,
                .algbw = 1.25,
                .busbw = 1.875 },
    };
}

UNIT_TEST(test_columns_are_those_of_nccl_tests)
{
    static const char *const expected[] = { "1024", "256", "float32", "sum", "-1",
        "12.50", "1.25", "1.88", "2", "12.50", "1.25", "1.88", "0" };
    struct bench_row row = example_row();
    char *rest = NULL;
    char *text;

    row.out_of_place = row.in_place;
    row.out_of_place.wrong = 2;
    text = row_text(&row);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char *column = strtok_r(i == 0 ? text : NULL, " \n", &rest);

        assert_non_null(column);
        assert_string_equal(column, expected[i]);
    }
    assert_null(strtok_r(NULL, " \n", &rest));
    free(text);
}

UNIT_TEST(test_columns_are_those_of_osu)
{
    const struct bench_cells cells = { .measured = true,
        .rank_mean = 86.56,
        .rank_min = 21.32,
        .rank_max = 126.27,
        .iterations = 1000 };
    struct sheet sheet;
    char *text;

    sheet_open(&sheet);
    bench_columns_osu_head(sheet.out, "broadcast");
    bench_columns_osu_row(sheet.out, 1, &cells);
    text = sheet_close(&sheet);
    /* a line of osu_bcast 7.0 with -f */
    assert_non_null(strstr(text,
            "\n# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  "
            "Iterations\n"
            "1                      86.56             21.32            126.27        "
            "1000\n"));
    free(text);
}

UNIT_TEST(test_foot_says_whether_values_were_right)
{
    static const struct {
        int64_t wrong;
        const char *text;
    } rows[] = {
        { 0, "Out of bounds values : 0 OK" },
        { 4, "Out of bounds values : 4 FAILED" },
        { -1, "Out of bounds values : not checked" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sheet sheet;
        char *text;

        sheet_open(&sheet);
        bench_columns_foot(sheet.out, rows[i].wrong, 1.5);
        text = sheet_close(&sheet);
        assert_non_null(strstr(text, rows[i].text));
        assert_non_null(strstr(text, "Avg bus bandwidth    : 1.5\n"));
        free(text);
    }
}
