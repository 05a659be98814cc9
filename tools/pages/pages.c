/*
 * tutti-pages PAGE: prints a page made from the tables of flags, parameters and metrics. Run by the
 * build and by script/gendocs; not installed.
 */
#include "tools/pages/pages.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } pages[] = {
        { .name = "manual", .print = pages_manual },
        { .name = "completion", .print = pages_completion },
        { .name = "reference", .print = pages_reference },
        { .name = "horovodrun", .print = pages_horovodrun },
        { .name = "configuration", .print = pages_configuration },
        { .name = "metrics", .print = pages_metrics },
    };

    for (size_t i = 0; argc == 2 && i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(argv[1], pages[i].name) == 0) {
            pages[i].print();
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    (void)fprintf(stderr,
            "usage: tutti-pages "
            "manual|completion|reference|horovodrun|configuration|metrics\n");
    return 2;
}
