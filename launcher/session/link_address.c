/*
 * The text that tells supervisors where tuttirun is.
 */
#include "launcher/session/link_address.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum {
    PORT_MAX = 65535
};

void link_address_format(const struct link_address *address, char text[LINK_JOIN_MAX])
{
    size_t len = (size_t)snprintf(text, LINK_JOIN_MAX, "%s ", address->token);

    for (size_t i = 0; i < address->count; i++) {
        len += (size_t)snprintf(text + len, LINK_JOIN_MAX - len, "%s%s",
                i == 0 ? "" : ",", address->addresses[i]);
    }
    (void)snprintf(text + len, LINK_JOIN_MAX - len, " %d", address->port);
}

/* Copies up to the next of `ends` and moves behind it; false: empty or too long. */
static bool take_word(const char **text, const char *ends, char *word, size_t capacity)
{
    size_t len = strcspn(*text, ends);

    if (len == 0 || len >= capacity) {
        return false;
    }
    memcpy(word, *text, len);
    word[len] = '\0';
    *text += len;
    return true;
}

static bool take_addresses(const char **text, struct link_address *address)
{
    do {
        if (address->count == LINK_ADDRESSES_MAX ||
                !take_word(text, ", ", address->addresses[address->count],
                        LINK_ADDRESS_MAX)) {
            return false;
        }
        address->count++;
    } while (*(*text)++ == ',');
    return (*text)[-1] == ' ';
}

static bool take_port(const char *text, int *port)
{
    int64_t value;

    if (!text_to_int64(text, &value) || value < 1 || value > PORT_MAX) {
        return false;
    }
    *port = (int)value;
    return true;
}

static bool parse(struct link_address *address, const char *text)
{
    if (!take_word(&text, " ", address->token, sizeof address->token) ||
            strlen(address->token) != LINK_TOKEN_BYTES || *text != ' ') {
        return false;
    }
    text++;
    return take_addresses(&text, address) && take_port(text, &address->port);
}

tutti_status link_address_parse(struct link_address *address, const char *text)
{
    struct link_address found = { .count = 0 };

    if (!parse(&found, text)) {
        return error_set(TUTTI_ERR_INVALID,
                "%s is malformed; it is set by tuttirun for the ranks it starts, and "
                "means nothing elsewhere",
                LINK_VARIABLE);
    }
    *address = found;
    return TUTTI_OK;
}
