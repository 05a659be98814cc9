/*
 * A rank takes its place on machines that are pretended: what its variables tell the program.
 */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "launcher/arguments.h"
#include "launcher/bind/bind.h"
#include "test/unit/launcher/bind/stage.h"
#include "test/unit/launcher/cases.h"

enum {
    PATH_TEXT_MAX = 64
};

static cpu_set_t cpus_at_start;
static char recorded[PATH_TEXT_MAX]; /* file of a pretended machine, "": none */

static int remember_cpus(void **state)
{
    (void)state;
    return sched_getaffinity(0, sizeof cpus_at_start, &cpus_at_start);
}

static int restore(void **state)
{
    (void)state;
    (void)unsetenv("HWLOC_XMLFILE");
    if (recorded[0] != '\0') {
        (void)unlink(recorded);
        recorded[0] = '\0';
    }
    return sched_setaffinity(0, sizeof cpus_at_start, &cpus_at_start);
}

/* hwloc reads the variable itself; bind_rank() looks at the rank's. */
static void pretend(const char *machine, struct arguments *environment)
{
    struct machine_model model;
    FILE *file;
    int fd;

    assert_true(machine_find(&model, machine));
    (void)snprintf(recorded, sizeof recorded, "/tmp/tutti_rank.XXXXXX");
    fd = mkstemp(recorded);
    assert_true(fd >= 0);
    file = fdopen(fd, "w");
    assert_non_null(file);
    machine_write(&model, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("HWLOC_XMLFILE", recorded, 1), 0);
    arguments_set(environment, "HWLOC_XMLFILE", recorded);
}

/* The variables that a rank has, and which it has not, behind what is said. */
static void show(const struct arguments *environment, const char *text, char *out)
{
    static const char *const names[] = { "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS", "TUTTI_LOCAL_DEVICE" };

    for (size_t i = 0; i < environment->count; i++) {
        out += sprintf(out, "%s; ", environment->items[i]);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (environment_get(environment->items, names[i]) == NULL) {
            out += sprintf(out, "no %s; ", names[i]);
        }
    }
    (void)sprintf(out, ": %s", text);
}

UNIT_CASES(test_variables_tell_the_program, "variables")
{
    struct arguments environment = { .items = NULL };
    char *fields[CASES_FIELDS];
    struct bind_request request = { .one_gpu = strstr(in, " one") != NULL,
        .how = strstr(in, "none") != NULL ? BIND_NONE : BIND_AUTO };
    char text[BIND_TEXT_MAX];
    char machine[32];

    assert_int_equal(cases_fields(in, fields), 2);
    assert_int_equal(
            sscanf(fields[0], "%31s %d %d", machine, &request.index, &request.count),
            3);
    arguments_add_all(&environment, cases_words(fields[1]));
    assert_int_equal(remember_cpus(NULL), 0);
    pretend(machine, &environment);
    if (bind_rank(&request, &environment, text) == TUTTI_OK) {
        show(&environment, text, out);
    } else {
        cases_refused(out);
    }
    arguments_fini(&environment);
    assert_int_equal(restore(NULL), 0);
}
