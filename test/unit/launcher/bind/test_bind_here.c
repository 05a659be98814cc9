/*
 * The real machine, read without what takes long.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/bind/here.h"
#include "test/unit/unit.h"

enum {
    LINE_BYTES = 1024
};

static bool is_loaded(const char *library)
{
    char line[LINE_BYTES];
    bool is_there = false;
    FILE *maps = fopen("/proc/self/maps", "re");

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        is_there |= strstr(line, library) != NULL;
    }
    (void)fclose(maps);
    return is_there;
}

/* Where hwloc has no plugins, there is nothing to see. */
UNIT_TEST(test_heavy_plugins_stay_out)
{
    static const char *const heavy[] = { "hwloc_xml_libxml", "hwloc_gl",
        "hwloc_opencl" };
    char *environment[] = { NULL };
    struct here here;

    assert_int_equal(here_open(&here, environment), TUTTI_OK);
    for (size_t i = 0; i < sizeof heavy / sizeof heavy[0]; i++) {
        assert_false(is_loaded(heavy[i]));
    }
    assert_true(hwloc_get_nbobjs_by_type(here.topology, HWLOC_OBJ_PU) > 0);
    here_close(&here);
}

UNIT_TEST(test_environment_is_left_alone)
{
    char *environment[] = { NULL };
    char entry[] = "HWLOC_PLUGINS_BLACKLIST=nothing";
    char *chosen[] = { entry, NULL };
    struct here here;

    assert_int_equal(unsetenv("HWLOC_PLUGINS_BLACKLIST"), 0);
    assert_int_equal(here_open(&here, environment), TUTTI_OK);
    here_close(&here);
    assert_null(getenv("HWLOC_PLUGINS_BLACKLIST"));

    assert_int_equal(setenv("HWLOC_PLUGINS_BLACKLIST", "nothing", 1), 0);
    assert_int_equal(here_open(&here, chosen), TUTTI_OK);
    here_close(&here);
    assert_string_equal(getenv("HWLOC_PLUGINS_BLACKLIST"), "nothing");
}
