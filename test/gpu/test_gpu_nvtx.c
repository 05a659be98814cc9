/*
 * A profiler sees each batch as a range: with a tool of our own, and none of NVIDIA's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

extern char nvtx_tool_text[];

int main(int argc, char **argv)
{
    static const char expected[] = "begin tutti/allreduce/gradient\nend\n"
                                   "begin tutti/allreduce/loss\nend\n";
    tutti *t;
    float value = 1;

    if (argc != 2 || setenv("NVTX_INJECTION64_PATH", argv[1], 1) != 0 ||
            tutti_init_local(1, &t, NULL) != TUTTI_OK ||
            tutti_allreduce(t, "gradient", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                    NULL) != TUTTI_OK ||
            tutti_allreduce(t, "loss", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                    NULL) != TUTTI_OK ||
            tutti_finalize(t) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    if (strcmp(nvtx_tool_text, expected) != 0) {
        (void)fprintf(stderr, "got:\n%s", nvtx_tool_text);
        return 1;
    }
    return 0;
}
