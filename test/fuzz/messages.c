/*
 * What a rank's engine does with the control messages of another: two ranks of one process, of
 * which the second does nothing but send what the input says: lengths and messages.
 */
#include <tutti/tutti.h>

#include "base/digest.h"
#include "base/wire.h"
#include "fuzz.h"
#include "run/context.h"

enum {
    MESSAGES_MAX = 32
};

static void no_log(void *user, tutti_log_level level, int rank, const char *line)
{
    (void)user;
    (void)level;
    (void)rank;
    (void)line;
}

static tutti_config *make_config(void)
{
    tutti_config *config = NULL;

    REQUIRE(tutti_config_create(&config) == TUTTI_OK);
    REQUIRE(tutti_config_set(config, "backend", "messages") == TUTTI_OK);
    REQUIRE(tutti_config_set(config, "background_thread", "off") == TUTTI_OK);
    REQUIRE(tutti_config_set_log(config, no_log, NULL) == TUTTI_OK);
    return config;
}

static void play(tutti *t, tutti *peer, struct fuzz_input *input)
{
    const struct transport *end = &peer->peers.transport;
    struct wire_writer message = { 0 };
    float value = 1;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status = tutti_allreduce_async(
            t, "value", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL, &request);

    REQUIRE(status == TUTTI_OK);
    for (int i = 0; i < MESSAGES_MAX && input->size > 0; i++) {
        size_t len;
        uint8_t *bytes = fuzz_bytes(input, fuzz_byte(input), &len);

        wire_put_bytes(&message, bytes, len);
        wire_put_u64(&message, digest(bytes, len)); /* else it would go no further */
        REQUIRE(!message.failed);
        REQUIRE(end->ops->send(end->state, 0, message.data, message.len) == TUTTI_OK);
        wire_writer_reset(&message);
        free(bytes);
        status = tutti_test(t, &request);
        REQUIRE(status == TUTTI_OK || status == TUTTI_AGAIN ||
                status == TUTTI_ERR_CONTEXT_FAILED || status == TUTTI_ERR_MISMATCH ||
                status == TUTTI_ERR_UNSUPPORTED || status == TUTTI_ERR_FINALIZED ||
                status == TUTTI_ERR_INVALID);
    }
    wire_writer_fini(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tutti_config *config;
    struct fuzz_input input = { data, size };
    tutti *ranks[2];

    if (config == NULL) {
        config = make_config();
    }
    REQUIRE(tutti_init_local(2, ranks, config) == TUTTI_OK);
    play(ranks[0], ranks[1], &input);
    /* In a failed context nobody waits for anybody. */
    (void)tutti_abort(ranks[0], "the end");
    (void)tutti_abort(ranks[1], "the end");
    (void)tutti_finalize(ranks[0]);
    (void)tutti_finalize(ranks[1]);
    return 0;
}
