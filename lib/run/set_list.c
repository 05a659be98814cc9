/*
 * Parses the parameter process_sets.
 */
#include "run/set_list.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* A place in the text. */
struct reader {
    const char *text;
    const char *at;
    int size; /* ranks of the world */
};

static tutti_status malformed(const struct reader *in, const char *what)
{
    return error_set(TUTTI_ERR_CONFIG,
            "process_sets: %s at byte %zu of \"%s\"; write lists like \"0-3;4,5\"",
            what, (size_t)(in->at - in->text), in->text);
}

static void skip_blanks(struct reader *in)
{
    in->at += strspn(in->at, " \t");
}

static bool take_char(struct reader *in, char wanted)
{
    skip_blanks(in);
    if (*in->at != wanted) {
        return false;
    }
    in->at++;
    skip_blanks(in);
    return true;
}

static tutti_status read_rank(struct reader *in, int64_t *rank)
{
    int64_t value = 0;

    if (*in->at < '0' || *in->at > '9') {
        return malformed(in, "a rank is missing");
    }
    while (*in->at >= '0' && *in->at <= '9' && value < in->size) {
        value = 10 * value + (*in->at++ - '0');
    }
    if (value >= in->size) {
        return error_set(TUTTI_ERR_CONFIG,
                "process_sets: a rank of \"%s\", before byte %zu, is outside the world "
                "of "
                "%d ranks",
                in->text, (size_t)(in->at - in->text), in->size);
    }
    *rank = value;
    return TUTTI_OK;
}

static tutti_status add_rank(
        struct set_list *list, const struct reader *in, int64_t rank)
{
    const size_t first = list->count > 0 ? list->ends[list->count - 1] : 0;

    for (size_t i = first; i < list->rank_count; i++) {
        if (list->ranks[i] == rank) {
            return malformed(in, "a rank is listed twice");
        }
    }
    if (!mem_grow(&list->ranks, &list->rank_capacity, list->rank_count + 1,
                sizeof *list->ranks)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for process sets");
    }
    list->ranks[list->rank_count++] = rank;
    return TUTTI_OK;
}

/* A rank or a range. */
static tutti_status read_item(struct set_list *list, struct reader *in)
{
    int64_t first = 0;
    int64_t last;
    tutti_status status = read_rank(in, &first);

    if (status != TUTTI_OK) {
        return status;
    }
    last = first;
    if (take_char(in, '-')) {
        status = read_rank(in, &last);
    }
    if (status == TUTTI_OK && last < first) {
        return malformed(in, "a range runs backwards");
    }
    for (int64_t rank = first; rank <= last && status == TUTTI_OK; rank++) {
        status = add_rank(list, in, rank);
    }
    return status;
}

static tutti_status read_set(struct set_list *list, struct reader *in)
{
    tutti_status status;

    do {
        status = read_item(list, in);
    } while (status == TUTTI_OK && take_char(in, ','));
    if (status != TUTTI_OK) {
        return status;
    }
    if (!mem_grow(&list->ends, &list->capacity, list->count + 1, sizeof *list->ends)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for process sets");
    }
    list->ends[list->count++] = list->rank_count;
    return TUTTI_OK;
}

tutti_status set_list_parse(struct set_list *list, const char *text, int size)
{
    struct reader in = { .text = text, .at = text, .size = size };
    tutti_status status = TUTTI_OK;

    *list = (struct set_list){ 0 };
    skip_blanks(&in);
    if (*in.at == '\0') {
        return TUTTI_OK;
    }
    do {
        status = read_set(list, &in);
    } while (status == TUTTI_OK && take_char(&in, ';'));
    if (status == TUTTI_OK && *in.at != '\0') {
        status = malformed(&in, "something unexpected");
    }
    if (status != TUTTI_OK) {
        set_list_fini(list);
    }
    return status;
}

void set_list_fini(struct set_list *list)
{
    mem_free(list->ranks);
    mem_free(list->ends);
    *list = (struct set_list){ 0 };
}
