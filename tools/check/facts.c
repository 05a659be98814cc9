/*
 * Facts of a host as lines.
 */
#include "tools/check/facts.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* How a member is written. */
enum kind {
    KIND_TEXT, /* FACTS_TEXT_MAX bytes    */
    KIND_ADDRESS, /* FACTS_ADDRESS_MAX bytes */
    KIND_NUMBER, /* uint64_t                */
    KIND_SIGNED /* int64_t                 */
};

static const struct {
    const char *key;
    enum kind kind;
    size_t offset; /* of the member */
} members[] = {
    { "release", KIND_TEXT, offsetof(struct facts, release) },
    { "binary", KIND_TEXT, offsetof(struct facts, binary) },
    { "host", KIND_TEXT, offsetof(struct facts, host) },
    { "machine", KIND_TEXT, offsetof(struct facts, machine) },
    { "engine", KIND_TEXT, offsetof(struct facts, launcher) },
    { "engine_trouble", KIND_TEXT, offsetof(struct facts, launcher_trouble) },
    { "seen_as", KIND_ADDRESS, offsetof(struct facts, seen_as) },
    { "gpus", KIND_NUMBER, offsetof(struct facts, gpus) },
    { "gpus_unusable", KIND_NUMBER, offsetof(struct facts, gpus_unusable) },
    { "shm_bytes", KIND_NUMBER, offsetof(struct facts, shm_bytes) },
    { "shm_free", KIND_NUMBER, offsetof(struct facts, shm_free) },
    { "cma_errno", KIND_NUMBER, offsetof(struct facts, cma_errno) },
    { "ptrace_scope", KIND_SIGNED, offsetof(struct facts, ptrace_scope) },
    { "port", KIND_NUMBER, offsetof(struct facts, port) },
    { "nonce", KIND_NUMBER, offsetof(struct facts, nonce) },
};

enum {
    MEMBERS = sizeof members / sizeof members[0]
};

void facts_write(const struct facts *facts, FILE *file)
{
    const char *base = (const char *)facts;

    (void)fprintf(file, "%s\n", FACTS_BEGIN);
    for (size_t i = 0; i < MEMBERS; i++) {
        const void *member = base + members[i].offset;

        (void)fprintf(file, "%s ", members[i].key);
        switch (members[i].kind) {
        case KIND_TEXT:
        case KIND_ADDRESS:
            (void)fprintf(file, "%s\n", (const char *)member);
            break;
        case KIND_NUMBER:
            (void)fprintf(file, "%" PRIu64 "\n", *(const uint64_t *)member);
            break;
        case KIND_SIGNED:
            (void)fprintf(file, "%" PRId64 "\n", *(const int64_t *)member);
            break;
        }
    }
    for (size_t i = 0; i < facts->address_count; i++) {
        (void)fprintf(file, "address %s\n", facts->addresses[i]);
    }
    (void)fprintf(file, "%s\n", FACTS_END);
}

bool facts_number(const char *text, uint64_t *value)
{
    uint64_t number = 0;

    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(number, 10, &number) ||
                __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number)) {
            return false;
        }
    }
    *value = number;
    return true;
}

size_t facts_words(char *line, char **words, size_t capacity)
{
    size_t count = 0;

    while (line != NULL && count < capacity) {
        words[count++] = strsep(&line, " ");
    }
    return count;
}

const char *facts_errno(int error)
{
    const char *words = strerrordesc_np(error);

    return words == NULL ? "an error that has no name" : words;
}

static bool copy_text(char *to, size_t capacity, const char *text)
{
    int len = snprintf(to, capacity, "%s", text);

    return len >= 0 && (size_t)len < capacity;
}

static bool set_member(struct facts *facts, size_t i, const char *value)
{
    void *member = (char *)facts + members[i].offset;

    switch (members[i].kind) {
    case KIND_TEXT:
        return copy_text(member, FACTS_TEXT_MAX, value);
    case KIND_ADDRESS:
        return copy_text(member, FACTS_ADDRESS_MAX, value);
    case KIND_NUMBER:
        return facts_number(value, member);
    case KIND_SIGNED:
        return text_to_int64(value, member);
    }
    return false;
}

static bool add_address(struct facts *facts, const char *value)
{
    if (facts->address_count == FACTS_ADDRESSES_MAX) {
        return true; /* more than are tried */
    }
    return copy_text(
            facts->addresses[facts->address_count++], FACTS_ADDRESS_MAX, value);
}

tutti_status facts_take(struct facts *facts, const char *line)
{
    size_t len = strcspn(line, " ");
    const char *value = line[len] == ' ' ? line + len + 1 : line + len;
    bool is_good = true;

    if (len == strlen("address") && strncmp(line, "address", len) == 0) {
        is_good = add_address(facts, value);
    }
    for (size_t i = 0; i < MEMBERS; i++) {
        if (strlen(members[i].key) == len && strncmp(line, members[i].key, len) == 0) {
            is_good = set_member(facts, i, value);
        }
    }
    if (!is_good) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "tuttirun --check-host said what is no fact: %.100s", line);
    }
    return TUTTI_OK;
}
