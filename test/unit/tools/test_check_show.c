/*
 * What is printed, word by word.
 */
#include <string.h>

#include "base/mem.h"
#include "test/unit/unit.h"
#include "tools/check/check_show.h"

static const struct facts facts = {
    .release = "1.0.0",
    .launcher = "Open MPI 4.1.4",
    .gpus = 1,
    .shm_bytes = UINT64_C(3) << 29,
};

static void expect_text(const struct show_result *result, const char *expected)
{
    char text[4096] = "";
    FILE *file = fmemopen(text, sizeof text, "w");

    show_text(file, result);
    (void)fclose(file);
    assert_string_equal(text, expected);
}

UNIT_TEST(test_findings_are_under_their_hosts)
{
    struct seen a = { .name = "a" };
    struct seen b = { .name = "b", .has_facts = true, .facts = facts };
    struct findings general = { .items = NULL };
    const struct seen *const hosts[] = { &a, &b };
    struct show_result result = {
        .hosts = hosts, .host_count = 2, .general = &general
    };

    findings_add(&a.findings, FINDING_ERROR, mem_strdup("look"), "it is %s", "bad");
    findings_add(&b.findings, FINDING_WARNING, mem_strdup("see"), "it is odd");
    expect_text(&result,
            "a  FAILS\n"
            "    ! it is bad\n"
            "      look\n"
            "b  warns    0 ms  tuttirun 1.0.0  Open MPI 4.1.4  1 GPU  shm 1.5 GiB  CMA "
            " "
            "clock unknown\n"
            "    ~ it is odd\n"
            "      see\n"
            "no connections between hosts were tried\n"
            "1 of 2 hosts failed; 1 warning\n");
    assert_false(show_is_well(&result));
    findings_fini(&a.findings);
    assert_true(show_is_well(&result));
    findings_add(&general, FINDING_ERROR, mem_strdup("try"), "no way");
    assert_false(show_is_well(&result));
    findings_fini(&general);
    findings_fini(&b.findings);
}

UNIT_TEST(test_many_connections_that_fail_are_cut)
{
    struct seen a = { .name = "a", .has_facts = true, .facts = facts };
    struct findings general = { .items = NULL };
    const struct seen *const hosts[] = { &a };
    struct show_result result = {
        .hosts = hosts, .host_count = 1, .general = &general
    };
    char text[8192] = "";
    FILE *file = fmemopen(text, sizeof text, "w");

    for (int i = 0; i < 25; i++) {
        findings_add(&general, FINDING_ERROR, mem_strdup("c"), "finding %d", i);
    }
    show_text(file, &result);
    (void)fclose(file);
    assert_non_null(strstr(text, "! finding 19\n"));
    assert_null(strstr(text, "! finding 20\n"));
    assert_non_null(strstr(text, "    and 5 more\n"));
    findings_fini(&general);
}
