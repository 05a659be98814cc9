/*
 * Names and properties of the public enums, from the lists in the public header.
 */
#include "base/status.h"

/* clang-format off */
#define CASE_NAME_OF_STATUS(symbol, number, text) case symbol: return #symbol;
#define CASE_TEXT_OF_STATUS(symbol, number, text) case symbol: return text;
#define CASE_NAME_OF_DTYPE(symbol, number, name, bytes) case symbol: return name;
#define SIZE_OF_DTYPE(symbol, number, name, bytes) [symbol] = (bytes),
#define CASE_NAME(symbol, number, name) case symbol: return name;
#define IS_NUMBER(symbol, value, ...) || number == (value)
/* clang-format on */

const char *tutti_version(void)
{
    return TUTTI_VERSION_STRING;
}

const char *tutti_status_name(tutti_status status)
{
    switch (status) {
        TUTTI_STATUS_MAP(CASE_NAME_OF_STATUS)
    }
    return "unknown status";
}

const char *tutti_status_text(tutti_status status)
{
    switch (status) {
        TUTTI_STATUS_MAP(CASE_TEXT_OF_STATUS)
    }
    return "unknown status";
}

size_t tutti_dtype_size(tutti_dtype dtype)
{
    static const unsigned char sizes[] = { TUTTI_DTYPE_MAP(SIZE_OF_DTYPE) };

    return dtype_is_valid(dtype) ? sizes[dtype] : 0;
}

const char *tutti_dtype_name(tutti_dtype dtype)
{
    switch (dtype) {
        TUTTI_DTYPE_MAP(CASE_NAME_OF_DTYPE)
    }
    return "unknown dtype";
}

const char *tutti_reduce_name(tutti_reduce_op op)
{
    switch (op) {
        TUTTI_REDUCE_MAP(CASE_NAME)
    }
    return "unknown reduction";
}

const char *tutti_collective_name(tutti_collective collective)
{
    switch (collective) {
        TUTTI_COLLECTIVE_MAP(CASE_NAME)
    }
    return "unknown collective";
}

bool status_is_valid(int64_t number)
{
    return false TUTTI_STATUS_MAP(IS_NUMBER);
}

bool dtype_is_valid(int64_t number)
{
    return false TUTTI_DTYPE_MAP(IS_NUMBER);
}

bool reduce_op_is_valid(int64_t number)
{
    return false TUTTI_REDUCE_MAP(IS_NUMBER);
}

bool collective_is_valid(int64_t number)
{
    return false TUTTI_COLLECTIVE_MAP(IS_NUMBER);
}

bool dtype_is_float(tutti_dtype dtype)
{
    return dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16 ||
            dtype == TUTTI_FLOAT32 || dtype == TUTTI_FLOAT64;
}

bool dtype_is_opaque(tutti_dtype dtype)
{
    return dtype == TUTTI_FLOAT8_E4M3 || dtype == TUTTI_FLOAT8_E5M2;
}
