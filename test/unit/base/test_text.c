/*
 * Strict conversions: what is taken, and that nothing else is.
 */
#include <float.h>
#include <string.h>

#include "base/text.h"
#include "test/unit/unit.h"

UNIT_TEST(test_booleans)
{
    static const char *const yes[] = { "1", "true", "TRUE", "yes", "on", "On" };
    static const char *const no[] = { "0", "false", "False", "no", "off" };
    static const char *const bad[] = { "", "2", "tru", "truee", " 1", "1 ", "|",
        "0|1" };
    bool value = false;
    size_t i;

    for (i = 0; i < sizeof yes / sizeof *yes; i++) {
        assert_true(text_to_bool(yes[i], &value));
        assert_true(value);
    }
    for (i = 0; i < sizeof no / sizeof *no; i++) {
        assert_true(text_to_bool(no[i], &value));
        assert_false(value);
    }
    value = true;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(text_to_bool(bad[i], &value));
        assert_true(value);
    }
}

UNIT_TEST(test_whole_numbers)
{
    static const char *const bad[] = { "", "-", "+1", " 1", "1 ", "1x", "0x10", "1.0",
        "1e3", "--1", "9223372036854775808", "-9223372036854775809", "nan" };
    int64_t value = 0;
    size_t i;

    assert_true(text_to_int64("0", &value) && value == 0);
    assert_true(text_to_int64("-12", &value) && value == -12);
    assert_true(text_to_int64("007", &value) && value == 7);
    assert_true(text_to_int64("9223372036854775807", &value) && value == INT64_MAX);
    assert_true(text_to_int64("-9223372036854775808", &value) && value == INT64_MIN);
    value = 42;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(text_to_int64(bad[i], &value));
        assert_true(value == 42);
    }
}

UNIT_TEST(test_sizes)
{
    static const char *const bad[] = { "", "k", "-1", "+1", "1 k", "1kb", "1t", "1.5m",
        "1kk", " 1", "18446744073709551616", "17179869184g", "1Ki", "1|k" };
    size_t value = 0;
    size_t i;

    assert_true(text_to_size("0", &value) && value == 0);
    assert_true(text_to_size("1000", &value) && value == 1000);
    assert_true(text_to_size("3k", &value) && value == 3072);
    assert_true(text_to_size("3KiB", &value) && value == 3072);
    assert_true(text_to_size("2M", &value) && value == 2097152);
    assert_true(text_to_size("2MiB", &value) && value == 2097152);
    assert_true(text_to_size("4g", &value) && value == UINT64_C(4294967296));
    assert_true(text_to_size("4GiB", &value) && value == UINT64_C(4294967296));
    assert_true(text_to_size("18446744073709551615", &value) && value == SIZE_MAX);
    value = 42;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(text_to_size(bad[i], &value));
        assert_int_equal(value, 42);
    }
}

UNIT_TEST(test_reals)
{
    static const char *const bad[] = { "", "-", ".", "e", "1e", "1.5x", " 1", "1 ",
        "nan", "inf", "-inf", "0x1p3", "1e999", "1,5", "1.2.3" };
    double value = 0;
    size_t i;

    assert_true(text_to_real("60", &value) && value == 60);
    assert_true(text_to_real("0.1", &value) && value == 0.1);
    assert_true(text_to_real("-1.5e-3", &value) && value == -1.5e-3);
    assert_true(text_to_real(".5", &value) && value == 0.5);
    value = 42;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(text_to_real(bad[i], &value));
        assert_true(value == 42);
    }
}

UNIT_TEST(test_reals_survive_a_round_trip)
{
    static const double samples[] = { 0, 60, 0.1, 1.0 / 3, 86400, 1e-300, DBL_MAX,
        -2.5 };
    char text[40];
    double back = 0;
    size_t i;

    for (i = 0; i < sizeof samples / sizeof *samples; i++) {
        assert_true(text_from_real(samples[i], text, sizeof text));
        assert_true(text_to_real(text, &back));
        assert_memory_equal(&back, &samples[i], sizeof back);
    }
    assert_true(text_from_real(0.1, text, sizeof text));
    assert_string_equal(text, "0.1");
    assert_true(text_from_real(1.23456789012, text, sizeof text));
    assert_string_equal(text, "1.23456789012");
    assert_false(text_from_real(0.125, text, 5));
}

UNIT_TEST(test_choices)
{
    int index = 42;
    char text[8];

    assert_true(text_to_choice("one", "one|two|three", &index) && index == 0);
    assert_true(text_to_choice("THREE", "one|two|three", &index) && index == 2);
    index = 42;
    assert_false(text_to_choice("", "one|two|three", &index));
    assert_false(text_to_choice("tw", "one|two|three", &index));
    assert_false(text_to_choice("one|two", "one|two|three", &index));
    assert_int_equal(index, 42);
    assert_true(text_from_choice("one|two|three", 1, text, sizeof text));
    assert_string_equal(text, "two");
    assert_true(text_from_choice("one|two|three", 2, text, 6));
    assert_false(text_from_choice("one|two|three", 2, text, 5));
    assert_false(text_from_choice("one|two|three", 3, text, sizeof text));
    assert_false(text_from_choice("one|two|three", 4, text, sizeof text));
}

UNIT_TEST(test_distances_between_words)
{
    char long_word[70];

    memset(long_word, 'x', sizeof long_word);
    long_word[sizeof long_word - 1] = '\0';
    assert_int_equal(text_distance("", ""), 0);
    assert_int_equal(text_distance("same", "same"), 0);
    assert_int_equal(text_distance("", "abc"), 3);
    assert_int_equal(text_distance("abc", ""), 3);
    assert_int_equal(text_distance("kitten", "sitting"), 3);
    assert_int_equal(text_distance("sitting", "kitten"), 3);
    assert_int_equal(text_distance("spin_us", "pin_us"), 1);
    assert_true(text_distance(long_word, "a") == SIZE_MAX);
    assert_true(text_distance("a", long_word) == SIZE_MAX);
    long_word[64] = '\0';
    assert_int_equal(text_distance(long_word, "x"), 63);
}

UNIT_TEST(test_seconds_are_never_powers_of_ten)
{
    char text[TEXT_SECONDS];

    assert_string_equal(text_seconds(0.02617, text), "0.0262");
    assert_string_equal(text_seconds(60, text), "60");
    assert_string_equal(text_seconds(999.4, text), "999");
    assert_string_equal(text_seconds(999.6, text), "1000");
    assert_string_equal(text_seconds(86400.4, text), "86400");
}
