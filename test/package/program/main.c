/*
 * A user's program: sums one number over all ranks.
 */
#include <stdio.h>

#include <tutti/tutti.h>

int main(void)
{
    tutti *t = NULL;
    float value = 3;

    if (tutti_init(&t, NULL) != TUTTI_OK ||
            tutti_allreduce(t, "value", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                    NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    (void)printf("tutti %s: %g over %d ranks\n", tutti_version(), (double)value,
            tutti_size(t));
    return value == 3.0F * (float)tutti_size(t) && tutti_finalize(t) == TUTTI_OK ? 0
                                                                                 : 1;
}
