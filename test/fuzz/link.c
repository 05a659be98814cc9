/*
 * What tuttirun and supervisors say to each other: frames, and the messages in
 * them (launcher/session/link.h). What is read is written and read again, to the same bytes.
 */
#include "launcher/session/link.h"

#include <string.h>

#include "fuzz.h"

static void take_again(const struct link_message *message)
{
    struct wire_writer first = { 0 };
    struct wire_writer second = { 0 };
    struct wire_reader in;
    struct link_message again;

    link_put_body(&first, message);
    wire_reader_init(&in, first.data, first.len);
    REQUIRE(link_get_body(&in, message->type, &again));
    link_put_body(&second, &again);
    REQUIRE(first.len == second.len);
    REQUIRE(first.len == 0 || memcmp(first.data, second.data, first.len) == 0);
    wire_writer_fini(&first);
    wire_writer_fini(&second);
}

static void take_message(const struct frame *frame)
{
    struct link_message message;

    if (link_read(frame, &message) != TUTTI_OK) {
        return;
    }
    take_again(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    struct frame frame = { 0 };
    size_t len;
    uint8_t *bytes = fuzz_bytes(&input, input.size, &len);
    size_t at = 0;
    size_t used = 1;

    while (used > 0 && frame_take(bytes + at, len - at, &frame, &used) == TUTTI_OK) {
        if (used > 0) {
            take_message(&frame);
        }
        at += used;
    }
    free(bytes);
    return 0;
}
