/*
 * The command line of tutti-bench.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/arguments.h"
#include "test/unit/unit.h"

enum {
    WORDS_MAX = 40
};

/* Splits a line at its spaces and parses it; strings point into `line`. */
static bool parse(struct bench_arguments *arguments, char *line)
{
    char program[] = "tutti-bench";
    char *argv[WORDS_MAX + 1] = { program };
    int argc = 1;
    char *rest = NULL;

    for (char *word = strtok_r(line, " ", &rest); word != NULL;
            word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < WORDS_MAX);
        argv[argc++] = word;
    }
    return bench_arguments_parse(arguments, argc, argv);
}

/* The strings of the result are valid until the next call. */
static struct bench_arguments parse_good(const char *text)
{
    static char line[256];
    struct bench_arguments arguments;

    (void)snprintf(line, sizeof line, "%s", text);
    if (!parse(&arguments, line)) {
        fail_msg("%s: %s", text, arguments.error);
    }
    return arguments;
}

/* Every message names the argument that is wrong. */
static void expect_error(const char *text, const char *named)
{
    struct bench_arguments arguments;
    char line[128];

    (void)snprintf(line, sizeof line, "%s", text);
    assert_false(parse(&arguments, line));
    if (strstr(arguments.error, named) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", text, arguments.error, named);
    }
}

UNIT_TEST(test_letters_of_nccl_tests)
{
    struct bench_arguments arguments =
            parse_good("allreduce -b 1k -e 4M -i 512 -n 7 -w 3 -m 2 -c 0 -d half -o "
                       "max -r 1 -a 1");

    assert_int_equal(arguments.min_bytes, 1024);
    assert_int_equal(arguments.max_bytes, 4 << 20);
    assert_int_equal(arguments.step_bytes, 512);
    assert_int_equal(arguments.iterations, 7);
    assert_int_equal(arguments.warmup, 3);
    assert_int_equal(arguments.aggregate, 2);
    assert_int_equal(arguments.checks, 0);
    assert_int_equal(arguments.dtype, TUTTI_FLOAT16);
    assert_int_equal(arguments.op, TUTTI_MAX);
    assert_int_equal(arguments.root, 1);
    assert_int_equal(arguments.average, BENCH_MEAN);
}

UNIT_TEST(test_bad_arguments_are_named)
{
    static const struct {
        const char *line;
        const char *named;
    } rows[] = {
        { "", "no command" },
        { "frob", "'frob'" },
        { "latency -z", "'-z'" },
        { "latency --frob", "'--frob'" },
        { "latency --=3", "'--=3'" },
        { "latency extra", "'extra'" },
        { "latency -", "'-'" },
        { "workload resnet50 gpt2", "'gpt2'" },
        { "latency --bytes", "'--bytes' needs" },
        { "latency --bytes 8Q", "'8Q'" },
        { "latency -n 1x", "'1x'" },
        { "latency -n 0", "0 is outside 1.." },
        { "latency -n 99999999999999999999", "not a number" },
        { "overlap --backward-ms nan", "nan is outside" },
        { "overlap --compute gpu", "'gpu' is not one of device, cpu" },
        { "overlap --workload all", "'all'" },
        { "overlap --compare mpi", "overlap is compared with slow only" },
        { "idle -b 4", "'-b' is not an option of idle" },
        { "allreduce --in-place=1", "takes no value" },
        { "allreduce -f 2 -i 4", "exclude each other" },
        { "allreduce -b 8 -e 4", "--max-bytes 4 is below --min-bytes 8" },
        { "allreduce -b 2", "2 bytes hold no float32" },
        { "allreduce -e 1000000g", "above 2^48" },
        { "allreduce -d bool", "sum of bool" },
        { "allreduce -d float8_e4m3", "sum of float8_e4m3" },
        { "allreduce --compare mpi -o avg", "average of float32" },
        { "allreduce --compare mpi -d half", "sum of float16" },
        { "allreduce --compare mpi --rounds 4", "at least 5, not 4" },
        { "allreduce --compare mpi,nccl",
                "'nccl' is not one of mpi, mpi-tuned, limit, slow, exchange" },
        { "allreduce --compare mpi,", "'' is not one of" },
        { "allreduce --compare mpi,mpi-tuned", "two jobs" },
        { "allreduce --compare limit,mpi -d half", "sum of float16" },
        { "allreduce --compare limit --rounds 4", "at least 5, not 4" },
        { "broadcast --compare mpi,limit", "not of broadcast" },
        { "latency --collective gather --compare limit", "not of gather" },
        { "latency --collective reduce --compare exchange", "not of reduce" },
        { "allreduce --compare exchange", "workload or latency, not of allreduce" },
        { "workload trainer --compare exchange", "compared with slow only" },
        { "allreduce --compare copy", "of latency" },
        { "latency --collective reduce --compare cma", "one allreduce" },
        { "steady -e 4", "'-e' is not an option of steady" },
        { "steady --compare mpi", "not an option of steady" },
        { "steady --workload all", "'all'" },
        { "reduce -d bool", "sum of bool" },
        { "reduce --compare mpi -r 1", "--root 1" },
        { "reducescatter --compare mpi -d half", "sum of float16" },
        { "latency --collective barrier", "'barrier' is not one of allreduce" },
        { "workload", "needs a name" },
        { "workload frob", "'frob'" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_error(rows[i].line, rows[i].named);
    }
}

UNIT_TEST(test_programs_refuse_what_is_not_theirs)
{
    static const struct {
        const char *line;
        const char *named;
    } rows[] = {
        { "workload resnet49 --list", "'resnet49'" },
        { "latency --columns osu", "not an option of latency" },
        { "latency --compare wait", "tutti waits anyway" },
        { "overlap --complete test --compare wait",
                "overlap is compared with slow only" },
        { "idle --complete callback", "not an option of idle" },
        { "latency --complete poll", "not one of wait, callback, test" },
        { "overlap --compare slow,limit", "overlap is compared with slow only" },
        { "overlap --compare slow --slow inflight=1 --rounds 2", "at least 5, not 2" },
        { "overlap --workload trainer", "'trainer'" },
        { "workload trainer --workload small", "'small'" },
        { "workload trainer --compare mpi", "compared with slow only" },
        { "workload trainer --collective broadcast", "made of allreduces" },
        { "workload gpt2 --workload resnet50", "--workload: workload gpt2" },
        { "latency --compare slow", "add --slow PARAMETER=VALUE" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_error(rows[i].line, rows[i].named);
    }
}

UNIT_TEST(test_comparisons_are_a_list)
{
    assert_int_equal(parse_good("allreduce").compare, 0);
    assert_int_equal(parse_good("latency --compare mpi").compare, BENCH_WITH_MPI);
    assert_int_equal(parse_good("workload gpt2 --compare limit,mpi").compare,
            BENCH_WITH_MPI | BENCH_WITH_LIMIT);
    assert_int_equal(parse_good("allreduce --compare=mpi-tuned,limit").compare,
            BENCH_WITH_MPI_TUNED | BENCH_WITH_LIMIT);
    assert_int_equal(parse_good("broadcast --compare slow --slow inflight=1").compare,
            BENCH_WITH_SLOW);
    assert_int_equal(parse_good("overlap --compare slow --slow inflight=1").compare,
            BENCH_WITH_SLOW);
    assert_int_equal(parse_good("latency --complete test --compare wait").compare,
            BENCH_WITH_WAIT);
    assert_int_equal(parse_good("latency").complete, BENCH_BY_WAIT);
    assert_int_equal(
            parse_good("workload trainer --complete callback --compare wait").complete,
            BENCH_BY_CALLBACK);
    assert_int_equal(
            parse_good("latency --compare slow,exchange --slow inflight=1").compare,
            BENCH_WITH_SLOW | BENCH_WITH_EXCHANGE);
    /* only MPI cannot do it */
    assert_int_equal(
            parse_good("allreduce -d half -o avg --compare limit").op, TUTTI_AVERAGE);
}

UNIT_TEST(test_help_lists_every_option_once)
{
    static const char *const names[] = {
#define SIZE(letter, name, ...) "--" name " ",
#define BYTES(letter, name, ...) "--" name " ",
#define INT(letter, name, ...) "--" name " ",
#define REAL(letter, name, ...) "--" name " ",
#define CHOICE(letter, name, ...) "--" name " ",
#define CHOICES(letter, name, ...) "--" name " ",
#define TEXT(letter, name, ...) "--" name " ",
#define FLAG(letter, name, ...) "--" name " ",
#include "bench/core/arguments.def"
#undef FLAG
#undef TEXT
#undef CHOICES
#undef CHOICE
#undef REAL
#undef INT
#undef BYTES
#undef SIZE
    };
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    bench_arguments_help(out);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *first = strstr(text, names[i]);

        assert_non_null(first);
        assert_null(strstr(first + 1, names[i]));
    }
    free(text);
}
