/*
 * Which server keeps which part of which parameter. Pure.
 */
#include "server/plan.h"

#include "params.h"

static size_t round_up(size_t bytes)
{
    return (bytes + SERVER_ALIGN - 1) / SERVER_ALIGN * SERVER_ALIGN;
}

/* Where the part of a server begins, among the bytes of all parameters. */
static size_t find_cut(
        const tutti_param *params, size_t n, int server, int servers, size_t split)
{
    size_t total = 0;
    size_t cut;
    size_t start = 0;

    for (size_t i = 0; i < n; i++) {
        total += param_bytes(&params[i]);
    }
    cut = total / (size_t)servers * (size_t)server;
    for (size_t i = 0; server < servers && i < n; i++) {
        const size_t bytes = param_bytes(&params[i]);
        const size_t inside = cut - start;

        if (inside < bytes && inside >= split && bytes - inside >= split) {
            return cut - inside % SERVER_ALIGN;
        }
        if (inside < bytes) {
            return inside < bytes - inside ? start : start + bytes;
        }
        start += bytes;
    }
    return total;
}

size_t server_plan(const tutti_param *params, size_t n, int server, int servers,
        int64_t split_bytes, struct server_slice *slices, size_t *bytes)
{
    const size_t split = round_up((size_t)split_bytes);
    const size_t begin = find_cut(params, n, server, servers, split);
    const size_t end = find_cut(params, n, server + 1, servers, split);
    size_t start = 0; /* of the parameter, among the bytes of all */
    size_t count = 0;

    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t width = tutti_dtype_size(params[i].dtype);
        const size_t stop = start + param_bytes(&params[i]);
        const size_t from = begin > start ? begin : start;
        const size_t to = end < stop ? end : stop;

        if (from < to) {
            slices[count++] = (struct server_slice){
                .param = i,
                .first = (int64_t)((from - start) / width),
                .count = (int64_t)((to - from) / width),
                .offset = *bytes,
                .bytes = to - from,
            };
            *bytes += round_up(to - from);
        }
        start = stop;
    }
    return count;
}
