/*
 * make_topology NAME: writes hwloc's XML of one of the machines, for HWLOC_XMLFILE;
 * without a name, lists them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "test/unit/launcher/bind/machines.h"

int main(int argc, char **argv)
{
    const struct machine_model *model;
    size_t count;

    if (argc < 2) {
        const struct machine_model *all = machine_all(&count);

        for (size_t i = 0; i < count; i++) {
            (void)printf("%s\n", all[i].name);
        }
        return EXIT_SUCCESS;
    }
    model = machine_find(argv[1]);
    if (model == NULL) {
        (void)fprintf(stderr, "make_topology: no machine is called %s\n", argv[1]);
        return EXIT_FAILURE;
    }
    machine_write(model, stdout);
    return EXIT_SUCCESS;
}
