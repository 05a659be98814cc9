/*
 * The public face of the last error, in a file of its own: a program that links rooms
 * beside the library, as tutti-bench does, must get the library's text and not its own.
 */
#include "base/error.h"

const char *tutti_last_error(void)
{
    return error_last();
}

tutti_status tutti_set_last_error(tutti_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    error_note_list(format, args);
    va_end(args);
    return status;
}
