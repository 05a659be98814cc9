/*
 * What other programs print and tuttirun reads: the starter's output and words of MPI_Abort(),
 * and the facts of the agents of --check.
 */
#include <string.h>

#include "fuzz.h"
#include "launcher/job/launcher_process.h"
#include "tools/check/talk.h"

static void take_line(void *context, const char *line)
{
    struct abort_words *words = context;

    REQUIRE(strlen(line) < LAUNCHER_OUTPUT_LINE_MAX);
    abort_words_take(words, line, strlen(line));
}

static void take_output(struct fuzz_input *input)
{
    static struct launcher_output output;
    struct abort_words words = { 0 };

    output = (struct launcher_output){ .count = 0 };
    while (input->size > 0) {
        size_t len;
        uint8_t *bytes = fuzz_bytes(input, 100, &len);

        launcher_output_add(&output, (const char *)bytes, len, take_line, &words);
        free(bytes);
    }
    launcher_output_end(&output, take_line, &words);
    for (size_t i = 0; i < launcher_output_kept(&output); i++) {
        REQUIRE(launcher_output_line(&output, i)[0] != '\0');
    }
}

static void take_agent(struct fuzz_input *input)
{
    static struct seen seen;
    struct talk talk = { .seen = &seen };
    struct tried_pair pair;
    char *line;

    seen = (struct seen){ 0 };
    while ((line = fuzz_line(input)) != NULL) {
        if (talk_line(&talk, line, 1, &pair) == TALK_ASK_CLOCK) {
            talk.asked_real_ns = 1;
        } else if (talk.state == TALK_READY) {
            talk.state = TALK_PAIRS;
        }
        free(line);
    }
    REQUIRE(seen.facts.address_count <= FACTS_ADDRESSES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };

    if (fuzz_byte(&input) % 2 == 0) {
        take_output(&input);
    } else {
        take_agent(&input);
    }
    return 0;
}
