/*
 * A merged timeline as a file, which may be compressed.
 */
#include <stdlib.h>
#include <string.h>

#if TUTTI_HAVE_ZLIB
#    include <zlib.h>
#endif

#include "base/error.h"
#include "tools/autopsy/autopsy.h"
#include "tools/trace/trace.h"

#if TUTTI_HAVE_ZLIB
static ssize_t write_compressed(void *cookie, const char *bytes, size_t len)
{
    const unsigned some = len < INT32_MAX ? (unsigned)len : INT32_MAX;

    return gzwrite(cookie, bytes, some) == (int)some ? (ssize_t)some : 0;
}

static int close_compressed(void *cookie)
{
    return gzclose(cookie) == Z_OK ? 0 : EOF;
}

/* NULL: it cannot be written. */
static FILE *open_compressed(const char *path)
{
    const cookie_io_functions_t calls = { .write = write_compressed,
        .close = close_compressed };
    gzFile compressed = gzopen(path, "wbe");

    return compressed == NULL ? NULL : fopencookie(compressed, "w", calls);
}
#else
static FILE *open_compressed(const char *path)
{
    (void)path;
    return NULL;
}
#endif

static tutti_status merge_into(
        FILE *file, const struct recorded_job *job, const struct merge_choice *choice)
{
    struct trace trace;
    tutti_status status = trace_make(&trace, job);

    if (status == TUTTI_OK) {
        status = trace_merge(file, &trace, choice);
        trace_fini(&trace);
    }
    return status;
}

static tutti_status write_job(const struct recorded_job *job, const char *path,
        const struct merge_choice *choice)
{
    const size_t len = strlen(path);
    const bool is_compressed = len > 3 && strcmp(path + len - 3, ".gz") == 0;
    tutti_status status;
    bool failed;
    FILE *file;

    if (is_compressed && !TUTTI_HAVE_ZLIB) {
        return error_set(
                TUTTI_ERR_UNSUPPORTED, "%s: tutti was built without zlib", path);
    }
    file = is_compressed ? open_compressed(path) : fopen(path, "we");
    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "write %s", path);
    }
    status = merge_into(file, job, choice);
    failed = ferror(file) != 0;
    failed = fclose(file) != 0 || failed;
    return status == TUTTI_OK && failed
            ? error_set_errno(TUTTI_ERR_SYSTEM, "write %s", path)
            : status;
}

tutti_status trace_merge_folder(const char *folder, const char *path,
        const struct merge_choice *choice, FILE *complaints)
{
    struct recorded_job job;
    tutti_status status = recorded_job_load(&job, folder, complaints);

    if (status == TUTTI_OK) {
        status = write_job(&job, path, choice);
        recorded_job_fini(&job);
    }
    return status;
}
