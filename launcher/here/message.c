#include "launcher/here/message.h"

#include <stdio.h>
#include <string.h>

const struct meet_protocol here_protocol = { .name = "here", .is_sealed = true };

static void put_text(struct wire_writer *out, const char *text)
{
    wire_put_str(out, text, strlen(text));
}

void here_put_hello(struct wire_writer *out, const struct here_hello *hello)
{
    put_text(out, hello->key);
    put_text(out, hello->name);
    wire_put_u32(out, hello->index);
    wire_put_u32(out, hello->slots);
}

bool here_get_hello(struct wire_reader *in, struct here_hello *hello)
{
    wire_get_text(in, hello->key, sizeof hello->key);
    wire_get_text(in, hello->name, sizeof hello->name);
    hello->index = wire_get_u32(in);
    hello->slots = wire_get_u32(in);
    return wire_ok(in) && hello->slots >= 1 && hello->slots <= HOST_SLOTS_LIMIT;
}

void here_put_start(struct session *session, const struct here_start *start)
{
    const size_t begun = session_begin(session, HERE_START);

    wire_put_u32(&session->out, start->size);
    wire_put_u32(&session->out, start->first);
    wire_put_u32(&session->out, start->count);
    wire_put_u32(&session->out, start->port);
    wire_put_bytes(&session->out, start->nonce, sizeof start->nonce);
    session_end(session, begun);
}

bool here_get_start(const struct frame *frame, struct here_start *start)
{
    struct wire_reader in;
    const uint8_t *nonce;

    wire_reader_init(&in, frame->body, frame->len);
    start->size = wire_get_u32(&in);
    start->first = wire_get_u32(&in);
    start->count = wire_get_u32(&in);
    start->port = wire_get_u32(&in);
    nonce = wire_get_bytes(&in, sizeof start->nonce);
    if (nonce == NULL) {
        return false;
    }
    memcpy(start->nonce, nonce, sizeof start->nonce);
    return start->size <= RANKS_LIMIT && start->count <= start->size &&
            start->first <= start->size - start->count && start->port > 0 &&
            start->port <= UINT16_MAX;
}

void here_put_end(struct session *session, const struct here_end *end)
{
    const size_t begun = session_begin(session, HERE_END);

    wire_put_u32(&session->out, end->status);
    put_text(&session->out, end->text);
    session_end(session, begun);
}

bool here_get_end(const struct frame *frame, struct here_end *end)
{
    struct wire_reader in;

    wire_reader_init(&in, frame->body, frame->len);
    end->status = wire_get_u32(&in);
    wire_get_text(&in, end->text, sizeof end->text);
    return wire_ok(&in);
}

void here_make_token(const struct join_place *place,
        const uint8_t nonce[PROOF_NONCE_BYTES], char token[LINK_TOKEN_BYTES + 1])
{
    struct proof_exchange exchange = { .secret = place->secret,
        .secret_len = place->secret_len };
    uint8_t proof[PROOF_BYTES];

    memcpy(exchange.challenge, nonce, PROOF_NONCE_BYTES);
    proof_make(&exchange, "tutti here, token of supervisors", NULL, 0, proof);
    for (size_t i = 0; i < LINK_TOKEN_BYTES / 2; i++) {
        (void)snprintf(token + 2 * i, 3, "%02x", proof[i]);
    }
}
