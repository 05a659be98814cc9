/*
 * What ranks gather at the start: one message from rank 0 with the blocks of all
 * (transport/bootstrap.c), the facts in them (api/setup.c), and those about GPUs.
 */
#include <string.h>

#include "api/gpu_facts.h"
#include "api/setup.h"
#include "fuzz.h"

/* A transport to a rank 0 that says the input to whatever comes. */
static tutti_status swallow(void *state, int to, const void *bytes, size_t len)
{
    (void)state;
    (void)to;
    (void)bytes;
    (void)len;
    return TUTTI_OK;
}

static tutti_status say(void *state, transport_deliver deliver, void *user)
{
    struct fuzz_input *input = state;
    size_t len;
    uint8_t *bytes = fuzz_bytes(input, input->size, &len);

    deliver(user, 0, bytes, len);
    free(bytes);
    return TUTTI_OK;
}

static bool is_flushed(void *state)
{
    (void)state;
    return true;
}

static void close_nothing(void *state)
{
    (void)state;
}

static const struct transport_ops ops = { .name = "fuzz",
    .send = swallow,
    .poll = say,
    .flushed = is_flushed,
    .close = close_nothing };

/* A rank's own record, with which those of the others are compared: in files of the corpus. */
static void take_start(struct fuzz_input *input)
{
    const int size = 1 + fuzz_byte(input) % 4;
    struct context_spec spec = { .rank = 1, .size = size };

    REQUIRE(setup_begin(&spec, NULL, 1) == TUTTI_OK);
    spec.transport =
            (struct transport){ .ops = &ops, .state = input, .rank = 1, .size = size };
    (void)!setup_agree(&spec);
    context_spec_fini(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    struct gpu_facts facts = { 0 };
    uint8_t *bytes;
    size_t len;

    if (fuzz_byte(&input) % 2 == 0) {
        take_start(&input);
        return 0;
    }
    bytes = fuzz_bytes(&input, input.size, &len);
    if (gpu_facts_get(bytes, len, 1, &facts) == TUTTI_OK) {
        REQUIRE(memchr(facts.reason, '\0', sizeof facts.reason) != NULL);
        REQUIRE(memchr(facts.pci, '\0', sizeof facts.pci) != NULL);
    }
    free(bytes);
    return 0;
}
