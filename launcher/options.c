#include "launcher/options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/flags.h"

enum {
    WORD_MAX = 64, /* bytes of a word of flag.to with its terminating zero */
    VALUE_MAX = 32 /* bytes of a converted value                           */
};

char *options_variable(const char *name, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "TUTTI_%s", name);
    for (char *p = text; *p != '\0'; p++) {
        *p = text_upper(*p);
    }
    return text;
}

const char *options_keep(struct options *options, const char *text)
{
    arguments_add(&options->kept, text);
    return options->kept.failed ? "" : options->kept.items[options->kept.count - 1];
}

static tutti_status set_choice(
        const char *value, const char *origin, const char *choices, int *index)
{
    if (!text_to_choice(value, choices, index)) {
        return error_set(
                TUTTI_ERR_INVALID, "%s %s: choose one of %s", origin, value, choices);
    }
    return TUTTI_OK;
}

static tutti_status set_on_off(
        const struct flag *flag, const char *value, const char *origin, bool *on)
{
    int index = 0;
    tutti_status status = set_choice(value, origin, flag->choices, &index);

    *on = index == 0;
    return status;
}

/* An INT, or SECONDS as milliseconds. */
static tutti_status set_number(
        const struct flag *flag, const char *value, const char *origin, int *number)
{
    const bool is_int = flag->kind == FLAG_INT;
    int64_t whole = 0;
    double real = 0;
    bool is_number = is_int ? text_to_int64(value, &whole) : text_to_real(value, &real);

    real = is_int ? (double)whole : real;
    if (!is_number || real < flag->min || real > flag->max) {
        return error_set(TUTTI_ERR_INVALID, "%s %s: %s %g to %.0f", origin, value,
                flag->expects, flag->min, flag->max);
    }
    *number = (int)(is_int ? real : real * 1000);
    return TUTTI_OK;
}

static tutti_status set_text(const struct flag *flag, const char *value,
        const char *origin, const char **text)
{
    value = value == NULL ? flag->absent : value;
    if (flag->check != NULL && !flag->check(value)) {
        return error_set(TUTTI_ERR_INVALID, "%s %s: %s", origin, value, flag->expects);
    }
    if (flag->expects != NULL && value[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID, "%s: %s", origin, flag->expects);
    }
    *text = value;
    return TUTTI_OK;
}

static tutti_status set_hosts(struct options *options, const struct flag *flag,
        const char *value, const char *origin)
{
    if (options->hosts.count > 0) {
        return error_set(TUTTI_ERR_INVALID,
                "%s %s: hosts are given already; use one of -H and --hostfile, once",
                origin, value);
    }
    return flag->kind == FLAG_HOSTS ? host_list_parse(&options->hosts, value)
                                    : host_list_read(&options->hosts, value);
}

static tutti_status set_export(
        struct options *options, const char *value, const char *origin)
{
    /* The flag has an argument. NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
    size_t len = strcspn(value, "=");

    if (len == 0 || isdigit((unsigned char)value[0]) != 0 ||
            strspn(value,
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                    "_") != len) {
        return error_set(TUTTI_ERR_INVALID,
                "%s %s: write NAME or NAME=VALUE, a name of letters, digits and '_'",
                origin, value);
    }
    arguments_put(&options->export, value);
    return TUTTI_OK;
}

static tutti_status set_parameter(struct options *options, const struct flag *flag,
        const char *value, const char *origin)
{
    char variable[FLAG_NAME_LIMIT + 6];
    tutti_status status = config_set(&options->config, flag->name, value, origin);

    if (status == TUTTI_OK) {
        arguments_set(&options->export,
                options_variable(flag->name, variable, sizeof variable), value);
    }
    return status;
}

/* Sets a flag of ours or a parameter. */
static tutti_status set_ours(struct options *options, const struct flag *flag,
        const char *value, const char *origin)
{
    void *field = (char *)options + flag->offset;

    switch (flag->kind) {
    case FLAG_SWITCH:
        *(bool *)field = true;
        return TUTTI_OK;
    case FLAG_ON_OFF:
        return set_on_off(flag, value, origin, field);
    case FLAG_CHOICE:
        return set_choice(value, origin, flag->choices, field);
    case FLAG_INT:
    case FLAG_SECONDS:
        return set_number(flag, value, origin, field);
    case FLAG_SIZE:
        return text_to_size(value, field) ? TUTTI_OK
                                          : error_set(TUTTI_ERR_INVALID, "%s %s: %s",
                                                    origin, value, flag->expects);
    case FLAG_TEXT:
        return set_text(flag, value, origin, field);
    case FLAG_WORDS:
        return arguments_split(field, value, origin);
    case FLAG_HOSTS:
    case FLAG_HOSTFILE:
        return set_hosts(options, flag, value, origin);
    case FLAG_EXPORT:
        return set_export(options, value, origin);
    case FLAG_TIMESTAMPS:
        if (options->timestamp_form == JOB_TIMESTAMPS_OFF) {
            options->timestamp_form = JOB_TIMESTAMPS_ISO;
        }
        return TUTTI_OK;
    case FLAG_PARAMETER:
        return set_parameter(
                options, flag, value == NULL ? flag->absent : value, origin);
    case FLAG_GROUP:
    case FLAG_SAME:
    case FLAG_IS:
    case FLAG_NOTHING:
    case FLAG_IGNORED:
    case FLAG_REFUSED:
        break;
    }
    return TUTTI_OK;
}

/* The next word of *text, cut if it is longer than any of the table; "" at the end. */
static const char *next_word(const char **text, char *word)
{
    size_t len = strcspn(*text, " ");

    (void)snprintf(word, WORD_MAX, "%.*s", (int)len, *text);
    *text += len;
    *text += strspn(*text, " ");
    return word;
}

/* Sets the flags of ours that one of horovodrun's stands for, one after the other. */
static tutti_status set_meant(struct options *options, const struct flag *flag,
        const char *value, const char *origin)
{
    const char *rest = flag->to;
    char text[VALUE_MAX];
    tutti_status status = TUTTI_OK;

    if (flag->convert != NULL) {
        if (!flag->convert(value, text, sizeof text)) {
            char name[FLAG_NAME_LIMIT];

            return error_set(TUTTI_ERR_INVALID,
                    "%s %s: the value of horovodrun's --%s is malformed", origin, value,
                    flag_spell(flag, name));
        }
        value = options_keep(options, text);
    }
    while (status == TUTTI_OK && *rest != '\0') {
        char name[WORD_MAX];
        char word[WORD_MAX];
        const char *ours = NULL;

        (void)next_word(&rest, name);
        if (*rest != '\0' && rest[0] != '-') {
            (void)next_word(&rest, word);
            ours = strcmp(word, "%") == 0 ? value : options_keep(options, word);
        }
        status = arguments_status(&options->kept);
        if (status == TUTTI_OK) {
            status = set_ours(options, flag_find_ours(name + 2), ours, origin);
        }
    }
    return status;
}

tutti_status options_set(struct options *options, const struct flag *flag,
        const char *value, const char *origin)
{
    if (flag->kind == FLAG_IS) {
        return set_meant(options, flag, value, origin);
    }
    if (flag->kind == FLAG_REFUSED) {
        return error_set(TUTTI_ERR_INVALID, "%s: %s", origin, flag->help);
    }
    if (flag->kind == FLAG_IGNORED) {
        arguments_add_format(
                &options->notes, "%s does nothing: %s", origin, flag->help);
    }
    return set_ours(options, flag, value, origin);
}

/* Flags that need others. */
static tutti_status check_together(const struct options *options)
{
    if (options->min_np == 0 &&
            (options->max_np > 0 || options->reset_limit > 0 ||
                    options->blacklist_cooldown != NULL)) {
        return error_set(TUTTI_ERR_INVALID,
                "--max-np, --reset-limit and --blacklist-cooldown are of elastic jobs; "
                "add --min-np N");
    }
    if (!options->supervise && (options->top || options->dashboard != NULL)) {
        return error_set(TUTTI_ERR_INVALID,
                "--%s shows what supervisors tell; leave --supervise off out",
                options->top ? "top" : "dashboard");
    }
    return TUTTI_OK;
}

tutti_status options_settle_ranks(
        struct options *options, const struct host_list *hosts)
{
    int slots = host_list_slots(hosts);
    const tutti_status status = check_together(options);

    if (status != TUTTI_OK) {
        return status;
    }
    if (options->np == 0 && slots == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "how many ranks? Give -np N, or hosts with -H or --hostfile");
    }
    if (options->np == 0 && slots > RANKS_LIMIT) {
        return error_set(TUTTI_ERR_INVALID,
                "the hosts have %d slots; the largest number of ranks is %d", slots,
                RANKS_LIMIT);
    }
    if (options->np == 0) {
        if (options->min_np > 0 && options->max_np == 0) {
            options->max_np = RANKS_LIMIT;
        }
        options->np = slots;
    }
    /* More hosts may come. */
    if (options->min_np > 0 && options->host_discovery_script != NULL) {
        return TUTTI_OK;
    }
    if (slots != 0 && options->np > slots) {
        return error_set(TUTTI_ERR_INVALID,
                "-np %d, but the hosts have %d slot%s; give them more (host:slots) or "
                "ask for fewer ranks",
                options->np, slots, slots == 1 ? "" : "s");
    }
    return TUTTI_OK;
}

tutti_status options_init(struct options *options)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);
    tutti_status status;

    *options = (struct options){ .np = 0 };
    status = config_init(&options->config);
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        if (flag_is_ours(&rows[i]) && rows[i].initial != NULL) {
            status = set_ours(options, &rows[i], rows[i].initial, rows[i].name);
        }
    }
    return status;
}

tutti_status options_status(const struct options *options)
{
    const struct arguments *const lists[] = { &options->mpi_args, &options->ssh_args,
        &options->export, &options->kept, &options->notes };
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0] && status == TUTTI_OK; i++) {
        status = arguments_status(lists[i]);
    }
    return status;
}

void options_fini(struct options *options)
{
    host_list_fini(&options->hosts);
    arguments_fini(&options->mpi_args);
    arguments_fini(&options->ssh_args);
    arguments_fini(&options->export);
    arguments_fini(&options->notes);
    arguments_fini(&options->kept);
    config_fini(&options->config);
}
