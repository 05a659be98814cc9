/*
 * A file that may be compressed.
 */
#if TUTTI_HAVE_ZLIB
#    include <zlib.h>
#endif

#include "base/error.h"
#include "base/text.h"
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

FILE *trace_open_output(const char *path)
{
    const bool is_compressed = text_ends_in(path, ".gz");
    FILE *file;

    if (is_compressed && !TUTTI_HAVE_ZLIB) {
        (void)error_set(
                TUTTI_ERR_UNSUPPORTED, "%s: tutti was built without zlib", path);
        return NULL;
    }
    file = is_compressed ? open_compressed(path) : fopen(path, "we");
    if (file == NULL) {
        (void)error_set_errno(TUTTI_ERR_SYSTEM, "write %s", path);
    }
    return file;
}
