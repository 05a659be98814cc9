/*
 * tutti-info: the version and features of the library that is loaded, what it finds of GPUs,
 * and the effective configuration: what tutti_init(NULL) in this environment would use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

#include "api/plugin.h"
#include "base/config.h"
#include "tools/info/calibrate.h"

static void print_library(void)
{
    static const char *const features[] = { "mpi", "openmpi", "mpich", "shm", "hier",
        "hwloc", "cuda", "avx512", "avx2", "neon" };

    (void)printf("tutti %s, features:", tutti_version());
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (tutti_has_feature(features[i])) {
            (void)printf(" %s", features[i]);
        }
    }
    (void)printf("\n");
}

/* Which MPI tutti_init() in this process would use, and what is here for others. */
static tutti_status print_mpi(const tutti_config *config)
{
    const char *transport = "";
    const tutti_status status = tutti_config_get(config, "transport", &transport);
    struct mpi_choice choice;
    char path[PLUGIN_PATH_MAX];
    const char *name;

    for (int i = 0; (name = plugin_mpi_name(i)) != NULL; i++) {
        if (plugin_path(name, path)) {
            (void)printf("plug-in %s: %s\n", name, path);
        }
    }
    plugin_choose_mpi(strcmp(transport, "mpi") == 0, &choice);
    (void)printf(
            "MPI: %s (%s)\n", choice.name == NULL ? "none" : choice.name, choice.why);
    return status;
}

/* What the parameter `kernels` comes to on this machine. */
static tutti_status print_kernels(const tutti_config *config)
{
    static const char *const best_first[] = { "avx512", "avx2", "neon", "scalar" };
    const char *wanted;
    const tutti_status status = tutti_config_get(config, "kernels", &wanted);
    size_t i = 0;

    if (status != TUTTI_OK) {
        return status;
    }
    if (strcmp(wanted, "auto") != 0) {
        const bool is_there =
                strcmp(wanted, "scalar") == 0 || tutti_has_feature(wanted);

        (void)printf("reductions: %s%s\n", wanted,
                is_there ? "" : ", which is not here: tutti_init will fail");
        return status;
    }
    while (i < 3 && !tutti_has_feature(best_first[i])) {
        i++;
    }
    (void)printf("reductions: %s\n", best_first[i]);
    return status;
}

static tutti_status print_gpus(const tutti_config *config)
{
    static char text[16 << 10];
    const tutti_status status = tutti_gpu_describe(config, text, sizeof text);

    (void)fputs(text, stdout);
    return status;
}

static tutti_status print_configuration(void)
{
    size_t count;
    const struct config_row *rows = config_rows(&count);
    tutti_config *config;
    tutti_status status = tutti_config_create(&config);

    if (status != TUTTI_OK) {
        return status;
    }
    status = print_mpi(config);
    if (status == TUTTI_OK) {
        status = print_kernels(config);
    }
    if (status == TUTTI_OK) {
        status = print_gpus(config);
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        const char *text;

        status = tutti_config_get(config, rows[i].name, &text);
        if (status == TUTTI_OK) {
            (void)printf("%-18s %-14s %s%s\n", rows[i].name, *text == '\0' ? "-" : text,
                    rows[i].help, rows[i].same ? " [same on all ranks]" : "");
        }
    }
    tutti_config_destroy(config);
    return status;
}

int main(int argc, char **argv)
{
    tutti_status status;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)puts(
                "usage: tutti-info [--help | --version | --calibrate [--json]]\n\n"
                "Prints the version and features of tutti, what it finds of GPUs, and "
                "its configuration\nin this environment (TUTTI_* variables).\n\n"
                "  --calibrate   measure this machine: caches, memory, cores, the link "
                "between nodes;\n"
                "                with ranks (tuttirun -np 2 tutti-info --calibrate) "
                "also "
                "operations,\n"
                "                beside what they take at least\n"
                "  --json        as JSON, one object a line");
        return EXIT_SUCCESS;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("tutti-info %s\n", tutti_version());
        return EXIT_SUCCESS;
    }
    if (argc >= 2 && strcmp(argv[1], "--calibrate") == 0 &&
            (argc == 2 || (argc == 3 && strcmp(argv[2], "--json") == 0))) {
        return calibrate(argc == 3);
    }
    if (argc > 1) {
        (void)fprintf(
                stderr, "tutti-info: unexpected argument '%s'; see --help\n", argv[1]);
        return 2;
    }
    print_library();
    status = print_configuration();
    if (status != TUTTI_OK) {
        (void)fprintf(stderr, "tutti-info: %s: %s\n", tutti_status_text(status),
                tutti_last_error());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
