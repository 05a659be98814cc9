/*
 * Messages between tuttirun and its supervisors: what is sent is read, and nothing else is.
 * How frames are found in a stream is in test_session.c.
 */
#include <signal.h>
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
    { .type = LINK_RELEASE, .release = 137 },
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
};

enum {
    MESSAGES = sizeof messages / sizeof messages[0]
};

static void expect_text(struct link_text text, struct link_text expected)
{
    assert_int_equal(text.len, expected.len);
    assert_memory_equal(text.text, expected.text, expected.len);
}

static void expect_output(const struct link_output *got, const struct link_output *sent)
{
    assert_int_equal(got->stream, sent->stream);
    assert_int_equal(got->time, sent->time);
    expect_text(got->lines, sent->lines);
}

static void expect_started(
        const struct link_started *got, const struct link_started *sent)
{
    assert_int_equal(got->pid, sent->pid);
    expect_text(got->binding, sent->binding);
    expect_text(got->log, sent->log);
}

static void expect_recording(
        const struct link_recording *got, const struct link_recording *sent)
{
    assert_int_equal(got->offset, sent->offset);
    assert_int_equal(got->total, sent->total);
    expect_text(got->bytes, sent->bytes);
}

static void expect_exited(const struct link_exited *got, const struct link_exited *sent)
{
    assert_int_equal(got->ending, sent->ending);
    assert_int_equal(got->value, sent->value);
    assert_int_equal(got->time, sent->time);
    assert_int_equal(got->stage, sent->stage);
    assert_int_equal(got->dumped_core, sent->dumped_core);
    assert_int_equal(got->is_oom, sent->is_oom);
    assert_int_equal(got->was_stopped, sent->was_stopped);
    expect_text(got->detail, sent->detail);
    expect_text(got->tail, sent->tail);
    assert_int_equal(got->failure, sent->failure);
    expect_text(got->awaited, sent->awaited);
    assert_int_equal(got->committed, sent->committed);
}

/* HELLO and WELCOME, by which they meet. */
static void expect_meeting(
        const struct link_message *got, const struct link_message *sent)
{
    if (got->type == LINK_HELLO) {
        expect_text(got->hello.host, sent->hello.host);
        assert_int_equal(got->hello.rank, sent->hello.rank);
        assert_int_equal(got->hello.size, sent->hello.size);
        assert_int_equal(got->hello.local_rank, sent->hello.local_rank);
        assert_int_equal(got->hello.local_size, sent->hello.local_size);
        assert_int_equal(got->hello.pid, sent->hello.pid);
        return;
    }
    expect_text(got->welcome.job, sent->welcome.job);
    expect_text(got->welcome.log_folder, sent->welcome.log_folder);
    assert_int_equal(got->welcome.beat_ms, sent->welcome.beat_ms);
    assert_int_equal(got->welcome.silent_ms, sent->welcome.silent_ms);
    assert_int_equal(got->welcome.kill_ms, sent->welcome.kill_ms);
    assert_int_equal(got->welcome.output_rate, sent->welcome.output_rate);
    assert_memory_equal(
            got->welcome.forward, sent->welcome.forward, sizeof sent->welcome.forward);
    assert_int_equal(got->welcome.generation, sent->welcome.generation);
    assert_int_equal(got->welcome.keeper_port, sent->welcome.keeper_port);
}

static void expect_beat(const struct link_beat *got, const struct link_beat *sent)
{
    assert_memory_equal(
            got, sent, offsetof(struct link_beat, state) + sizeof sent->state);
}

static void expect_numbers(
        const struct link_message *got, const struct link_message *sent)
{
    if (sent->type == LINK_TIMELINE) {
        assert_int_equal(got->timeline, sent->timeline);
    } else {
        assert_memory_equal(&got->metrics, &sent->metrics, sizeof got->metrics);
    }
}

static void expect_same(const struct link_message *got, const struct link_message *sent)
{
    switch (sent->type) {
    case LINK_HELLO:
    case LINK_WELCOME:
        expect_meeting(got, sent);
        break;
    case LINK_STARTED:
        expect_started(&got->started, &sent->started);
        break;
    case LINK_BEAT:
        expect_beat(&got->beat, &sent->beat);
        break;
    case LINK_OUTPUT:
        expect_output(&got->output, &sent->output);
        break;
    case LINK_NOTE:
        expect_text(got->note, sent->note);
        break;
    case LINK_SIGNAL:
        assert_int_equal(got->signal, sent->signal);
        break;
    case LINK_EXITED:
        expect_exited(&got->exited, &sent->exited);
        break;
    case LINK_FAILURE:
        assert_int_equal(got->failure.rank, sent->failure.rank);
        expect_text(got->failure.text, sent->failure.text);
        break;
    case LINK_STOP:
        assert_int_equal(got->stop_ms, sent->stop_ms);
        break;
    case LINK_RELEASE:
        assert_int_equal(got->release, sent->release);
        break;
    case LINK_SUSPICION:
        expect_text(got->suspicion, sent->suspicion);
        break;
    case LINK_NOTICE:
        assert_int_equal(got->notice, sent->notice);
        break;
    case LINK_LOOK:
        assert_int_equal(got->look, sent->look);
        break;
    case LINK_RECORDING:
        expect_recording(&got->recording, &sent->recording);
        break;
    case LINK_TIMELINE:
    case LINK_METRICS:
        expect_numbers(got, sent);
        break;
    }
}

/* And cut off anywhere it is none. */
UNIT_TEST(test_every_message_comes_over_whole)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        struct wire_writer out = { .data = NULL };
        struct link_message got;
        struct wire_reader in;

        assert_int_equal(messages[i].type, LINK_HELLO + i + (i > 1 ? 1 : 0));
        link_put_body(&out, &messages[i]);
        assert_false(out.failed);
        wire_reader_init(&in, out.data, out.len);
        assert_true(link_get_body(&in, messages[i].type, &got));
        assert_int_equal(wire_left(&in), 0);
        assert_int_equal(got.type, messages[i].type);
        expect_same(&got, &messages[i]);
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
    assert_int_equal(frame_take(out.data, out.len, NULL, &frame, &used), TUTTI_OK);
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
        { .type = LINK_METRICS + 1 },
    };
    struct link_message got;

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        assert_int_equal(pass(&odd[i], &got), TUTTI_ERR_PROTOCOL);
    }
}

UNIT_TEST(test_a_later_version_may_say_more)
{
    static const uint8_t longer[] = { 9, 1, 2 };
    const struct frame frame = { .type = LINK_RELEASE, .body = longer, .len = 3 };
    struct link_message got;

    assert_int_equal(link_read(&frame, &got), TUTTI_OK);
    assert_int_equal(got.release, 9);
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
