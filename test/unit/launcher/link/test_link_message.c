/*
 * Messages between tuttirun and its supervisors: what is written is read, in any pieces,
 * and nothing else is.
 */
#include <signal.h>
#include <string.h>

#include <tutti/tutti.h>

#include "base/failure_page.h"
#include "launcher/link/message.h"
#include "test/unit/unit.h"

static struct link_text text_of(const char *text)
{
    return (struct link_text){ .text = text, .len = strlen(text) };
}

static void expect_text(struct link_text text, const char *expected)
{
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.text, expected, text.len);
}

static const struct link_hello hello = {
    .host = { .text = "b", .len = 1 },
    .rank = 3,
    .size = 4,
    .local_rank = -1,
    .local_size = 2,
    .pid = 4711,
};

static const struct link_welcome welcome = {
    .job = { .text = "job", .len = 3 },
    .log_folder = { .text = "/logs", .len = 5 },
    .beat_ms = 100,
    .silent_ms = 3000,
    .kill_ms = 0,
    .output_rate = UINT64_C(1) << 40,
    .forward = true,
};

static const struct link_exited exited = {
    .ending = LINK_ENDED_SIGNAL,
    .value = SIGSEGV,
    .time = UINT64_C(123456789012345),
    .stage = LIBRARY_STAGE_RUNNING,
    .dumped_core = true,
    .is_oom = false,
    .was_stopped = true,
    .detail = { .text = "", .len = 0 },
    .tail = { .text = "last words\n", .len = 11 },
    .failure = CONTEXT_FAILURE_FOUND,
    .awaited = { .text = "0, 3-5", .len = 6 },
};

/* One message of each type. */
static void put_all(struct wire_writer *out)
{
    link_put_started(out,
            &(struct link_started){ .pid = 1 << 20,
                    .binding = text_of("cores 0-3"),
                    .log = text_of("") });
    link_put_beat(out,
            &(struct link_beat){
                    .sent = 1, .echo = 2, .held = UINT64_MAX, .state = 'T' });
    link_put_output(out,
            &(struct link_output){
                    .stream = 2, .time = 9, .lines = text_of("one\ntwo\n") });
    link_put_note(out, "no room for logs");
    link_put_signal(out, SIGUSR1);
    link_put_exited(out, &exited);
    link_put_failure(out,
            &(struct link_failure){
                    .rank = -1, .text = text_of("host b fell silent") });
    link_put_stop(out, 200);
    link_put_release(out, 137);
    link_put_suspicion(out, "rank 2 is not heard");
}

static void expect_from_supervisor(const struct link_message *message)
{
    switch (message->type) {
    case LINK_STARTED:
        assert_int_equal(message->started.pid, 1 << 20);
        expect_text(message->started.binding, "cores 0-3");
        expect_text(message->started.log, "");
        break;
    case LINK_OUTPUT:
        assert_int_equal(message->output.stream, 2);
        assert_int_equal(message->output.time, 9);
        expect_text(message->output.lines, "one\ntwo\n");
        break;
    case LINK_NOTE:
        expect_text(message->note, "no room for logs");
        break;
    case LINK_EXITED:
        assert_int_equal(message->exited.ending, LINK_ENDED_SIGNAL);
        assert_int_equal(message->exited.value, SIGSEGV);
        assert_int_equal(message->exited.time, UINT64_C(123456789012345));
        assert_int_equal(message->exited.stage, LIBRARY_STAGE_RUNNING);
        assert_true(message->exited.dumped_core);
        assert_false(message->exited.is_oom);
        assert_true(message->exited.was_stopped);
        expect_text(message->exited.detail, "");
        expect_text(message->exited.tail, "last words\n");
        assert_int_equal(message->exited.failure, CONTEXT_FAILURE_FOUND);
        expect_text(message->exited.awaited, "0, 3-5");
        break;
    case LINK_BEAT:
    case LINK_SIGNAL:
    case LINK_FAILURE:
    case LINK_STOP:
    case LINK_RELEASE:
    case LINK_SUSPICION:
        break;
    }
}

static void expect_from_tuttirun(const struct link_message *message)
{
    switch (message->type) {
    case LINK_BEAT:
        assert_int_equal(message->beat.sent, 1);
        assert_int_equal(message->beat.echo, 2);
        assert_int_equal(message->beat.held, UINT64_MAX);
        assert_int_equal(message->beat.state, 'T');
        break;
    case LINK_SIGNAL:
        assert_int_equal(message->signal, SIGUSR1);
        break;
    case LINK_FAILURE:
        assert_int_equal(message->failure.rank, -1);
        expect_text(message->failure.text, "host b fell silent");
        break;
    case LINK_STOP:
        assert_int_equal(message->stop_ms, 200);
        break;
    case LINK_RELEASE:
        assert_int_equal(message->release, 137);
        break;
    case LINK_SUSPICION:
        expect_text(message->suspicion, "rank 2 is not heard");
        break;
    case LINK_STARTED:
    case LINK_OUTPUT:
    case LINK_NOTE:
    case LINK_EXITED:
        break;
    }
}

/* The first message of a stream; *used is 0 when it is not whole. */
static tutti_status take(
        const void *bytes, size_t len, struct link_message *message, size_t *used)
{
    struct frame frame;
    tutti_status status = frame_take(bytes, len, NULL, &frame, used);

    if (status == TUTTI_OK && *used > 0) {
        status = link_read(&frame, message);
    }
    return status;
}

UNIT_TEST(test_hello_and_welcome_come_over)
{
    struct wire_writer out = { .data = NULL };
    struct wire_reader in;
    struct link_hello said;
    struct link_welcome wanted;
    size_t len;

    link_put_hello(&out, &hello);
    len = out.len;
    wire_reader_init(&in, out.data, len);
    assert_true(link_get_hello(&in, &said));
    expect_text(said.host, "b");
    assert_int_equal(said.rank, 3);
    assert_int_equal(said.size, 4);
    assert_int_equal(said.local_rank, -1);
    assert_int_equal(said.local_size, 2);
    assert_int_equal(said.pid, 4711);
    link_put_welcome(&out, &welcome);
    wire_reader_init(&in, out.data + len, out.len - len);
    assert_true(link_get_welcome(&in, &wanted));
    expect_text(wanted.job, "job");
    expect_text(wanted.log_folder, "/logs");
    assert_int_equal(wanted.beat_ms, 100);
    assert_int_equal(wanted.silent_ms, 3000);
    assert_int_equal(wanted.kill_ms, 0);
    assert_int_equal(wanted.output_rate, UINT64_C(1) << 40);
    assert_true(wanted.forward);
    /* Cut anywhere they are none. */
    for (size_t cut = 0; cut < len; cut++) {
        wire_reader_init(&in, out.data, cut);
        assert_false(link_get_hello(&in, &said));
    }
    for (size_t cut = len; cut < out.len; cut++) {
        wire_reader_init(&in, out.data + len, cut - len);
        assert_false(link_get_welcome(&in, &wanted));
    }
    wire_writer_fini(&out);
}

/* All types in order; returns how many there were. */
static int take_all(const uint8_t *bytes, size_t len)
{
    int count = 0;

    while (len > 0) {
        struct link_message message;
        size_t used;

        assert_int_equal(take(bytes, len, &message, &used), TUTTI_OK);
        assert_true(used > 0);
        count++;
        assert_int_equal(message.type, FRAME_OWN + count - 1);
        expect_from_supervisor(&message);
        expect_from_tuttirun(&message);
        bytes += used;
        len -= used;
    }
    return count;
}

UNIT_TEST(test_every_message_comes_over)
{
    struct wire_writer out = { .data = NULL };
    uint8_t order[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };

    put_all(&out);
    assert_false(out.failed);
    assert_int_equal(take_all(out.data, out.len), sizeof order);
    wire_writer_fini(&out);
}

UNIT_TEST(test_a_message_that_is_not_whole_waits)
{
    struct wire_writer out = { .data = NULL };
    struct link_message message;
    size_t used = 1;

    link_put_exited(&out, &exited);
    for (size_t len = 0; len < out.len; len++) {
        assert_int_equal(take(out.data, len, &message, &used), TUTTI_OK);
        assert_int_equal(used, 0);
    }
    assert_int_equal(take(out.data, out.len, &message, &used), TUTTI_OK);
    assert_int_equal(used, out.len);
    wire_writer_fini(&out);
}

/* A message whose fields end early, whatever its length says. */
UNIT_TEST(test_fields_that_are_cut_off_are_refused)
{
    struct wire_writer out = { .data = NULL };
    struct link_message message;
    size_t used;

    link_put_exited(&out, &exited);
    for (size_t len = 5; len < out.len; len++) {
        uint8_t bytes[256];

        memcpy(bytes, out.data, out.len);
        bytes[0] = (uint8_t)(len - 4);
        assert_int_equal(take(bytes, len, &message, &used), TUTTI_ERR_PROTOCOL);
    }
    wire_writer_fini(&out);
}

static void expect_refused(const uint8_t *bytes, size_t len)
{
    struct link_message message;
    size_t used;

    assert_int_equal(take(bytes, len, &message, &used), TUTTI_ERR_PROTOCOL);
}

UNIT_TEST(test_what_makes_no_sense_is_refused)
{
    static const uint8_t empty[] = { 0, 0, 0, 0 };
    static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff };
    static const uint8_t unknown[] = { 1, 0, 0, 0, 99 };
    static const uint8_t no_signal[] = { 2, 0, 0, 0, LINK_SIGNAL, 0 };
    static const uint8_t far_signal[] = { 3, 0, 0, 0, LINK_SIGNAL, 0x82, 0x01 };
    static const uint8_t third_stream[] = { 11, 0, 0, 0, LINK_OUTPUT, 3, 0, 0, 0, 0, 0,
        0, 0, 0, 0 };

    expect_refused(empty, sizeof empty);
    expect_refused(huge, sizeof huge);
    expect_refused(unknown, sizeof unknown);
    expect_refused(no_signal, sizeof no_signal);
    expect_refused(far_signal, sizeof far_signal);
    expect_refused(third_stream, sizeof third_stream);
}

UNIT_TEST(test_an_exit_status_is_a_byte)
{
    struct link_exited odd = exited;
    struct wire_writer out = { .data = NULL };

    odd.ending = LINK_ENDED_EXIT;
    odd.value = 256;
    link_put_exited(&out, &odd);
    expect_refused(out.data, out.len);
    wire_writer_fini(&out);
}

UNIT_TEST(test_a_later_version_may_say_more)
{
    static const uint8_t longer[] = { 4, 0, 0, 0, LINK_RELEASE, 9, 1, 2 };
    struct link_message message;
    size_t used;

    assert_int_equal(take(longer, sizeof longer, &message, &used), TUTTI_OK);
    assert_int_equal(used, sizeof longer);
    assert_int_equal(message.release, 9);
}

UNIT_TEST(test_long_texts_are_cut)
{
    static char text[FRAME_MAX];
    struct wire_writer out = { .data = NULL };
    struct link_message message;
    size_t used;

    memset(text, 'x', sizeof text - 1);
    link_put_note(&out, text);
    link_put_output(&out, &(struct link_output){ .stream = 1, .lines = text_of(text) });
    assert_int_equal(take(out.data, out.len, &message, &used), TUTTI_OK);
    assert_int_equal(message.note.len, LINK_TEXT_MAX);
    assert_int_equal(take(out.data + used, out.len - used, &message, &used), TUTTI_OK);
    assert_int_equal(message.output.lines.len, LINK_LINES_MAX);
    wire_writer_fini(&out);
}
