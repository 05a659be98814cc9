/*
 * The configuration file: libyaml makes a tree of it, and the keys are looked up where
 * flags are.
 */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/flags.h"
#include "launcher/options.h"

enum {
    ORIGIN_MAX = 512, /* bytes of "file:line: key" with its terminating zero */
    KEY_MAX = 96, /* of "group.key"                                      */
    LIST_MAX = 4096 /* of a list as one text                               */
};

struct file {
    struct options *options;
    const char *path;
    bool has_hosts; /* of the command line   */
    yaml_document_t *document; /* owner of all nodes */
};

/* One key of the file and what it is set to. */
struct entry {
    const char *key; /* as written                    */
    const yaml_node_t *value;
    char origin[ORIGIN_MAX]; /* "file:line: key", for errors  */
};

static const yaml_node_t *node_of(const struct file *file, int index)
{
    return yaml_document_get_node(file->document, index);
}

/* The text of a node that is one word, or NULL: a list, a group, or a zero byte in it. */
static const char *scalar_text(const yaml_node_t *node)
{
    const char *text = NULL;

    if (node->type == YAML_SCALAR_NODE) {
        text = (const char *)node->data.scalar.value;
        if (strlen(text) != node->data.scalar.length) {
            text = NULL;
        }
    }
    return text;
}

/* True for a key that is followed by nothing, ~ or null. */
static bool is_null(const yaml_node_t *node)
{
    const char *text = scalar_text(node);
    int index;

    return text != NULL && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
            (text[0] == '\0' || text_to_choice(text, "~|null", &index));
}

/*
 * Sets a flag. What its error says, which may name the flag as on the command
 * line, comes behind file, line and key.
 */
static tutti_status set_flag(const struct file *file, const struct flag *flag,
        const char *value, const char *origin)
{
    tutti_status status = arguments_status(&file->options->kept);

    if (status == TUTTI_OK) {
        status = options_set(file->options, flag, value, origin);
    }
    if (status != TUTTI_OK && strncmp(error_last(), origin, strlen(origin)) != 0) {
        char text[ERROR_TEXT_MAX];

        (void)snprintf(text, sizeof text, "%s", error_last());
        return error_set(status, "%s: %s", origin, text);
    }
    return status;
}

/* A word, kept as long as the options. */
static tutti_status read_text(
        const struct file *file, const struct entry *entry, const char **value)
{
    const char *text = scalar_text(entry->value);

    if (is_null(entry->value)) {
        return error_set(TUTTI_ERR_INVALID, "%s: a value is missing", entry->origin);
    }
    if (text == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: takes one value, not a list or a group", entry->origin);
    }
    *value = options_keep(file->options, text);
    return arguments_status(&file->options->kept);
}

static tutti_status read_bool(const struct entry *entry, bool *value)
{
    const char *text = scalar_text(entry->value);

    if (text == NULL || !text_to_bool(text, value)) {
        return error_set(TUTTI_ERR_INVALID, "%s%s%s: choose true or false",
                entry->origin, text == NULL ? "" : " ", text == NULL ? "" : text);
    }
    return TUTTI_OK;
}

/* Takes the index-th pair of a mapping apart. */
static tutti_status read_pair(const struct file *file, const yaml_node_t *mapping,
        size_t index, struct entry *entry)
{
    const yaml_node_pair_t *pairs = mapping->data.mapping.pairs.start;
    const yaml_node_t *key = node_of(file, pairs[index].key);
    size_t line = key->start_mark.line + 1;

    entry->key = scalar_text(key);
    entry->value = node_of(file, pairs[index].value);
    if (entry->key == NULL || entry->key[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID, "%s:%zu: a key must be the name of a flag",
                file->path, line);
    }
    (void)snprintf(entry->origin, sizeof entry->origin, "%.350s:%zu: %.100s",
            file->path, line, entry->key);
    for (size_t i = 0; i < index; i++) {
        const yaml_node_t *other = node_of(file, pairs[i].key);
        const char *text = scalar_text(other);

        if (text != NULL && strcmp(text, entry->key) == 0) {
            return error_set(TUTTI_ERR_INVALID, "%s: is already in line %zu",
                    entry->origin, other->start_mark.line + 1);
        }
    }
    return TUTTI_OK;
}

static size_t pair_count(const yaml_node_t *mapping)
{
    return (size_t)(mapping->data.mapping.pairs.top -
            mapping->data.mapping.pairs.start);
}

/* Sets a flag without an argument when the value is true. */
static tutti_status apply_switch(
        const struct file *file, const struct flag *flag, const struct entry *entry)
{
    bool on = true;
    tutti_status status = read_bool(entry, &on);

    if (status == TUTTI_OK && !on) {
        flag = flag->off == NULL ? NULL : flag_find(flag->off);
    }
    return status != TUTTI_OK || flag == NULL
            ? status
            : set_flag(file, flag, NULL, entry->origin);
}

/* Sets a flag once for each word of a list; hosts to all of them, with commas between. */
static tutti_status apply_list(
        const struct file *file, const struct flag *flag, const struct entry *entry)
{
    const yaml_node_item_t *const first = entry->value->data.sequence.items.start;
    const yaml_node_item_t *const end = entry->value->data.sequence.items.top;
    const bool is_joined = flag->kind == FLAG_HOSTS;
    char list[LIST_MAX] = "";
    tutti_status status = TUTTI_OK;

    for (const yaml_node_item_t *item = first; item < end && status == TUTTI_OK;
            item++) {
        struct entry one = *entry;
        const char *text = NULL;

        one.value = node_of(file, *item);
        status = read_text(file, &one, &text);
        if (status == TUTTI_OK && !is_joined) {
            status = set_flag(file, flag, text, entry->origin);
        } else if (status == TUTTI_OK &&
                strlen(list) + strlen(text) + 1 >= sizeof list) {
            status = error_set(TUTTI_ERR_INVALID,
                    "%s: the list is too long; put it in a hostfile", entry->origin);
        } else if (status == TUTTI_OK) {
            text_append(list, sizeof list, "%s%s", item == first ? "" : ",", text);
        }
    }
    return status != TUTTI_OK || !is_joined
            ? status
            : set_flag(file, flag, options_keep(file->options, list), entry->origin);
}

static tutti_status apply_flag(
        const struct file *file, const struct flag *flag, const struct entry *entry)
{
    const bool is_list = entry->value->type == YAML_SEQUENCE_NODE;
    const bool takes_list = flag->kind == FLAG_HOSTS || flag->kind == FLAG_EXPORT ||
            flag->kind == FLAG_WORDS;
    const char *text = scalar_text(entry->value);
    tutti_status status;
    bool on;

    if (flag->not_in_file) {
        return error_set(
                TUTTI_ERR_INVALID, "%s: belongs on the command line", entry->origin);
    }
    if (file->has_hosts && flag->is_hosts) {
        return TUTTI_OK;
    }
    if (flag->argument == NULL ||
            (flag->absent != NULL && flag->kind != FLAG_PARAMETER && text != NULL &&
                    text_to_bool(text, &on))) {
        return apply_switch(file, flag, entry);
    }
    if (is_list && takes_list) {
        return apply_list(file, flag, entry);
    }
    if (takes_list && entry->value->type == YAML_MAPPING_NODE) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: takes one value, or a list such as [a:4, b:4], not a group",
                entry->origin);
    }
    status = read_text(file, entry, &text);
    return status != TUTTI_OK ? status : set_flag(file, flag, text, entry->origin);
}

static tutti_status refuse_key(const struct entry *entry)
{
    const struct flag *nearest = flag_nearest(entry->key);
    char name[FLAG_NAME_LIMIT];

    if (nearest != NULL) {
        return error_set(TUTTI_ERR_INVALID, "%s: is no key; did you mean %s?",
                entry->origin, flag_spell(nearest, name));
    }
    return error_set(TUTTI_ERR_INVALID,
            "%s: is no key; keys are the names of flags: see tuttirun --help all",
            entry->origin);
}

/* A key that is the name, or the letter, of a flag. */
static tutti_status apply_key(const struct file *file, const struct entry *entry)
{
    const struct flag *flag = entry->key[1] == '\0' ? flag_of_letter(entry->key[0])
                                                    : flag_find(entry->key);

    return flag == NULL ? refuse_key(entry) : apply_flag(file, flag, entry);
}

/* env: NAME: value, and NAME: alone to hand ours on. */
static tutti_status apply_env(const struct file *file, const struct entry *entry)
{
    tutti_status status = TUTTI_OK;

    if (entry->value->type != YAML_MAPPING_NODE) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: holds lines of its own, as in NAME: value", entry->origin);
    }
    for (size_t i = 0; i < pair_count(entry->value) && status == TUTTI_OK; i++) {
        struct entry variable;
        const char *text = NULL;
        char word[LIST_MAX];
        int len;

        status = read_pair(file, entry->value, i, &variable);
        if (status == TUTTI_OK && !is_null(variable.value)) {
            status = read_text(file, &variable, &text);
        }
        if (status != TUTTI_OK) {
            return status;
        }
        len = snprintf(word, sizeof word, "%s%s%s", variable.key,
                text == NULL ? "" : "=", text == NULL ? "" : text);
        if (len >= (int)sizeof word) {
            return error_set(
                    TUTTI_ERR_INVALID, "%s: the value is too long", variable.origin);
        }
        status = set_flag(file, flag_find("export"), options_keep(file->options, word),
                variable.origin);
    }
    return status;
}

/* True when the group of a horovodrun file says "enabled: false". */
static bool is_switched_off(const struct file *file, const yaml_node_t *group)
{
    for (size_t i = 0; i < pair_count(group); i++) {
        const yaml_node_pair_t *pair = &group->data.mapping.pairs.start[i];
        const char *key = scalar_text(node_of(file, pair->key));
        const char *value = scalar_text(node_of(file, pair->value));
        bool on = true;

        if (key != NULL && strcmp(key, "enabled") == 0) {
            /* What is no bool is refused when the key is applied. */
            return value != NULL && text_to_bool(value, &on) && !on;
        }
    }
    return false;
}

static tutti_status apply_group(const struct file *file, const struct entry *group)
{
    tutti_status status = TUTTI_OK;
    bool off;

    if (group->value->type != YAML_MAPPING_NODE) {
        return error_set(TUTTI_ERR_INVALID, "%s: holds keys of its own", group->origin);
    }
    off = is_switched_off(file, group->value);
    for (size_t i = 0; i < pair_count(group->value) && status == TUTTI_OK; i++) {
        struct entry entry;
        char key[KEY_MAX];
        const struct flag *flag;

        status = read_pair(file, group->value, i, &entry);
        if (status != TUTTI_OK) {
            return status;
        }
        (void)snprintf(key, sizeof key, "%s.%.60s", group->key, entry.key);
        flag = flag_of_key(key);
        /* What is switched off has settings that matter to nobody. */
        if (flag == NULL) {
            status = apply_key(file, &entry);
        } else if (flag->kind == FLAG_SAME) {
            status = apply_flag(file, flag_find_ours(flag->name), &entry);
        } else if (!off || strcmp(entry.key, "enabled") == 0) {
            status = apply_flag(file, flag, &entry);
        }
    }
    return status;
}

/* controller: mpi, gloo or jsrun, which are flags on horovodrun's command line. */
static tutti_status apply_controller(const struct file *file, const struct entry *entry)
{
    const char *text = NULL;
    tutti_status status = read_text(file, entry, &text);
    int index;

    if (status != TUTTI_OK) {
        return status;
    }
    if (!text_to_choice(text, "mpi|gloo|jsrun", &index)) {
        return error_set(TUTTI_ERR_INVALID, "%s %s: choose one of mpi|gloo|jsrun",
                entry->origin, text);
    }
    return index == 0 ? TUTTI_OK : set_flag(file, flag_find(text), NULL, entry->origin);
}

/* The groups of horovodrun's files. */
static bool is_group(const char *key)
{
    int index;

    return text_to_choice(key,
            "params|autotune|timeline|stall_check|library_options|logging", &index);
}

static tutti_status apply_root(const struct file *file)
{
    const yaml_node_t *root = yaml_document_get_root_node(file->document);
    tutti_status status = TUTTI_OK;

    if (root == NULL || is_null(root)) {
        return TUTTI_OK;
    }
    if (root->type != YAML_MAPPING_NODE) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: a configuration file has lines like \"np: 4\"", file->path);
    }
    for (size_t i = 0; i < pair_count(root) && status == TUTTI_OK; i++) {
        struct entry entry;

        status = read_pair(file, root, i, &entry);
        if (status != TUTTI_OK) {
            return status;
        }
        if (strcmp(entry.key, "env") == 0) {
            status = apply_env(file, &entry);
        } else if (strcmp(entry.key, "controller") == 0) {
            status = apply_controller(file, &entry);
        } else if (is_group(entry.key)) {
            status = apply_group(file, &entry);
        } else {
            status = apply_key(file, &entry);
        }
    }
    return status;
}

static tutti_status refuse_yaml(const yaml_parser_t *parser, const char *path)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory in %s", path);
    }
    return error_set(TUTTI_ERR_INVALID, "%s:%zu: %s%s%s", path,
            parser->problem_mark.line + 1,
            parser->context == NULL ? "" : parser->context,
            parser->context == NULL ? "" : ": ",
            parser->problem == NULL ? "no YAML" : parser->problem);
}

/* Nothing may follow the first document. */
static tutti_status check_end(yaml_parser_t *parser, const char *path)
{
    yaml_document_t next;
    tutti_status status = TUTTI_OK;

    if (yaml_parser_load(parser, &next) == 0) {
        return refuse_yaml(parser, path);
    }
    if (yaml_document_get_root_node(&next) != NULL) {
        status = error_set(TUTTI_ERR_INVALID, "%s:%zu: a second document begins here",
                path, next.start_mark.line + 1);
    }
    yaml_document_delete(&next);
    return status;
}

static tutti_status apply_stream(struct file *file, FILE *stream)
{
    yaml_document_t document;
    yaml_parser_t parser;
    tutti_status status;

    if (yaml_parser_initialize(&parser) == 0) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory in %s", file->path);
    }
    yaml_parser_set_input_file(&parser, stream);
    if (yaml_parser_load(&parser, &document) == 0) {
        status = refuse_yaml(&parser, file->path);
    } else {
        file->document = &document;
        status = check_end(&parser, file->path);
        if (status == TUTTI_OK) {
            status = apply_root(file);
        }
        file->document = NULL;
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return status;
}

tutti_status config_file_apply(
        struct options *options, const char *path, bool has_hosts)
{
    struct file file = { .options = options, .path = path, .has_hosts = has_hosts };
    FILE *stream = fopen(path, "re");
    tutti_status status;

    if (stream == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot read %s", path);
    }
    status = apply_stream(&file, stream);
    (void)fclose(stream);
    return status;
}
