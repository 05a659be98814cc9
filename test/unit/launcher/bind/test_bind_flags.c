/*
 * Flags of what a rank gets.
 */
#include <string.h>

#include "launcher/options.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

enum {
    WORDS_MAX = 6
};

static tutti_status parse(
        struct options *options, struct arguments *list, const char *const *words)
{
    return options_parse(options, words_set(list, words));
}

static void test_flags_say_what_a_rank_gets(void **state)
{
    static const struct {
        const char *words[WORDS_MAX];
        struct bind_options bind;
        int ranks;
    } cases[] = {
        { .words = { "tuttirun", "-np", "2", "p" }, .ranks = 2 },
        { .words = { "tuttirun", "-np=2", "--gpus-visible=one", "p" },
                .bind = { .one_gpu = true },
                .ranks = 2 },
        { .words = { "tuttirun", "-np=2", "--gpus-visible=all", "p" }, .ranks = 2 },
        /* A map needs neither a program nor a number of ranks. */
        { .words = { "tuttirun", "--show-binding" }, .bind = { .show = true } },
        { .words = { "tuttirun", "--show-binding", "-np", "3" },
                .bind = { .show = true },
                .ranks = 3 },
        { .words = { "tuttirun", "--show-binding=text" }, .bind = { .show = true } },
        { .words = { "tuttirun", "--show-binding=svg" },
                .bind = { .show = true, .show_as = "svg" } },
        { .words = { "tuttirun", "--show-binding=/a.b/c.svg" },
                .bind = { .show = true, .show_as = "/a.b/c.svg" } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments list = { .items = NULL };
        struct options options;

        assert_int_equal(parse(&options, &list, cases[i].words), TUTTI_OK);
        assert_int_equal(options.bind.one_gpu, cases[i].bind.one_gpu);
        assert_int_equal(options.bind.show, cases[i].bind.show);
        if (cases[i].bind.show_as == NULL) {
            assert_null(options.bind.show_as);
        } else {
            assert_string_equal(options.bind.show_as, cases[i].bind.show_as);
        }
        assert_int_equal(options.ranks, cases[i].ranks);
        options_fini(&options);
        arguments_fini(&list);
    }
}

static void test_refusals_name_the_choices(void **state)
{
    static const struct {
        const char *word;
        const char *says;
    } cases[] = {
        { "--gpus-visible=two", "--gpus-visible two: choose one of all|one" },
        { "--show-binding=map.svg.gz",
                "--show-binding map.svg.gz: choose text, svg or a file whose name ends "
                "in .svg" },
        { "--show-binding=",
                "--show-binding : choose text, svg or a file whose name "
                "ends in .svg" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const words[] = { "tuttirun", cases[i].word, NULL };
        struct arguments list = { .items = NULL };
        struct options options;

        assert_int_equal(parse(&options, &list, words), TUTTI_ERR_INVALID);
        assert_string_equal(tutti_last_error(), cases[i].says);
        options_fini(&options);
        arguments_fini(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_say_what_a_rank_gets),
        cmocka_unit_test(test_refusals_name_the_choices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
