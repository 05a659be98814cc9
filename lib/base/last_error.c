/*
 * The public face of the last error, in a file of its own: a program that links rooms
 * beside the library, as tutti-bench does, must get the library's text and not its own.
 */
#include "base/error.h"

const char *tutti_last_error(void)
{
    return error_last();
}
