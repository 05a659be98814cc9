/*
 * Hosts that join: their messages and their secret. How they meet is in test_session_meet.c, and a job on
 * several in test/hosts/here.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/here/here.h"
#include "launcher/here/message.h"
#include "test/unit/unit.h"

static bool reads(const struct here_start *start)
{
    struct session session = { .fd = -1 };
    struct frame frame = { .len = 0 };
    struct here_start got;
    bool is_read;

    here_put_start(&session, start);
    frame.body = session.out.data + FRAME_LENGTH_BYTES + 1;
    frame.len = session.out.len - FRAME_LENGTH_BYTES - 1;
    is_read = here_get_start(&frame, &got) && memcmp(start, &got, sizeof got) == 0;
    frame.len--;
    assert_false(here_get_start(&frame, &got));
    session_fini(&session);
    return is_read;
}

UNIT_TEST(test_ranks_that_cannot_be_are_not_started)
{
    struct here_start start = { .size = 5, .first = 3, .count = 2, .port = 1 };

    memset(start.nonce, 'n', sizeof start.nonce);
    assert_true(reads(&start));
    start.first = 4;
    assert_false(reads(&start));
    start.first = UINT32_MAX;
    assert_false(reads(&start));
    start = (struct here_start){ .size = 5, .count = 2 };
    assert_false(reads(&start));
}

UNIT_TEST(test_tokens_are_of_secret_and_nonce)
{
    struct join_place place = { .secret = "0123456789abcdef", .secret_len = 16 };
    uint8_t nonce[PROOF_NONCE_BYTES] = { 1 };
    char token[3][LINK_TOKEN_BYTES + 1];

    here_make_token(&place, nonce, token[0]);
    place.secret[0] = 'x';
    here_make_token(&place, nonce, token[1]);
    nonce[31] = 1;
    here_make_token(&place, nonce, token[2]);
    assert_int_equal(strlen(token[0]), LINK_TOKEN_BYTES);
    assert_string_not_equal(token[0], token[1]);
    assert_string_not_equal(token[1], token[2]);
}

/* Reads a file of this text and mode. */
static tutti_status read_file(struct join_place *place, const char *text, mode_t mode)
{
    static char *none[] = { NULL };
    char path[] = "/tmp/test_join_secret.XXXXXX";
    struct options options = { .join_secret_file = path };
    int fd = mkstemp(path);
    tutti_status status;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
    *place = (struct join_place){ .secret_len = 0 };
    status = join_secret_read(&options, none, place);
    (void)unlink(path);
    return status;
}

UNIT_TEST(test_a_length_that_makes_no_secret_is_refused)
{
    static char longer[JOIN_SECRET_MAX + 10];
    struct join_place place;

    memset(longer, 'x', sizeof longer - 1);
    assert_int_equal(read_file(&place, "", 0600), TUTTI_ERR_INVALID);
    assert_int_equal(read_file(&place, "0123456789abcde\n", 0600), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "not 15; make one"));
    assert_null(strstr(tutti_last_error(), "0123456789"));
    assert_int_equal(read_file(&place, longer, 0600), TUTTI_ERR_INVALID);
}
