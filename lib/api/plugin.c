#include "api/plugin.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"

/* How an MPI is known: what only it has, and what only its launchers set. */
static const struct known {
    const char *name;
    const char *title;
    const char *symbol; /* NULL: the libraries tell */
    const char *libraries[2]; /* where its symbols are not for all to see */
    const char *variables[2];
} mpis[] = {
    { .name = "openmpi",
            .title = "Open MPI",
            .symbol = "ompi_mpi_comm_world",
            .libraries = { "libmpi.so.40", "libmpi.so.80" },
            .variables = { "OMPI_COMM_WORLD_SIZE", "PMIX_RANK" } },
    { .name = "mpich",
            .title = "MPICH",
            .symbol = "MPIR_Err_create_code",
            .libraries = { "libmpich.so.12", "libmpi.so.12" },
            .variables = { "PMI_SIZE", "PMI_FD" } },
    /* Of Open MPI, MPICH or another, whose own symbols may be there, too. MPICH 5.0.1 says 0. */
    { .name = "abi",
            .title = "an MPI of the standard ABI",
            .libraries = { "libmpi_abi.so.1", "libmpi_abi.so.0" },
            .variables = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" } },
};
enum {
    MPIS = sizeof mpis / sizeof *mpis
};

const char *plugin_mpi_name(int i)
{
    return i < MPIS ? mpis[i].name : NULL;
}

bool plugin_path(const char *name, char path[PLUGIN_PATH_MAX])
{
    Dl_info self;
    const char *slash;
    int len;

    path[0] = '\0';
    if (dladdr(mpis, &self) == 0 || self.dli_fname == NULL) {
        return false;
    }
    slash = strrchr(self.dli_fname, '/');
    len = snprintf(path, PLUGIN_PATH_MAX, "%.*slibtutti-%s.so." TUTTI_SOVERSION,
            slash == NULL ? 0 : (int)(slash + 1 - self.dli_fname), self.dli_fname,
            name);
    return len > 0 && len < PLUGIN_PATH_MAX && access(path, R_OK) == 0;
}

static bool is_in_process(const struct known *mpi)
{
    bool is_there = mpi->symbol != NULL && dlsym(RTLD_DEFAULT, mpi->symbol) != NULL;

    for (int i = 0; i < 2 && !is_there; i++) {
        void *handle = dlopen(mpi->libraries[i], RTLD_LAZY | RTLD_NOLOAD);

        is_there = handle != NULL;
        if (is_there) {
            (void)dlclose(handle);
        }
    }
    return is_there;
}

static const char *launcher_variable(const struct known *mpi)
{
    for (int i = 0; i < 2; i++) {
        if (config_foreign(mpi->variables[i]) != NULL) {
            return mpi->variables[i];
        }
    }
    return NULL;
}

/* Takes the plug-in of an MPI that was found, unless it is not there: then that is the reason. */
static bool take(struct mpi_choice *choice, const struct known *mpi, const char *how)
{
    char path[PLUGIN_PATH_MAX];
    const bool is_there = plugin_path(mpi->name, path);

    if (is_there) {
        choice->name = mpi->name;
        (void)snprintf(choice->why, sizeof choice->why, "%s", how);
    } else if (choice->why[0] == '\0') {
        (void)snprintf(choice->why, sizeof choice->why, "%s, but there is no %.160s",
                how, path);
    }
    return is_there;
}

void plugin_choose_mpi(bool is_wanted, struct mpi_choice *choice)
{
    *choice = (struct mpi_choice){ .name = NULL };
    if (&mpi_plugin != NULL) {
        choice->name = mpi_plugin.name;
        (void)snprintf(choice->why, sizeof choice->why, "the program is linked to it");
        return;
    }
    for (int i = MPIS; i-- > 0;) {
        char how[64];

        (void)snprintf(how, sizeof how, "%s is in this process", mpis[i].title);
        if (is_in_process(&mpis[i]) && take(choice, &mpis[i], how)) {
            return;
        }
    }
    for (int i = 0; i < MPIS; i++) {
        const char *variable = launcher_variable(&mpis[i]);
        char how[64];

        (void)snprintf(how, sizeof how, "%s is set", variable == NULL ? "" : variable);
        if (variable != NULL && take(choice, &mpis[i], how)) {
            return;
        }
    }
    for (int i = 0; i < MPIS && is_wanted; i++) {
        if (take(choice, &mpis[i], "transport is mpi")) {
            return;
        }
    }
    if (choice->why[0] == '\0') {
        (void)snprintf(choice->why, sizeof choice->why,
                "no MPI is in this process, and no launcher of one has started it");
    }
}

/* Its table, which begins with a version. */
static tutti_status load(
        const char *name, int flags, const char *symbol, const void **table)
{
    char path[PLUGIN_PATH_MAX];
    const char *const *version = NULL;
    void *handle;

    (void)plugin_path(name, path);
    handle = dlopen(path, RTLD_NOW | RTLD_NODELETE | flags);
    if (handle != NULL) {
        version = dlsym(handle, symbol);
    }
    if (version == NULL) {
        const char *why = dlerror(); /* NOLINT(concurrency-mt-unsafe): not here */

        return error_set(TUTTI_ERR_UNSUPPORTED, "the plug-in cannot be loaded: %s",
                why == NULL ? path : why);
    }
    if (strcmp(*version, TUTTI_VERSION_STRING) != 0) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "%s is of version %s, and this library of " TUTTI_VERSION_STRING
                "; install both of one version",
                path, *version);
    }
    *table = version;
    return TUTTI_OK;
}

tutti_status plugin_load_mpi(bool is_wanted, const struct mpi_plugin **plugin)
{
    struct mpi_choice choice;
    const void *table = NULL;
    tutti_status status = TUTTI_OK;

    *plugin = &mpi_plugin;
    if (*plugin != NULL) {
        return TUTTI_OK;
    }
    plugin_choose_mpi(is_wanted, &choice);
    if (choice.name != NULL) {
        /* For all to see: what Open MPI loads itself expects its symbols there. */
        status = load(choice.name, RTLD_GLOBAL, "libtutti_mpi_plugin", &table);
    }
    *plugin = table;
    return status;
}

/* libucs takes these signals when it is loaded, SIGHUP for its log; they are the program's. */
static const int ucx_signals[] = { SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV };
enum {
    UCX_SIGNALS = sizeof ucx_signals / sizeof *ucx_signals
};

tutti_status plugin_load_ucx(const struct ucx_plugin **plugin)
{
    struct sigaction actions[UCX_SIGNALS];
    stack_t stack;
    const void *table = NULL;
    tutti_status status;

    *plugin = &ucx_plugin;
    if (*plugin != NULL) {
        return TUTTI_OK;
    }
    for (int i = 0; i < UCX_SIGNALS; i++) {
        (void)sigaction(ucx_signals[i], NULL, &actions[i]);
    }
    (void)sigaltstack(NULL, &stack);
    status = load("ucx", RTLD_LOCAL, "libtutti_ucx_plugin", &table);
    if (config_foreign("UCX_HANDLE_ERRORS") == NULL) {
        (void)sigaltstack(&stack, NULL);
        for (int i = 0; i < UCX_SIGNALS; i++) {
            (void)sigaction(ucx_signals[i], &actions[i], NULL);
        }
    }
    *plugin = table;
    return status;
}
