/*
 * Messages between tuttirun and its supervisors: what is sent is read, and nothing else is.
 * How frames are found in a stream is in test_session.c.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "base/failure_page.h"
#include "launcher/session/link.h"
#include "test/unit/unit.h"

#define TEXT(literal) \
    { \
        .text = (literal), .len = sizeof(literal) - 1 \
    }

/* One message of each type, in the order of the types. */
static const struct link_message messages[] = {
    { .type = LINK_HELLO,
            .hello = { .host = TEXT("b"),
                    .rank = 3,
                    .size = 4,
                    .local_rank = -1,
                    .local_size = 2,
                    .pid = 4711 } },
    { .type = LINK_WELCOME,
            .welcome = { .job = TEXT("job"),
                    .log_folder = TEXT("/logs"),
                    .beat_ms = 100,
                    .silent_ms = 3000,
                    .kill_ms = 7,
                    .output_rate = UINT64_C(1) << 40,
                    .forward = { LINK_FORWARD_LINES, LINK_FORWARD_BYTES },
                    .generation = 5,
                    .keeper_port = 40002 } },
    { .type = LINK_STARTED,
            .started = { .pid = 1 << 20,
                    .binding = TEXT("cores 0-3"),
                    .log = TEXT("/l") } },
    { .type = LINK_BEAT,
            .beat = { .sent = 1, .echo = 2, .held = UINT64_MAX, .state = 'T' } },
    { .type = LINK_OUTPUT,
            .output = { .stream = 2, .time = 9, .lines = TEXT("one\ntwo\n") } },
    { .type = LINK_NOTE, .note = TEXT("no room for logs") },
    { .type = LINK_SIGNAL, .signal = SIGUSR1 },
    { .type = LINK_EXITED,
            .exited = { .ending = LINK_ENDED_SIGNAL,
                    .value = SIGSEGV,
                    .time = UINT64_C(123456789012345),
                    .stage = LIBRARY_STAGE_RUNNING,
                    .dumped_core = true,
                    .is_oom = true,
                    .was_stopped = true,
                    .detail = TEXT("no memory"),
                    .tail = TEXT("last words\n"),
                    .failure = CONTEXT_FAILURE_FOUND,
                    .awaited = TEXT("0, 3-5"),
                    .committed = UINT64_C(3) << 32 } },
    { .type = LINK_FAILURE,
            .failure = { .rank = -1, .text = TEXT("host b fell silent") } },
    { .type = LINK_STOP, .stop_ms = 200 },
    { .type = LINK_RELEASE, .release = { .status = 137, .text = TEXT("why") } },
    { .type = LINK_SUSPICION, .suspicion = TEXT("rank 2 is not heard") },
    { .type = LINK_NOTICE, .notice = 2 },
    { .type = LINK_LOOK, .look = true },
    { .type = LINK_RECORDING,
            .recording = { .offset = 3,
                    .total = UINT64_C(1) << 33,
                    .bytes = TEXT("part") } },
    { .type = LINK_TIMELINE, .timeline = 3 },
    { .type = LINK_METRICS,
            .metrics = { .time = 1,
                    .steps = 2,
                    .bytes = 3,
                    .wait_ns = 4,
                    .lead_ns = UINT64_MAX } },
    { .type = LINK_GIVE, .give = { .is_withdrawn = true, .bytes = TEXT("mine") } },
    { .type = LINK_MORE, .more = 5 },
    { .type = LINK_PART, .part = { .total = 7, .offset = 5, .bytes = TEXT("part") } },
    { .type = LINK_UNMET, .unmet = TEXT("rank 1 has not started") },
    { .type = LINK_GO },
};

enum {
    MESSAGES = sizeof messages / sizeof messages[0]
};

/* Their bodies. */
static const char *const bodies[MESSAGES] = {
    "0162060801046712000000000000",
    "036a6f62052f6c6f677364000000b80b00000700000000000000000100000102"
    "05000000429c0000000000000000000000000000",
    "000010000000000009636f72657320302d33022f6c",
    "01000000000000000200000000000000ffffffffffffffff54",
    "020900000000000000086f6e650a74776f0a",
    "106e6f20726f6f6d20666f72206c6f6773",
    "14",
    "010b00000079df0d864870000001010101096e6f206d656d6f72790b6c617374"
    "20776f7264730a0106302c20332d350000000003000000",
    "0112686f737420622066656c6c2073696c656e74",
    "c8000000",
    "8903776879",
    "1372616e6b2032206973206e6f74206865617264",
    "02000000",
    "01",
    "030000000000000000000000020000000470617274",
    "03000000",
    "0100000000000000020000000000000003000000000000000400000000000000"
    "ffffffffffffffff",
    "01046d696e65",
    "0500000000000000",
    "070000000000000005000000000000000470617274",
    "1672616e6b203120686173206e6f742073746172746564",
    "",
};

/* What was written is as it must be, and what was read is written as it was. */
static void expect_body(const struct link_message *message, const char *body)
{
    struct wire_writer out = { .data = NULL };
    char text[256] = "";

    link_put_body(&out, message);
    assert_false(out.failed);
    assert_true(2 * out.len < sizeof text);
    for (size_t i = 0; i < out.len; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", out.data[i]);
    }
    assert_string_equal(text, body);
    wire_writer_fini(&out);
}

/* And cut off anywhere it is none. */
UNIT_TEST(test_every_message_comes_over_whole)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        struct wire_writer out = { .data = NULL };
        struct link_message got;
        struct wire_reader in;

        assert_int_equal(messages[i].type, LINK_HELLO + i + (i > 1 ? 1 : 0));
        expect_body(&messages[i], bodies[i]);
        link_put_body(&out, &messages[i]);
        wire_reader_init(&in, out.data, out.len);
        assert_true(link_get_body(&in, messages[i].type, &got));
        assert_int_equal(wire_left(&in), 0);
        expect_body(&got, bodies[i]);
        for (size_t len = 0; len < out.len; len++) {
            wire_reader_init(&in, out.data, len);
            assert_false(link_get_body(&in, messages[i].type, &got));
        }
        wire_writer_fini(&out);
    }
}

/* Puts a message as a frame, and reads the frame. */
static tutti_status pass(const struct link_message *message, struct link_message *got)
{
    struct wire_writer out = { .data = NULL };
    struct frame frame;
    tutti_status status;
    size_t used;

    link_put(&out, message);
    assert_int_equal(frame_take(out.data, out.len, &frame, &used), TUTTI_OK);
    assert_int_equal(used, out.len);
    assert_int_equal(frame.type, message->type);
    status = link_read(&frame, got);
    wire_writer_fini(&out);
    return status;
}

UNIT_TEST(test_values_out_of_range_are_refused)
{
    static const struct link_message odd[] = {
        { .type = LINK_SIGNAL, .signal = 0 },
        { .type = LINK_SIGNAL, .signal = 65 },
        { .type = LINK_OUTPUT, .output = { .stream = 3 } },
        { .type = LINK_STOP, .stop_ms = UINT32_MAX },
        { .type = LINK_FAILURE, .failure = { .rank = -2 } },
        { .type = LINK_EXITED, .exited = { .ending = LINK_ENDED_SETUP + 1 } },
        /* An exit status is a byte. */
        { .type = LINK_EXITED, .exited = { .ending = LINK_ENDED_EXIT, .value = 256 } },
        /* They have met. */
        { .type = LINK_HELLO },
        { .type = LINK_GO + 1 },
    };
    struct link_message got;

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        assert_int_equal(pass(&odd[i], &got), TUTTI_ERR_PROTOCOL);
    }
}

UNIT_TEST(test_a_later_version_may_say_more)
{
    static const uint8_t longer[] = { 9, 0, 1, 2 };
    const struct frame frame = { .type = LINK_RELEASE, .body = longer, .len = 4 };
    struct link_message got;

    assert_int_equal(link_read(&frame, &got), TUTTI_OK);
    assert_int_equal(got.release.status, 9);
}

UNIT_TEST(test_long_texts_are_cut)
{
    static char text[FRAME_MAX];
    struct link_message message = { .type = LINK_NOTE };
    struct link_message got;

    memset(text, 'x', sizeof text - 1);
    message.note = link_text_of(text);
    assert_int_equal(pass(&message, &got), TUTTI_OK);
    assert_int_equal(got.note.len, LINK_TEXT_MAX);
    message = (struct link_message){
        .type = LINK_OUTPUT,
        .output = { .stream = 1, .lines = link_text_of(text) },
    };
    assert_int_equal(pass(&message, &got), TUTTI_OK);
    assert_int_equal(got.output.lines.len, LINK_LINES_MAX);
}
