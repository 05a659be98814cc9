/*
 * Drawing the map: as text by itself, as SVG by lstopo with a line per rank below.
 */
#include "launcher/bind/bind_show.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/bind/bind_map.h"
#include "launcher/bind/here.h"
#include "launcher/environment.h"
#include "launcher/program.h"
#include "launcher/signals.h"

enum {
    LINE_MAX_BYTES = 512
};

/* How many ranks this host would have. */
static int ranks_here(const struct options *options, const struct visible *visible)
{
    const struct host_list *hosts = &options->hosts;

    if (hosts->count > 0) {
        int slots = hosts->hosts[0].slots;

        return options->np > 0 && options->np < slots ? options->np : slots;
    }
    if (options->np > 0) {
        return options->np;
    }
    return visible->count > 0 ? (int)visible->count : 1;
}

static tutti_status find_lstopo(char *const *environment, char file[PATH_MAX])
{
    static const char *const names[] = { "lstopo-no-graphics", "lstopo" };
    const char *path = environment_get(environment, "PATH");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (program_find(names[i], path, file, PATH_MAX) == TUTTI_OK) {
            return TUTTI_OK;
        }
    }
    return error_set(TUTTI_ERR_INVALID,
            "--show-binding=svg: hwloc's lstopo, which draws it, is not in PATH; "
            "install "
            "hwloc (Debian: hwloc-nox), or take --show-binding without svg");
}

/* Becomes lstopo. */
static tutti_status draw_svg(const struct bind_plan *plan, const struct here *here,
        const char *form, char *const *environment)
{
    struct arguments command = { .items = NULL };
    char file[PATH_MAX];
    tutti_status status = find_lstopo(environment, file);

    if (status != TUTTI_OK) {
        return status;
    }
    arguments_add(&command, file);
    arguments_add(&command, "--force");
    arguments_add(&command, "--no-default-legend");
    for (int rank = 0; rank < plan->count; rank++) {
        char text[LINE_MAX_BYTES];

        map_describe(plan, &here->machine, rank, text, sizeof text);
        arguments_add(&command, "--append-legend");
        arguments_add_format(&command, "rank %d: %s", rank, text);
    }
    arguments_add(&command, "--of");
    arguments_add(&command, "svg");
    arguments_add(&command, strcmp(form, "svg") == 0 ? "-" : form);
    status = arguments_status(&command);
    if (status == TUTTI_OK) {
        signals_restore();
        (void)execve(file, command.items, environment);
        status = error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", file);
    }
    arguments_fini(&command);
    return status;
}

tutti_status bind_show(const struct options *options, char *const *environment)
{
    struct bind_plan plan = { .places = NULL };
    struct visible visible;
    struct here here;
    tutti_status status = here_open(&here, environment);

    if (status != TUTTI_OK) {
        return status;
    }
    status = visible_read(&visible, &here.machine.gpus, environment);
    if (status == TUTTI_OK) {
        status = bind_plan_init(
                &plan, &here.machine, ranks_here(options, &visible), environment);
    }
    if (status == TUTTI_OK && strcmp(options->show_binding, "text") != 0) {
        status = draw_svg(&plan, &here, options->show_binding, environment);
    } else if (status == TUTTI_OK) {
        map_draw(&plan, &here.machine, stdout);
    }
    bind_plan_fini(&plan);
    here_close(&here);
    return status;
}
