/*
 * Loads NCCL, and says in one sentence why there is none.
 */
#include "ops/gpu/nccl.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "ops/gpu/symbols.h"

static const struct symbol nccl_symbols[] = {
#define NCCL_REQUIRED(field, symbol, parameters) \
    { #symbol, offsetof(struct nccl_api, field), SYMBOL_REQUIRED },
#define NCCL_OPTIONAL(field, symbol, since, parameters) \
    { #symbol, offsetof(struct nccl_api, field), since },
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) \
    NCCL_REQUIRED(field, symbol, parameters)
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) \
    NCCL_OPTIONAL(field, symbol, since, parameters)
#include "ops/gpu/nccl.def"
};

#define SYMBOL_COUNT (sizeof nccl_symbols / sizeof *nccl_symbols)

/* Up to 2.8 a major version counts a thousand, since 2.9 ten thousand. */
static tutti_status note_old(const char *library, int version)
{
    const int major = version < 10000 ? version / 1000 : version / 10000;
    const int minor = (version < 10000 ? version % 1000 : version % 10000) / 100;

    return error_set(TUTTI_ERR_UNSUPPORTED, "NCCL %d.%d.%d in %s is older than %d.%d",
            major, minor, version % 100, library, NCCL_OLDEST / 10000,
            NCCL_OLDEST % 10000 / 100);
}

/* --------------------------------------------- Python's package, nvidia-nccl-cu* */

/* The first file that a pattern matches. */
static bool find(const char *pattern, char *path, size_t capacity)
{
    glob_t found = { .gl_pathc = 0 };
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): only names of users make it so */
    bool is_found = glob(pattern, GLOB_BRACE, NULL, &found) == 0;

    if (is_found) {
        is_found = (size_t)snprintf(path, capacity, "%s", found.gl_pathv[0]) < capacity;
        globfree(&found);
    }
    return is_found;
}

/* In a folder of packages. */
static bool find_in(const char *folder, size_t length, const char *library, char *path,
        size_t capacity)
{
    char pattern[PATH_MAX];
    const int written = snprintf(pattern, sizeof pattern, "%.*s/nvidia/nccl/lib/%s",
            (int)length, folder, library);

    return length > 0 && (size_t)written < sizeof pattern &&
            find(pattern, path, capacity);
}

static bool find_below(
        const char *prefix, const char *library, char *path, size_t capacity)
{
    char folder[PATH_MAX];
    const int written = snprintf(folder, sizeof folder,
            "%s/lib{,64}/python3*/{site,dist}-packages", prefix == NULL ? "" : prefix);

    return prefix != NULL && (size_t)written < sizeof folder &&
            find_in(folder, (size_t)written, library, path, capacity);
}

/* Where PYTHONPATH leads, "folder:folder". */
static bool find_on_path(const char *library, char *path, size_t capacity)
{
    const char *at = config_foreign("PYTHONPATH");

    while (at != NULL && *at != '\0') {
        const size_t length = strcspn(at, ":");

        if (find_in(at, length, library, path, capacity)) {
            return true;
        }
        at += length + (at[length] == ':' ? 1 : 0);
    }
    return false;
}

/* A package of tutti is beside that of NCCL: its library is in tutti/ or tutti/lib/. */
static bool find_beside(const char *library, char *path, size_t capacity)
{
    static const char here = 0;
    char folder[PATH_MAX];
    Dl_info info;
    bool is_found = false;

    if (dladdr(&here, &info) != 0 && info.dli_fname != NULL &&
            strlen(info.dli_fname) < sizeof folder) {
        (void)snprintf(folder, sizeof folder, "%s", info.dli_fname);
        for (int up = 0; up < 3 && !is_found && strrchr(folder, '/') != NULL; up++) {
            *strrchr(folder, '/') = '\0';
            is_found =
                    up > 0 && find_in(folder, strlen(folder), library, path, capacity);
        }
    }
    return is_found;
}

/* In the site-packages of PYTHONPATH, of the virtual or conda environment, of the user and of
 * the system, in this order, and beside this library. */
static bool find_package(const char *library, char *path, size_t capacity)
{
    const char *home = config_foreign("HOME");
    char local[PATH_MAX] = "";

    if (home != NULL) {
        (void)snprintf(local, sizeof local, "%s/.local", home);
    }
    return find_on_path(library, path, capacity) ||
            find_below(config_foreign("VIRTUAL_ENV"), library, path, capacity) ||
            find_below(config_foreign("CONDA_PREFIX"), library, path, capacity) ||
            find_below(local, library, path, capacity) ||
            find_below("/usr/local", library, path, capacity) ||
            find_below("/usr", library, path, capacity) ||
            find_beside(library, path, capacity);
}

/* ---------------------------------------------------------------------- loading */

/* By the loader, else from a package of Python's. Fills in the name that led to it. */
static void *open_nccl(const char *library, char name[NCCL_LIBRARY_MAX])
{
    const char *text = "";
    void *handle = symbols_open(library, &text);

    (void)snprintf(name, NCCL_LIBRARY_MAX, "%s", library);
    if (handle == NULL) {
        error_note("there is no NCCL: %s", text);
    }
    if (handle == NULL && strchr(library, '/') == NULL &&
            find_package(library, name, NCCL_LIBRARY_MAX)) {
        handle = symbols_open(name, &text);
        if (handle == NULL) {
            error_note("there is no NCCL: %s", text);
        }
    }
    return handle;
}

tutti_status nccl_load(const char *library, struct nccl_api *api)
{
    struct nccl_api loaded = { .version = 0 };
    const char *text;
    void *handle = open_nccl(library, loaded.library);
    nccl_result error;

    if (handle == NULL) {
        return TUTTI_ERR_UNSUPPORTED;
    }
    library = loaded.library;
    /* Before the version is known, every function that is there. */
    text = symbols_fill(handle, nccl_symbols, SYMBOL_COUNT, INT_MAX, &loaded);
    if (loaded.get_version == NULL) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "%s lacks ncclGetVersion: it is not NCCL", library);
    }
    error = loaded.get_version(&loaded.version);
    if (error != NCCL_SUCCESS) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "NCCL in %s does not tell its version (error %d)", library, error);
    }
    if (loaded.version < NCCL_OLDEST) {
        return note_old(library, loaded.version);
    }
    if (text != NULL) {
        return error_set(TUTTI_ERR_UNSUPPORTED, "%s lacks %s", library, text);
    }
    (void)symbols_fill(handle, nccl_symbols, SYMBOL_COUNT, loaded.version, &loaded);
    *api = loaded;
    return TUTTI_OK;
}

void nccl_config_init(struct nccl_config *config, const char *name)
{
    *config = (struct nccl_config){
        .size = sizeof *config,
        .magic = NCCL_CONFIG_MAGIC,
        .version = NCCL_CONFIG_VERSION,
        .blocking = 0,
        .cga_cluster_size = NCCL_UNSET,
        .min_ctas = NCCL_UNSET,
        .max_ctas = NCCL_UNSET,
        .split_share = NCCL_UNSET,
        .traffic_class = NCCL_UNSET,
        .comm_name = name,
        .collnet_enable = NCCL_UNSET,
        .cta_policy = NCCL_UNSET,
        .shrink_share = NCCL_UNSET,
        .nvls_ctas = NCCL_UNSET,
    };
}

const char *nccl_error_text(const struct nccl_api *api, nccl_result error)
{
    const char *text = api->get_error_string(error);

    return text == NULL ? "an unknown error" : text;
}

bool nccl_get_optional(
        const struct nccl_api *api, size_t index, struct nccl_optional *call)
{
    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        const struct symbol *symbol = &nccl_symbols[i];
        void *function;

        if (symbol->since == SYMBOL_REQUIRED || index-- != 0) {
            continue;
        }
        memcpy(&function, (const char *)api + symbol->offset, sizeof function);
        *call = (struct nccl_optional){
            .symbol = symbol->name, .since = symbol->since, .used = function != NULL
        };
        return true;
    }
    return false;
}
