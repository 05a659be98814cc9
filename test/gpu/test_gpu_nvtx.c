/*
 * A profiler sees each batch as a range: with a tool of our own, and none of NVIDIA's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

int main(int argc, char **argv)
{
    static const char expected[] = "begin 1 tutti/allreduce/gradient\nend 1\n"
                                   "begin 2 tutti/allreduce/loss\nend 2\n";
    char found[256] = "";
    tutti *t;
    float value = 1;
    FILE *file;

    if (argc != 3 || setenv("NVTX_INJECTION64_PATH", argv[1], 1) != 0 ||
            setenv("NVTX_TOOL_FILE", argv[2], 1) != 0 ||
            tutti_init_local(1, &t, NULL) != TUTTI_OK ||
            tutti_allreduce(t, "gradient", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                    NULL) != TUTTI_OK ||
            tutti_allreduce(t, "loss", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                    NULL) != TUTTI_OK ||
            tutti_finalize(t) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    file = fopen(argv[2], "r");
    if (file == NULL) {
        (void)fprintf(stderr, "the tool was not loaded\n");
        return 1;
    }
    found[fread(found, 1, sizeof found - 1, file)] = '\0';
    (void)fclose(file);
    if (strcmp(found, expected) != 0) {
        (void)fprintf(stderr, "got:\n%s", found);
        return 1;
    }
    return 0;
}
