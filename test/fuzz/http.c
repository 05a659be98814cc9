/*
 * Requests over HTTP, of anybody who can connect.
 */
#include "launcher/session/http.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t len = size < HTTP_REQUEST_MAX ? size : HTTP_REQUEST_MAX;
    char *bytes = malloc(
            len > 0 ? len : 1); /* of exactly this size: what is read beyond is found */
    struct http_request request;
    enum http_verdict verdict;

    REQUIRE(bytes != NULL);
    memcpy(bytes, data, len);
    verdict = http_parse(bytes, len, &request);
    if (verdict == HTTP_OK) {
        REQUIRE(request.path[0] == '/' && strlen(request.path) < HTTP_PATH_MAX);
        REQUIRE(strlen(request.host) < HTTP_HOST_MAX);
    }
    REQUIRE(verdict != HTTP_MORE || len < HTTP_REQUEST_MAX);
    free(bytes);
    return 0;
}
