/*
 * Finding programs through PATH, and saying why one cannot be run.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/environment.h"
#include "launcher/program.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

/* Makes a directory with the files "runs", "text" and "folder", and goes into it. */
static int make_directory(void **state)
{
    static char path[] = "program_XXXXXX";

    *state = path;
    return mkdtemp(path) == NULL || chdir(path) != 0 ||
            close(open("runs", O_CREAT | O_WRONLY | O_CLOEXEC, 0700)) != 0 ||
            close(open("text", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) != 0 ||
            mkdir("folder", 0700) != 0;
}

static int remove_directory(void **state)
{
    return unlink("runs") != 0 || unlink("text") != 0 || rmdir("folder") != 0 ||
            chdir("..") != 0 || rmdir(*state) != 0;
}

static void test_a_path_is_taken_as_it_is(void **state)
{
    char file[PATH_MAX];

    (void)state;
    assert_int_equal(program_find("./runs", NULL, file, sizeof file), TUTTI_OK);
    assert_string_equal(file, "./runs");
}

static void test_a_name_is_looked_up_in_path(void **state)
{
    char file[PATH_MAX];

    (void)state;
    assert_int_equal(
            program_find("runs", "/nowhere:.:/bin", file, sizeof file), TUTTI_OK);
    assert_string_equal(file, "./runs");
    assert_int_equal(program_find("runs", "/nowhere:", file, sizeof file), TUTTI_OK);
    assert_string_equal(file, "./runs");
}

static void test_refusals_say_why(void **state)
{
    static const struct {
        const char *name;
        const char *path;
        const char *says;
    } cases[] = {
        { .name = "./nothing", .path = "/bin", .says = "No such file" },
        { .name = "./text", .path = "/bin", .says = "not executable" },
        { .name = "./folder", .path = "/bin", .says = "a directory" },
        { .name = "runs", .path = "/nowhere", .says = "did you mean ./runs" },
        { .name = "text", .path = ".", .says = "not in PATH" },
        { .name = "folder", .path = ".", .says = "a directory" },
        { .name = ".", .path = "/bin", .says = "a directory" },
        { .name = "sh", .path = NULL, .says = "not in PATH" },
        { .name = "", .path = ".", .says = "not in PATH" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char file[PATH_MAX];

        assert_int_equal(program_find(cases[i].name, cases[i].path, file, sizeof file),
                TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), cases[i].name));
        assert_non_null(strstr(tutti_last_error(), cases[i].says));
    }
}

static void test_names_that_do_not_fit_are_refused(void **state)
{
    char file[8];

    (void)state;
    assert_int_equal(
            program_find("./a-long-name", NULL, file, sizeof file), TUTTI_ERR_INVALID);
    assert_int_equal(
            program_find("runs", "/a/long/path", file, sizeof file), TUTTI_ERR_INVALID);
}

static void test_environment_is_searched_by_whole_names(void **state)
{
    static const char *const literals[] = { "AB=1", "A=x=y", "N=12", "BIG=9999999999",
        "C", NULL };
    struct arguments list = { .items = NULL };
    char *const *variables = words_set(&list, literals);
    int number = 0;

    (void)state;
    assert_string_equal(environment_get(variables, "A"), "x=y");
    assert_null(environment_get(variables, "B"));
    assert_null(environment_get(variables, "C"));
    assert_true(environment_get_int(variables, "N", 12, &number));
    assert_int_equal(number, 12);
    assert_false(environment_get_int(variables, "N", 13, &number));
    assert_false(environment_get_int(variables, "A", 0, &number));
    assert_false(environment_get_int(variables, "BIG", 0, &number));
    arguments_fini(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_path_is_taken_as_it_is),
        cmocka_unit_test(test_a_name_is_looked_up_in_path),
        cmocka_unit_test(test_refusals_say_why),
        cmocka_unit_test(test_names_that_do_not_fit_are_refused),
        cmocka_unit_test(test_environment_is_searched_by_whole_names),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
