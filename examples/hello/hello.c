/*
 * The smallest program: every rank gives its number, every rank gets the sum.
 *
 *   tuttirun -np 4 hello
 */
#include <stdio.h>

#include <tutti/tutti.h>

int main(void)
{
    tutti *t;
    float value;
    int failed = 0;

    if (tutti_init(&t, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "hello: %s\n", tutti_last_error());
        return 1;
    }
    value = (float)tutti_rank(t);
    if (tutti_allreduce(t, "value", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                NULL) == TUTTI_OK) {
        printf("hello from rank %d of %d: the ranks add up to %g\n", tutti_rank(t),
                tutti_size(t), (double)value);
    } else {
        (void)fprintf(stderr, "hello: %s\n", tutti_last_error());
        failed = 1;
    }
    return tutti_finalize(t) == TUTTI_OK ? failed : 1;
}
