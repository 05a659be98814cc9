/*
 * Who called MPI_Abort(), by what MPI prints.
 */
#include <string.h>

#include "launcher/job/abort_words.h"
#include "test/unit/unit.h"

static void take(struct abort_words *words, const char *text)
{
    abort_words_take(words, text, strlen(text));
}

UNIT_TEST(test_open_mpi_says_it_in_two_lines)
{
    struct abort_words words = { .rank = 0 };

    take(&words, "MPI_ABORT was invoked on rank 12 in communicator MPI_COMM_WORLD");
    assert_false(abort_words_are_complete(&words));
    take(&words, "with errorcode -3.");
    assert_true(abort_words_are_complete(&words));
    assert_int_equal(words.rank, 12);
    assert_int_equal(words.code, -3);
    /* The first counts. */
    take(&words,
            "MPI_ABORT was invoked on rank 1 in communicator X\nwith errorcode 1.");
    assert_int_equal(words.rank, 12);
}

UNIT_TEST(test_mpich_says_it_in_one)
{
    struct abort_words words = { .rank = 0 };

    take(&words,
            "before\nAbort(9) on node 3 (rank 3 in comm 0): application called "
            "MPI_Abort(MPI_COMM_WORLD, 9) - process 3\nafter\n");
    assert_true(abort_words_are_complete(&words));
    assert_int_equal(words.rank, 3);
    assert_int_equal(words.code, 9);
}

UNIT_TEST(test_other_words_say_nothing)
{
    static const char *const others[] = {
        "",
        "with errorcode 9.",
        "MPI_ABORT was invoked on rank ",
        "MPI_ABORT was invoked on rank x in communicator",
        "MPI_ABORT was invoked on rank 99999999999 in communicator",
        "application called MPI_Abort(MPI_COMM_WORLD, 9)",
        "application called MPI_Abort(MPI_COMM_WORLD, x) - process 3",
    };

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct abort_words words = { .rank = 0 };

        take(&words, others[i]);
        assert_false(abort_words_are_complete(&words));
    }
}

UNIT_TEST(test_the_end_of_the_text_is_the_end)
{
    static const char text[] = "MPI_ABORT was invoked on rank 12";
    struct abort_words words = { .rank = 0 };

    abort_words_take(&words, text, sizeof text - 2);
    assert_true(words.has_rank);
    assert_int_equal(words.rank, 1);
}
