/*
 * Event files: what is on the disk after each call, and after a disk that is full. That
 * TensorBoard reads them is the test trainer.tensorboard.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tutti/trainer/events.h>

#include "test/unit/unit.h"

enum {
    HEAD_BYTES = 16 + 24, /* frame, and the event with the version */
    SCALAR_BYTES =
            16 + 9 + 2 + 2 + 2 + 6 + 5, /* time, step, summary, value, tag "loss" */
    FILE_MAX = 1 << 20,
};

static char directory[64];
static char path[400];
static unsigned char content[FILE_MAX];

static int make_directory(void **state)
{
    (void)state;
    (void)strcpy(directory, "/tmp/tutti-events-XXXXXX");
    return mkdtemp(directory) == NULL;
}

/** Removes the files of the directory and it. */
static int remove_directory(void **state)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;

    (void)state;
    while ((entry = readdir(dir)) != NULL) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    (void)closedir(dir);
    return rmdir(directory);
}

/** The bytes of the only event file, read to content. */
static size_t read_file(void)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    size_t bytes;
    FILE *file;

    assert_non_null(dir);
    path[0] = '\0';
    while ((entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0) {
            assert_string_equal(path, "");
            (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        }
    }
    (void)closedir(dir);
    file = fopen(path, "rb");
    assert_non_null(file);
    bytes = fread(content, 1, sizeof content, file);
    (void)fclose(file);
    return bytes;
}

static tutti_events *open_events(double flush_s)
{
    tutti_events_options options;
    tutti_events *events;

    tutti_events_options_default(&options);
    options.flush_s = flush_s;
    assert_int_equal(tutti_events_open(directory, &options, &events), TUTTI_OK);
    return events;
}

UNIT_TEST_WITH(
        a_file_has_the_bytes_that_tensorflow_writes, make_directory, remove_directory)
{
    /* The frame's length and its checksum, as every file of TensorFlow begins. */
    static const unsigned char head[] = { 24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b,
        0x22, 0x09 };
    static const unsigned char scalar[] = { 0x10, 0xac, 0x02, /* step 300 */
        0x2a, 13, 0x0a, 11, /* summary, value */
        0x0a, 4, 'l', 'o', 's', 's', 0x15, 0, 0, 0xc0, 0x3f }; /* tag; 1.5 */
    tutti_events *events = open_events(1e9);

    assert_int_equal(tutti_events_scalar(events, "loss", 300, 1.5), TUTTI_OK);
    assert_int_equal(read_file(), HEAD_BYTES);
    assert_memory_equal(content, head, sizeof head);
    assert_memory_equal(content + 21,
            "\x1a\x0d"
            "brain.Event:2",
            15);
    assert_int_equal(tutti_events_flush(events), TUTTI_OK);
    assert_int_equal(read_file(), HEAD_BYTES + SCALAR_BYTES + 1);
    /* Fields may come in any order: the time is in front. */
    assert_memory_equal(content + HEAD_BYTES + 12 + 9, scalar, sizeof scalar);
    assert_int_equal(tutti_events_close(events), TUTTI_OK);
}

UNIT_TEST_WITH(values_are_written_when_it_is_time_or_the_buffer_is_full, make_directory,
        remove_directory)
{
    tutti_events *events = open_events(0);
    size_t bytes = 0;

    assert_int_equal(tutti_events_scalar(events, "loss", 1, 1), TUTTI_OK);
    assert_int_equal(read_file(), HEAD_BYTES + SCALAR_BYTES);
    assert_int_equal(tutti_events_close(events), TUTTI_OK);
    assert_int_equal(unlink(path), 0);

    events = open_events(1e9);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(tutti_events_scalar(events, "loss", 1, 1), TUTTI_OK);
    }
    bytes = read_file();
    assert_true(bytes > 50000 && (bytes - HEAD_BYTES) % SCALAR_BYTES == 0);
    assert_int_equal(tutti_events_close(events), TUTTI_OK);
    assert_int_equal(read_file(), HEAD_BYTES + 2000 * SCALAR_BYTES);
}

/** No file of this process may be longer. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

UNIT_TEST_WITH(
        a_full_disk_is_an_error_that_loses_nothing, make_directory, remove_directory)
{
    tutti_events *events = open_events(0);

    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(tutti_events_scalar(events, "loss", 1, 1), TUTTI_OK);
    limit_files(HEAD_BYTES + SCALAR_BYTES + 10);
    assert_int_equal(tutti_events_scalar(events, "loss", 2, 2), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), directory));
    assert_int_equal(read_file(), HEAD_BYTES + SCALAR_BYTES); /* no half record */
    limit_files(RLIM_INFINITY);
    assert_int_equal(tutti_events_scalar(events, "loss", 3, 3), TUTTI_OK);
    assert_int_equal(read_file(), HEAD_BYTES + 2 * SCALAR_BYTES);
    assert_int_equal(content[HEAD_BYTES + SCALAR_BYTES + 22], 3);
    assert_int_equal(tutti_events_close(events), TUTTI_OK);
}
