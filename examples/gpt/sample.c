#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../digits/random.h"

/** Draws a token by its logit. */
static int draw(const float *logits, int count, uint64_t *state)
{
    double largest = -INFINITY;
    double sum = 0.0;
    double left;

    for (int i = 0; i < count; i++) {
        largest = logits[i] > largest ? logits[i] : largest;
    }
    for (int i = 0; i < count; i++) {
        sum += exp(logits[i] - largest);
    }
    left = sum * 0.5 * (random_signed(state) + 1.0);
    for (int i = 0; i < count - 1; i++) {
        left -= exp(logits[i] - largest);
        if (left < 0.0) {
            return i;
        }
    }
    return count - 1;
}

bool sample_write(struct model *model, const struct text *text, int bytes,
        uint64_t seed, FILE *out)
{
    int context = model->shape.context;
    int columns = model->shape.vocabulary;
    int newline = text_token(text, '\n');
    int *tokens = calloc((size_t)context, sizeof *tokens);
    int position = 0;

    if (tokens == NULL) {
        return false;
    }
    tokens[0] = newline >= 0 ? newline : 0;
    for (int b = 0; b < bytes; b++) {
        int token;

        /* what lies behind the position does not matter to its logits */
        model_forward(model, tokens, 1);
        token = draw(
                model->logits + (size_t)position * (size_t)columns, columns, &seed);
        (void)fputc(text->bytes[token], out);
        if (position + 1 < context) {
            position++;
        } else {
            memmove(tokens, tokens + 1, (size_t)(context - 1) * sizeof *tokens);
        }
        tokens[position] = token;
    }
    (void)fputc('\n', out);
    free(tokens);
    return true;
}
