/*
 * Runs the tests of a program that has UNIT_TEST()s and no main() of its own: all, or those whose
 * names match its argument, such as '*threads*'.
 */
#include "test/unit/unit.h"

enum {
    UNIT_TESTS_MAX = 512
};

static struct CMUnitTest tests[UNIT_TESTS_MAX];
static size_t tests_count;

void unit_add(const char *name, CMUnitTestFunction function, CMFixtureFunction set_up,
        CMFixtureFunction tear_down)
{
    assert_true(tests_count < UNIT_TESTS_MAX);
    tests[tests_count++] = (struct CMUnitTest){ .name = name,
        .test_func = function,
        .setup_func = set_up,
        .teardown_func = tear_down };
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return _cmocka_run_group_tests("tests", tests, tests_count, NULL, NULL);
}
