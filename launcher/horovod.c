#include "launcher/horovod.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/program.h"

#define FOLDER "share/tutti/horovod"
#define PYTHONPATH "PYTHONPATH"

bool horovod_is_name(const char *program)
{
    const char *slash = program == NULL ? NULL : strrchr(program, '/');

    return program != NULL &&
            strcmp(slash == NULL ? program : slash + 1, "horovodrun") == 0;
}

/* Beside the folder of tuttirun, as installed and as built. */
static tutti_status find_folder(char *folder, size_t capacity)
{
    char self[PATH_MAX];
    tutti_status status = program_self(self, sizeof self);
    char *end;
    int length;

    for (int i = 0; status == TUTTI_OK && i < 2; i++) {
        end = strrchr(self, '/');
        if (end != NULL) {
            *end = '\0';
        }
    }
    if (status != TUTTI_OK) {
        return status;
    }
    length = snprintf(folder, capacity, "%s/" FOLDER, self);
    if (length < 0 || (size_t)length >= capacity || access(folder, X_OK) != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "--horovod: there is no folder %s; install tutti whole", folder);
    }
    return TUTTI_OK;
}

tutti_status horovod_serve(struct options *options, char *const *environment)
{
    static char *const nothing[] = { NULL };
    char *const *given =
            options->export.items == NULL ? nothing : options->export.items;
    const char *others = environment_get(given, PYTHONPATH);
    char folder[PATH_MAX];
    struct arguments value = { .items = NULL };
    tutti_status status = find_folder(folder, sizeof folder);

    if (status != TUTTI_OK) {
        return status;
    }
    if (others == NULL) {
        others = environment_get(environment, PYTHONPATH);
    }
    arguments_add_format(&value, "%s%s%s", folder,
            others == NULL || others[0] == '\0' ? "" : ":",
            others == NULL ? "" : others);
    status = arguments_status(&value);
    if (status == TUTTI_OK) {
        arguments_set(&options->export, PYTHONPATH, value.items[0]);
        arguments_set(&options->export, "HOROVOD_CONTROLLER", "mpi");
        status = arguments_status(&options->export);
    }
    arguments_fini(&value);
    return status;
}
