/*
 * What users write for tuttirun: command lines, a word a line, and files of --config-file.
 */
#include "launcher/options.h"

#include <string.h>

#include "fuzz.h"
#include "launcher/job/ranks.h"
#include "launcher/mpi_launcher/job_network.h"

/* Files that a mutated word may name are none of ours. */
static bool names_file(const char *word)
{
    return strchr(word, '/') != NULL;
}

static void take_command_line(struct fuzz_input *input)
{
    struct arguments words = { 0 };
    struct options options;
    bool is_ours = true;
    char *line;

    arguments_add(&words, "tuttirun");
    while ((line = fuzz_line(input)) != NULL) {
        is_ours = is_ours && !names_file(line);
        arguments_add(&words, line);
        free(line);
    }
    if (is_ours) {
        (void)!command_line_parse(&options, words.items);
        options_fini(&options);
    }
    arguments_fini(&words);
}

static void take_file(struct fuzz_input *input)
{
    struct options options;
    char *text = NULL;

    if (memchr(input->data, '/', input->size) == NULL &&
            options_init(&options) == TUTTI_OK) {
        text = config_file_apply(&options, fuzz_open_file(input), false) == TUTTI_OK
                ? NULL
                : strdup(tutti_last_error());
        REQUIRE(text == NULL || text[0] != '\0');
        fuzz_close_file();
        options_fini(&options);
    }
    free(text);
}

static void take_word(struct fuzz_input *input)
{
    char *text = fuzz_text(input);
    struct network_range range;
    char again[NETWORK_ADDRESS_MAX];

    if (rank_list_is_valid(text)) {
        (void)rank_list_has(text, 3);
    }
    if (network_range_parse(&range, text)) {
        network_range_format(&range, again);
        REQUIRE(network_range_parse(&range, again));
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };

    switch (fuzz_byte(&input) % 3) {
    case 0:
        take_command_line(&input);
        break;
    case 1:
        take_file(&input);
        break;
    default:
        take_word(&input);
        break;
    }
    return 0;
}
