/*
 * The secret of hosts that join: from where, and which are refused.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/join/secret.h"
#include "test/unit/unit.h"

#define SECRET "0123456789abcdef"

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

UNIT_TEST(test_a_file_without_its_last_newline)
{
    static const char *const texts[] = { SECRET, SECRET "\n", SECRET "\r\n" };
    struct join_place place;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(read_file(&place, texts[i], 0400), TUTTI_OK);
        assert_int_equal(place.secret_len, strlen(SECRET));
        assert_memory_equal(place.secret, SECRET, strlen(SECRET));
    }
}

UNIT_TEST(test_a_file_that_others_may_read_is_refused)
{
    static const mode_t modes[] = { 0604, 0640, 0602, 0610 };
    struct join_place place;

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(read_file(&place, SECRET, modes[i]), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), "chmod 600"));
        assert_null(strstr(tutti_last_error(), SECRET));
        assert_int_equal(place.secret_len, 0);
    }
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

UNIT_TEST(test_without_a_file)
{
    static char variable[] = "TUTTI_JOIN_SECRET=" SECRET;
    static char *set[] = { variable, NULL };
    static char *unset[] = { NULL };
    struct options options = { .join_secret_file = NULL };
    struct join_place place = { .secret_len = 0 };

    assert_int_equal(join_secret_read(&options, set, &place), TUTTI_OK);
    assert_memory_equal(place.secret, SECRET, place.secret_len);
    place.secret_len = 0;
    assert_int_equal(join_secret_read(&options, unset, &place), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "--join-trusted-network"));
    options.join_trusted_network = true;
    assert_int_equal(join_secret_read(&options, unset, &place), TUTTI_OK);
    assert_int_equal(place.secret_len, 0);
    options.join_secret_file = "/no/such/file";
    assert_int_equal(join_secret_read(&options, set, &place), TUTTI_ERR_INVALID);
}
