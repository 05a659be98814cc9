/*
 * Mail. A message is its sender as a varint, and the bytes as a string of the wire.
 */
#include "transport/mail.h"

#include <stdint.h>

enum {
    MESSAGE_HEADER_MAX = 20
}; /* two varints */

bool mail_put(struct wire_writer *mail, int from, const void *bytes, size_t len)
{
    if (len > SIZE_MAX - MESSAGE_HEADER_MAX ||
            !wire_writer_reserve(mail, len + MESSAGE_HEADER_MAX)) {
        /* What is in the buffer stays good when one more does not fit. */
        mail->failed = false;
        return false;
    }
    wire_put_varint(mail, (uint64_t)from);
    wire_put_str(mail, bytes, len);
    return true;
}

void mail_deliver(struct wire_writer *mail, transport_deliver deliver, void *user)
{
    struct wire_reader in;

    wire_reader_init(&in, mail->data, mail->len);
    while (wire_left(&in) > 0) {
        int from = (int)wire_get_varint(&in);
        size_t len;
        const char *bytes = wire_get_str(&in, SIZE_MAX, &len);

        deliver(user, from, bytes, len);
    }
    wire_writer_reset(mail);
}
