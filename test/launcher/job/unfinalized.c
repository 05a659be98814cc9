/*
 * A rank that leaves with status 0 without tutti_finalize().
 */
#include <stddef.h>

#include <tutti/tutti.h>

int main(void)
{
    tutti *t;

    return tutti_init(&t, NULL) == TUTTI_OK ? 0 : 2;
}
