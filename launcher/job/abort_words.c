/*
 * MPI_Abort() in words:
 *
 *   Open MPI   MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
 *              with errorcode 9.
 *   MPICH      Abort(9) on node 3 (rank 3 in comm 0): application called
 *              MPI_Abort(MPI_COMM_WORLD, 9) - process 3
 */
#include "launcher/job/abort_words.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

enum {
    NUMBER_MAX = 12 /* bytes of a number with its zero */
};

/* Where the text goes on behind a phrase; NULL when the phrase is not in it. */
static const char *behind(const char *text, const char *end, const char *phrase)
{
    const char *at = memmem(text, (size_t)(end - text), phrase, strlen(phrase));

    return at == NULL ? NULL : at + strlen(phrase);
}

/* Reads the number at a place; false when there is none. */
static bool read_number(const char *at, const char *end, int *number)
{
    char digits[NUMBER_MAX];
    size_t len = 0;
    int64_t value;

    while (at + len < end && len + 1 < sizeof digits &&
            ((at[len] >= '0' && at[len] <= '9') || (len == 0 && at[len] == '-'))) {
        digits[len] = at[len];
        len++;
    }
    digits[len] = '\0';
    if (!text_to_int64(digits, &value) || value < INT32_MIN || value > INT32_MAX) {
        return false;
    }
    *number = (int)value;
    return true;
}

/* As read_number(), of what follows a phrase. */
static bool read_behind(
        const char *text, const char *end, const char *phrase, int *number)
{
    const char *at = behind(text, end, phrase);

    return at != NULL && read_number(at, end, number);
}

static void take_openmpi(struct abort_words *words, const char *text, const char *end)
{
    if (read_behind(text, end, "MPI_ABORT was invoked on rank ", &words->rank)) {
        words->has_rank = true;
    }
    if (words->has_rank && read_behind(text, end, "with errorcode ", &words->code)) {
        words->has_code = true;
    }
}

static void take_mpich(struct abort_words *words, const char *text, const char *end)
{
    const char *call = behind(text, end, "application called MPI_Abort(");
    struct abort_words found;

    if (call != NULL && read_behind(call, end, ", ", &found.code) &&
            read_behind(call, end, ") - process ", &found.rank)) {
        *words = (struct abort_words){
            .rank = found.rank, .code = found.code, .has_rank = true, .has_code = true
        };
    }
}

void abort_words_take(struct abort_words *words, const char *text, size_t len)
{
    if (!abort_words_are_complete(words)) {
        take_openmpi(words, text, text + len);
        take_mpich(words, text, text + len);
    }
}

bool abort_words_are_complete(const struct abort_words *words)
{
    return words->has_rank && words->has_code;
}
