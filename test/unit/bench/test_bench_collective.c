/*
 * What the benchmark knows about collectives, against what tutti.h says about them.
 */
#include "bench/core/collective.h"
#include "test/unit/unit.h"

UNIT_TEST(test_traits)
{
    static const struct {
        tutti_collective collective;
        bool reduces, root, parts, input, output;
    } rows[] = {
        { TUTTI_ALLREDUCE, true, false, false, false, false },
        { TUTTI_BROADCAST, false, true, false, false, false },
        { TUTTI_REDUCE, true, true, false, false, false },
        { TUTTI_REDUCESCATTER, true, false, true, false, true },
        { TUTTI_ALLGATHER, false, false, true, true, false },
        { TUTTI_ALLTOALL, false, false, true, false, false },
        { TUTTI_GATHER, false, true, true, true, false },
        { TUTTI_SCATTER, false, true, true, false, true },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(bench_reduces(rows[i].collective), rows[i].reduces);
        assert_int_equal(bench_has_root(rows[i].collective), rows[i].root);
        assert_int_equal(bench_has_parts(rows[i].collective), rows[i].parts);
        assert_int_equal(bench_input_is_part(rows[i].collective), rows[i].input);
        assert_int_equal(bench_output_is_part(rows[i].collective), rows[i].output);
    }
}

UNIT_TEST(test_what_is_divided_is_padded)
{
    assert_int_equal(bench_padded_count(TUTTI_ALLGATHER, 1, 3), 3);
    assert_int_equal(bench_padded_count(TUTTI_SCATTER, 6, 3), 6);
    assert_int_equal(bench_padded_count(TUTTI_REDUCESCATTER, 7, 3), 9);
    assert_int_equal(bench_padded_count(TUTTI_ALLTOALL, 7, 1), 7);
    assert_int_equal(bench_padded_count(TUTTI_ALLREDUCE, 7, 3), 7);
    assert_int_equal(bench_padded_count(TUTTI_REDUCE, 7, 3), 7);
}
