/*
 * Lists of hosts. Parsers of single words return the reason why a word is wrong, or
 * NULL; their callers know where the word came from and make the error of it.
 */
#include "launcher/hosts/host_list.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    LINE_LIMIT = 4096, /* bytes of a line in a hostfile         */
    SHOWN_LIMIT = 100 /* bytes of a wrong text that are shown  */
};

static const char white_space[] = " \t\r\n\v\f";
static const char byte_order_mark[] =
        "\xef\xbb\xbf"; /* editors of Windows begin files so */

void host_list_fini(struct host_list *list)
{
    mem_free(list->hosts);
    *list = (struct host_list){ .hosts = NULL };
}

static const char *read_slots(const char *text, int *slots)
{
    int64_t number;

    if (!text_to_int64(text, &number) || number < 1 || number > HOST_SLOTS_LIMIT) {
        return "slots are a number from 1 to 65536";
    }
    *slots = (int)number;
    return NULL;
}

/* "[address%zone]" and what follows it; *rest is set to what follows. */
static const char *read_address(const char *word, struct host *host, const char **rest)
{
    size_t len = strcspn(word + 1, "]");
    struct in6_addr address;
    char text[HOST_NAME_LIMIT];

    if (word[1 + len] != ']') {
        return "']' is missing";
    }
    if (len >= HOST_NAME_LIMIT) {
        return "the address is too long";
    }
    (void)snprintf(host->name, sizeof host->name, "%.*s", (int)len, word + 1);
    (void)snprintf(
            text, sizeof text, "%.*s", (int)strcspn(host->name, "%"), host->name);
    if (inet_pton(AF_INET6, text, &address) != 1) {
        return "not an IPv6 address between the brackets";
    }
    *rest = word + 1 + len + 1;
    return NULL;
}

static const char *read_name(const char *word, struct host *host, const char **rest)
{
    size_t len = strspn(
            word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");

    if (len >= HOST_NAME_LIMIT) {
        return "the host name is too long";
    }
    if (strchr(word, ':') != strrchr(word, ':')) {
        return "write an IPv6 address in brackets: [::1]:2";
    }
    if (len == 0 && (word[0] == '\0' || word[0] == ':')) {
        return "a host name is missing";
    }
    if (word[len] == '@') {
        return "a user is named in a file for --ssh-config: Host NAME, User USER";
    }
    if (word[0] == '-' || (word[len] != '\0' && word[len] != ':')) {
        return "a host name has letters, digits, '.', '_' and, not first, '-'";
    }
    (void)snprintf(host->name, sizeof host->name, "%.*s", (int)len, word);
    *rest = word + len;
    return NULL;
}

/* A name or "[address]"; *rest is set to what follows. */
static const char *read_bare(const char *word, struct host *host, const char **rest)
{
    return word[0] == '[' ? read_address(word, host, rest)
                          : read_name(word, host, rest);
}

/* "name", "name:slots", "[address]" or "[address]:slots"; slots 0 when not given. */
static const char *read_host(const char *word, struct host *host)
{
    const char *rest = NULL;
    const char *reason = read_bare(word, host, &rest);

    host->slots = 0;
    if (reason != NULL || rest[0] == '\0') {
        return reason;
    }
    return rest[0] == ':' ? read_slots(rest + 1, &host->slots)
                          : "behind ']' comes nothing or :slots";
}

/* Mostly the one that was named last: files of schedulers have a line for each slot. */
static struct host *find_host(struct host_list *list, const char *name)
{
    if (list->count > 0 && strcmp(list->hosts[list->last].name, name) == 0) {
        return &list->hosts[list->last];
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->hosts[i].name, name) == 0) {
            list->last = i;
            return &list->hosts[i];
        }
    }
    return NULL;
}

static const char *append_host(struct host_list *list, const struct host *host)
{
    if (list->count == HOSTS_LIMIT) {
        return "too many hosts";
    }
    if (!mem_grow(
                &list->hosts, &list->capacity, list->count + 1, sizeof *list->hosts)) {
        return "out of memory";
    }
    list->last = list->count++;
    list->hosts[list->last] = *host;
    return NULL;
}

/* Adds a host, or its slots to the host of that name; 0 slots are one, and implied. */
static const char *add_host(struct host_list *list, struct host *host)
{
    struct host *known = find_host(list, host->name);

    if (host->slots == 0) {
        host->slots = 1;
        host->implied = 1;
    }
    if (known == NULL) {
        return append_host(list, host);
    }
    known->slots += host->slots;
    known->implied += host->implied;
    return known->slots > HOST_SLOTS_LIMIT
            ? "with the earlier entries this host has too many slots"
            : NULL;
}

const char *host_list_add(struct host_list *list, const char *name, int slots)
{
    struct host host = { .slots = slots };
    const char *rest = NULL;
    const char *reason = read_bare(name, &host, &rest);

    if (reason == NULL && rest[0] != '\0') {
        reason = "a host name has no ':'";
    }
    if (reason == NULL && (slots < 0 || slots > HOST_SLOTS_LIMIT)) {
        reason = "slots are a number from 1 to 65536";
    }
    return reason != NULL ? reason : add_host(list, &host);
}

tutti_status host_list_imply(struct host_list *list, int slots)
{
    for (size_t i = 0; i < list->count; i++) {
        struct host *host = &list->hosts[i];
        int64_t all = (int64_t)host->implied * (slots - 1) + host->slots;

        if (all > HOST_SLOTS_LIMIT) {
            return error_set(TUTTI_ERR_INVALID,
                    "host %s: %lld slots are too many; the most is %d", host->name,
                    (long long)all, HOST_SLOTS_LIMIT);
        }
        host->slots = (int)all;
        host->implied = 0;
    }
    return TUTTI_OK;
}

void host_list_drop_first(struct host_list *list)
{
    list->count--;
    memmove(list->hosts, list->hosts + 1, list->count * sizeof *list->hosts);
    list->last = 0;
}

tutti_status host_list_copy(struct host_list *to, const struct host_list *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const char *reason = append_host(to, &from->hosts[i]);

        if (reason != NULL) {
            host_list_fini(to);
            return error_set(TUTTI_ERR_NO_MEMORY, "%zu hosts: %s", from->count, reason);
        }
    }
    return TUTTI_OK;
}

static const char *add_entry(struct host_list *list, const char *word)
{
    struct host host = { .slots = 0 };
    const char *reason = strpbrk(word, white_space) != NULL
            ? "between hosts are commas alone: a:2,b:2"
            : read_host(word, &host);

    return reason != NULL ? reason : add_host(list, &host);
}

tutti_status host_list_parse(struct host_list *list, const char *text)
{
    struct host_list hosts = { .hosts = NULL };
    char *copy = mem_strdup(text);
    char *next = copy;

    if (copy == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the hosts");
    }
    while (next != NULL) {
        const char *word = strsep(&next, ",");
        const char *reason = add_entry(&hosts, word);

        if (reason != NULL) {
            (void)error_set(
                    TUTTI_ERR_INVALID, "-H: '%.*s': %s", SHOWN_LIMIT, word, reason);
            goto err_free;
        }
    }
    mem_free(copy);
    *list = hosts;
    return TUTTI_OK;

err_free:
    mem_free(copy);
    host_list_fini(&hosts);
    return TUTTI_ERR_INVALID;
}

/* A word behind the host: slots=N or max_slots=N. */
static const char *read_setting(const char *word, int *slots, int *max_slots)
{
    const char *value = strchr(word, '=');
    size_t len = value == NULL ? 0 : (size_t)(value - word);
    bool is_slots = len == 5 && strncmp(word, "slots", len) == 0;
    bool is_max = len == 9 &&
            (strncmp(word, "max_slots", len) == 0 ||
                    strncmp(word, "max-slots", len) == 0);

    if (!is_slots && !is_max) {
        return "behind the host come slots=N and max_slots=N";
    }
    if (*(is_slots ? slots : max_slots) != 0) {
        return "slots are given twice";
    }
    return read_slots(value + 1, is_slots ? slots : max_slots);
}

/* One line, which is cut into its words. */
static const char *read_line(struct host_list *list, char *line)
{
    struct host host = { .slots = 0 };
    const char *reason = NULL;
    int max_slots = 0;
    char *next = line + strspn(line, white_space);

    if (*next == '\0') {
        return NULL;
    }
    reason = read_host(strsep(&next, white_space), &host);
    while (reason == NULL && next != NULL) {
        const char *word = strsep(&next, white_space);

        if (*word != '\0') {
            reason = read_setting(word, &host.slots, &max_slots);
        }
    }
    if (reason != NULL) {
        return reason;
    }
    if (max_slots != 0 && max_slots < host.slots) {
        return "max_slots is less than slots";
    }
    return add_host(list, &host);
}

static const char *behind_mark(const char *line)
{
    const size_t len = sizeof byte_order_mark - 1;

    return strncmp(line, byte_order_mark, len) == 0 ? line + len : line;
}

static tutti_status read_lines(struct host_list *list, FILE *file, const char *path)
{
    char line[LINE_LIMIT];
    char words[LINE_LIMIT];

    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        const char *reason = "the line is too long, or has a zero byte";

        if (strchr(line, '\n') != NULL || feof(file) != 0) {
            const char *text = number == 1 ? behind_mark(line) : line;

            line[strcspn(line, "\r\n")] = '\0';
            (void)snprintf(words, sizeof words, "%.*s", (int)strcspn(text, "#"), text);
            reason = read_line(list, words);
        }
        if (reason != NULL) {
            return error_set(TUTTI_ERR_INVALID, "%s:%d: '%.*s': %s", path, number,
                    SHOWN_LIMIT, line, reason);
        }
    }
    if (ferror(file) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "%s", path);
    }
    if (list->count == 0) {
        return error_set(TUTTI_ERR_INVALID, "%s names no host", path);
    }
    return TUTTI_OK;
}

tutti_status host_list_read_stream(struct host_list *list, FILE *file, const char *name)
{
    struct host_list hosts = { .hosts = NULL };
    tutti_status status = read_lines(&hosts, file, name);

    if (status != TUTTI_OK) {
        host_list_fini(&hosts);
        return status;
    }
    *list = hosts;
    return TUTTI_OK;
}

tutti_status host_list_read(struct host_list *list, const char *path)
{
    FILE *file = fopen(path, "re");
    tutti_status status;

    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "hostfile %s", path);
    }
    status = host_list_read_stream(list, file, path);
    (void)fclose(file);
    return status;
}

int host_list_slots(const struct host_list *list)
{
    int slots = 0;

    /* At most HOSTS_LIMIT * HOST_SLOTS_LIMIT = 2^30. */
    for (size_t i = 0; i < list->count; i++) {
        slots += list->hosts[i].slots;
    }
    return slots;
}

char *host_list_format(const struct host_list *list)
{
    size_t capacity = list->count * (HOST_NAME_LIMIT + 16) + 1;
    char *text = mem_alloc(capacity);
    size_t len = 0;

    if (text == NULL) {
        return NULL;
    }
    text[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        const struct host *host = &list->hosts[i];
        bool is_address = strchr(host->name, ':') != NULL;

        len += (size_t)snprintf(text + len, capacity - len, "%s%s%s%s:%d",
                i == 0 ? "" : ",", is_address ? "[" : "", host->name,
                is_address ? "]" : "", host->slots);
    }
    return text;
}
