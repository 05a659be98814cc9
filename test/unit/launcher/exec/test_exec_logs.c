/*
 * The files of a rank's output.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/exec/logs.h"
#include "test/unit/unit.h"

UNIT_TEST(test_bytes_are_written_as_they_are)
{
    char root[] = "/tmp/tutti-logs-XXXXXX";
    char parent[PATH_MAX];
    char folder[PATH_MAX];
    char text[16] = "";
    struct log_file log;
    FILE *file;

    assert_non_null(mkdtemp(root));
    (void)snprintf(parent, sizeof parent, "%s/deep/logs", root);
    assert_int_equal(logs_make_folder(parent, 12, folder), TUTTI_OK);
    assert_int_equal(logs_make_folder(parent, 12, folder), TUTTI_OK);
    assert_int_equal(log_file_open(&log, folder, "stdout"), TUTTI_OK);
    assert_int_equal(log_file_write(&log, "a\0\r", 3), TUTTI_OK);
    assert_int_equal(log_file_write(&log, "b", 1), TUTTI_OK);
    log_file_close(&log);
    assert_non_null(strstr(log.path, "/deep/logs/rank.12/stdout"));
    file = fopen(log.path, "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), 4);
    assert_memory_equal(text, "a\0\rb", 4);
    (void)fclose(file);

    assert_int_equal(unlink(log.path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(parent), 0);
    (void)snprintf(parent, sizeof parent, "%s/deep", root);
    assert_int_equal(rmdir(parent), 0);
    assert_int_equal(rmdir(root), 0);
}

UNIT_TEST(test_a_full_disk_is_said_once)
{
    struct log_file log;

    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    assert_int_equal(log_file_open(&log, "/dev", "full"), TUTTI_OK);
    assert_int_equal(log_file_write(&log, "a", 1), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "/dev/full"));
    assert_int_equal(log_file_write(&log, "a", 1), TUTTI_OK);
}

UNIT_TEST(test_each_generation_has_its_place)
{
    static const struct {
        const char *path, *second;
    } cases[] = {
        { "", "" },
        { "/logs", "/logs.generation2" },
        { "logs/", "logs.generation2/" },
        { "/a.json/t.json", "/a.json/t.generation2.json" },
        { "t.json.gz", "t.generation2.json.gz" },
        { "t.json.old", "t.json.old.generation2" },
    };
    char own[64];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t generation = 0; generation < 2; generation++) {
            generation_path(own, sizeof own, cases[i].path, generation);
            assert_string_equal(own, cases[i].path);
        }
        generation_path(own, sizeof own, cases[i].path, 2);
        assert_string_equal(own, cases[i].second);
    }
}

UNIT_TEST(test_what_cannot_be_made_is_named)
{
    char folder[PATH_MAX];
    struct log_file log;

    assert_int_equal(logs_make_folder("/dev/null/logs", 0, folder), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "/dev/null"));
    assert_int_equal(log_file_open(&log, "/dev/null", "stdout"), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "/dev/null/stdout"));
    assert_int_equal(log.fd, -1);
}
