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
