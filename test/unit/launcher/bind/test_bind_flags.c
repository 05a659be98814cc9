/*
 * Flags of what a rank gets.
 */
#include <string.h>

#include "launcher/command_line.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

static tutti_status parse(
        struct options *options, struct arguments *list, const char *const *words)
{
    return command_line_parse(options, words_set(list, words));
}

UNIT_TEST(test_flags_say_what_a_rank_gets)
{
    static const struct {
        const char *words[WORDS_MAX];
        const char *drawing;
        int gpus;
        int ranks;
    } cases[] = {
        { .words = { "tuttirun", "-np", "2", "p" }, .ranks = 2 },
        { .words = { "tuttirun", "-np=2", "--gpus-visible=one", "p" },
                .gpus = GPUS_ONE,
                .ranks = 2 },
        { .words = { "tuttirun", "-np=2", "--gpus-visible=all", "p" }, .ranks = 2 },
        /* A map needs neither a program nor a number of ranks. */
        { .words = { "tuttirun", "--show-binding" }, .drawing = "text" },
        { .words = { "tuttirun", "--show-binding", "-np", "3" },
                .drawing = "text",
                .ranks = 3 },
        { .words = { "tuttirun", "--show-binding=text" }, .drawing = "text" },
        { .words = { "tuttirun", "--show-binding=svg" }, .drawing = "svg" },
        { .words = { "tuttirun", "--show-binding=/a.b/c.svg" },
                .drawing = "/a.b/c.svg" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments list = { .items = NULL };
        struct options options;

        assert_int_equal(parse(&options, &list, cases[i].words), TUTTI_OK);
        assert_int_equal(options.gpus_visible, cases[i].gpus);
        if (cases[i].drawing == NULL) {
            assert_null(options.show_binding);
        } else {
            assert_string_equal(options.show_binding, cases[i].drawing);
        }
        assert_int_equal(options.np, cases[i].ranks);
        options_fini(&options);
        arguments_fini(&list);
    }
}

UNIT_TEST(test_refusals_name_the_choices)
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
