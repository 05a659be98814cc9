/*
 * Hosts that start their own ranks: which these are, and their secret. A job on several is in test/hosts/here.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/here/here.h"
#include "test/unit/unit.h"

UNIT_TEST(test_tokens_are_of_secret_and_key)
{
    struct join_place place = { .secret = "0123456789abcdef", .secret_len = 16 };
    char token[3][LINK_TOKEN_BYTES + 1];

    here_token(&place, token[0]);
    place.secret[0] = 'x';
    here_token(&place, token[1]);
    place.key[0] = 'k';
    here_token(&place, token[2]);
    assert_int_equal(strlen(token[0]), LINK_TOKEN_BYTES);
    assert_string_not_equal(token[0], token[1]);
    assert_string_not_equal(token[1], token[2]);
}

UNIT_TEST(test_hosts_know_their_ranks)
{
    struct options options = { .slots_per_host = 3 };
    struct placement placement = { .join = { .nodes = 3, .index = 1 } };

    assert_int_equal(here_place(&options, &placement), TUTTI_OK);
    assert_int_equal(placement.hosts.count, 3);
    assert_int_equal(options.engine, MPI_KIND_HERE);
    assert_int_equal(placement.join.port, 47108);
    assert_int_equal(here_share(&placement, 5), TUTTI_OK);
    assert_int_equal(placement.share.first, 3);
    assert_int_equal(placement.share.count, 2);
    options.min_np = 1;
    assert_int_equal(here_place(&options, &placement), TUTTI_ERR_INVALID);
    options.engine = MPI_KIND_OPENMPI;
    assert_int_equal(here_place(&options, &placement), TUTTI_ERR_INVALID);
    placement_fini(&placement);
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
