/*
 * A user's program: sums one number over all ranks, and has a reducer of one parameter.
 */
#include <stdio.h>

#include <tutti/trainer.h>

int main(void)
{
    tutti *t = NULL;
    float value = 3;
    const tutti_param param = { .name = "w", .count = 1, .dtype = TUTTI_FLOAT32 };
    tutti_reducer *reducer = NULL;

    if (tutti_init(&t, NULL) != TUTTI_OK ||
            tutti_allreduce(t, "value", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                    NULL) != TUTTI_OK ||
            tutti_reducer_create(t, &param, 1, NULL, &reducer) != TUTTI_OK ||
            tutti_reducer_destroy(reducer) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    (void)printf("tutti %s: %g over %d ranks\n", tutti_version(), (double)value,
            tutti_size(t));
    return value == 3.0F * (float)tutti_size(t) && tutti_finalize(t) == TUTTI_OK ? 0
                                                                                 : 1;
}
