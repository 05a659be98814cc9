/*
 * Which MPI a program needs: names of libraries, and what the loader says.
 */
#include <limits.h>
#include <unistd.h>

#include "launcher/starter/linked.h"
#include "test/unit/unit.h"

static char *const no_variables[] = { NULL };

UNIT_TEST(test_names_tell_whose_mpi_it_is)
{
    static const struct {
        const char *library;
        enum starter_kind kind;
    } rows[] = {
        { "libmpi.so.40", STARTER_OPENMPI },
        { "libmpi.so.40.30.4", STARTER_OPENMPI },
        { "libmpi_ibm.so.3", STARTER_OPENMPI },
        { "libmpich.so.12", STARTER_MPICH },
        { "libmpi.so.12", STARTER_MPICH },
        { "libmpi_gnu_91.so.12", STARTER_MPICH },
        { "libmpi_abi.so.0", STARTER_AUTO },
        { "libmpi_cxx.so.40", STARTER_AUTO },
        { "libmpifort.so", STARTER_AUTO },
        { "libc.so.6", STARTER_AUTO },
        { "", STARTER_AUTO },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(linked_kind_of(rows[i].library), rows[i].kind);
    }
}

/* This program is linked to a library that has only the name of MPICH's. */
UNIT_TEST(test_what_a_program_needs_is_read)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    struct linked linked;

    assert_true(len > 0);
    path[len] = '\0';
    linked_read(path, no_variables, &linked);
    assert_int_equal(linked.kind, STARTER_MPICH);
    assert_string_equal(linked.library, "libmpich.so.12");
}

UNIT_TEST(test_what_is_no_program_needs_nothing)
{
    struct linked linked;

    linked_read("/nowhere", no_variables, &linked);
    assert_int_equal(linked.kind, STARTER_AUTO);
    linked_read("/tmp", no_variables, &linked);
    assert_int_equal(linked.kind, STARTER_AUTO);
    linked_read("/dev/null", no_variables, &linked);
    assert_int_equal(linked.kind, STARTER_AUTO);
    linked_read("/bin/sh", no_variables, &linked);
    assert_int_equal(linked.kind, STARTER_AUTO);
    linked_read("/etc/passwd", no_variables, &linked);
    assert_int_equal(linked.kind, STARTER_AUTO);
}
