/*
 * Mail: messages in one buffer.
 */
#include "base/mem.h"
#include "test/unit/transport/ranks.h"
#include "transport/mail.h"

UNIT_TEST(test_mail_keeps_order_senders_and_bytes)
{
    struct wire_writer mail = { .data = NULL };
    struct inbox inbox = { .used = 0 };

    assert_true(mail_put(&mail, 7, "abc", 3));
    assert_true(mail_put(&mail, 300, NULL, 0));
    assert_true(mail_put(&mail, 7, "d", 1));
    mail_deliver(&mail, inbox_keep, &inbox);

    assert_string_equal(inbox.text, "7:abc;300:;7:d;");
    mail_deliver(&mail, inbox_keep, &inbox);
    assert_string_equal(inbox.text, "7:abc;300:;7:d;");
    wire_writer_fini(&mail);
}

UNIT_TEST(test_lack_of_memory_leaves_the_mail_as_it_was)
{
    static const char large[1000];
    struct wire_writer mail = { .data = NULL };
    struct inbox inbox = { .used = 0 };

    mem_fail_at(1);
    assert_false(mail_put(&mail, 1, "lost", 4));
    assert_true(mail_put(&mail, 1, "first", 5));
    mem_fail_at(1);
    assert_false(mail_put(&mail, 2, large, sizeof large));
    assert_false(mail_put(&mail, 2, large, SIZE_MAX - 1));
    assert_true(mail_put(&mail, 3, "second", 6));

    mail_deliver(&mail, inbox_keep, &inbox);
    assert_string_equal(inbox.text, "1:first;3:second;");
    wire_writer_fini(&mail);
}
