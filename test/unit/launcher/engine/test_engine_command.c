/*
 * The command lines of both families, word by word.
 */
#include <string.h>

#include "base/mem.h"
#include "launcher/engine/command.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

static char *const no_variables[] = { NULL };

static const struct command_facts openmpi = {
    .family = FAMILY_OPENMPI,
    .mpirun = "mpirun",
    .self = "/opt/tuttirun",
    .environment = no_variables,
};

static const struct command_facts mpich = {
    .family = FAMILY_MPICH,
    .mpirun = "mpiexec",
    .self = "/opt/tuttirun",
    .environment = no_variables,
};

/* Builds the command of a command line and compares it as one quoted line. */
static void expect_command(const struct command_facts *facts, const char *const *argv,
        const char *expected)
{
    struct arguments words = { .items = NULL };
    struct arguments command = { .items = NULL };
    struct options options;
    char *line;

    assert_int_equal(options_parse(&options, words_set(&words, argv)), TUTTI_OK);
    assert_int_equal(command_build(&options, facts, &command), TUTTI_OK);
    line = arguments_quote(&command);
    assert_string_equal(line, expected);
    mem_free(line);
    arguments_fini(&command);
    options_fini(&options);
    arguments_fini(&words);
}

#define ARGV(...) ((const char *const[]){ "tuttirun", __VA_ARGS__, NULL })

static void test_openmpi_on_this_machine(void **state)
{
    (void)state;
    expect_command(&openmpi, ARGV("-np", "4", "./train", "a b"),
            "mpirun --map-by slot:OVERSUBSCRIBE --bind-to none -np 4 "
            "/opt/tuttirun --exec -- ./train 'a b'");
}

static void test_openmpi_on_hosts(void **state)
{
    (void)state;
    expect_command(&openmpi, ARGV("-H", "a:2,b:1,a:1", "-np", "3", "./train"),
            "mpirun --map-by slot -H a:3,b:1 --bind-to none -np 3 "
            "/opt/tuttirun --exec -- ./train");
}

static void test_openmpi_is_told_that_root_may(void **state)
{
    struct command_facts facts = openmpi;

    (void)state;
    facts.is_root = true;
    expect_command(&facts, ARGV("-np", "1", "--bind", "none", "p"),
            "mpirun --allow-run-as-root --map-by slot:OVERSUBSCRIBE --bind-to none "
            "-np 1 p");
    facts.family = FAMILY_MPICH;
    expect_command(&facts, ARGV("-np", "1", "--bind", "none", "p"),
            "mpirun -bind-to none -np 1 p");
}

static void test_openmpi_gets_variables_with_x(void **state)
{
    static const char *const variables[] = { "TUTTI_STRICT=1", "HOROVOD_X=2",
        "TUTTI_SPIN_US=9", "PATH=/bin", "TUTTIX=1", NULL };
    struct arguments environment = { .items = NULL };
    struct command_facts facts = openmpi;

    (void)state;
    facts.environment = words_set(&environment, variables);
    expect_command(&facts,
            ARGV("-np", "1", "--bind", "none", "--spin-us", "3", "-x", "A=b c", "p"),
            "mpirun --map-by slot:OVERSUBSCRIBE --bind-to none -x TUTTI_SPIN_US=3 "
            "-x 'A=b c' -x TUTTI_STRICT -x HOROVOD_X -np 1 p");
    arguments_fini(&environment);
}

static void test_mpich_gets_variables_with_genv(void **state)
{
    (void)state;
    expect_command(&mpich,
            ARGV("-np", "1", "--bind", "none", "--spin-us", "3", "-x", "A=b=c", "-xB",
                    "p"),
            "mpiexec -bind-to none -genv TUTTI_SPIN_US 3 -genv A b=c -np 1 p");
}

static void test_mpich_on_hosts(void **state)
{
    (void)state;
    expect_command(&mpich, ARGV("-H", "a:2,b", "p"),
            "mpiexec -hosts a:2,b:1 -bind-to none -np 3 /opt/tuttirun --exec -- p");
}

static void test_binding_can_be_left_to_mpirun(void **state)
{
    (void)state;
    expect_command(&openmpi,
            ARGV("-np", "2", "--bind", "mpi", "--mpi-args", "--bind-to core", "p"),
            "mpirun --map-by slot:OVERSUBSCRIBE --bind-to core -np 2 p");
    expect_command(&mpich,
            ARGV("-np", "2", "--bind", "mpi", "--mpi-args", "-bind-to core", "p"),
            "mpiexec -bind-to core -np 2 p");
}

static void test_verbose_reaches_the_wrapper(void **state)
{
    (void)state;
    expect_command(&mpich, ARGV("-np", "2", "-v", "p"),
            "mpiexec -bind-to none -np 2 /opt/tuttirun --exec --verbose -- p");
}

static void test_every_failing_allocation_is_reported(void **state)
{
    struct arguments words = { .items = NULL };
    struct options options;
    uint64_t n = 0;
    tutti_status status;

    (void)state;
    (void)words_set(&words, ARGV("-H", "a,b", "-x", "A=1", "p"));
    assert_int_equal(options_parse(&options, words.items), TUTTI_OK);
    do {
        struct arguments command = { .items = NULL };

        mem_fail_at(++n);
        status = command_build(&options, &openmpi, &command);
        mem_fail_at(0);
        arguments_fini(&command);
        assert_true(status == TUTTI_OK || status == TUTTI_ERR_NO_MEMORY);
    } while (status != TUTTI_OK);
    assert_true(n > 10);
    options_fini(&options);
    arguments_fini(&words);
}

static void test_family_is_read_from_the_name(void **state)
{
    (void)state;
    assert_int_equal(command_family_of("/usr/bin/mpirun.mpich"), FAMILY_MPICH);
    assert_int_equal(command_family_of("mpiexec.hydra"), FAMILY_MPICH);
    assert_int_equal(command_family_of("/usr/bin/mpirun.openmpi"), FAMILY_OPENMPI);
    assert_int_equal(command_family_of("/opt/bin/prterun"), FAMILY_OPENMPI);
    assert_int_equal(command_family_of("orterun"), FAMILY_OPENMPI);
    assert_int_equal(command_family_of("/opt/mpich/bin/mpirun"), FAMILY_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openmpi_on_this_machine),
        cmocka_unit_test(test_openmpi_on_hosts),
        cmocka_unit_test(test_openmpi_is_told_that_root_may),
        cmocka_unit_test(test_openmpi_gets_variables_with_x),
        cmocka_unit_test(test_mpich_gets_variables_with_genv),
        cmocka_unit_test(test_mpich_on_hosts),
        cmocka_unit_test(test_binding_can_be_left_to_mpirun),
        cmocka_unit_test(test_verbose_reaches_the_wrapper),
        cmocka_unit_test(test_every_failing_allocation_is_reported),
        cmocka_unit_test(test_family_is_read_from_the_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
