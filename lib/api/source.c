/*
 * Where the job of a process comes from: the functions that join the world of a launcher.
 */
#include <tutti/tutti.h>

#include "api/init.h"
#include "api/init_boot.h"
#include "api/plugin.h"
#include "base/config.h"
#include "base/error.h"

/* Ranks that a launcher started and that nobody joins would each train for itself. */
static tutti_status check_alone(int transport)
{
    const bool is_wanted = transport == CONFIG_TRANSPORT_MPI;
    struct mpi_choice choice;
    const char *variable = "";
    const int launched = config_launched_ranks(&variable);

    plugin_choose_mpi(is_wanted, &choice);
    if (is_wanted) {
        return error_set(
                TUTTI_ERR_UNSUPPORTED, "transport cannot be mpi: %s", choice.why);
    }
    return launched <= 1
            ? TUTTI_OK
            : error_set(TUTTI_ERR_UNSUPPORTED,
                      "%s=%d, but tutti cannot join these ranks: %s, and "
                      "neither tuttirun nor srun's PMI nor torchrun's variables (RANK, "
                      "WORLD_SIZE, MASTER_ADDR, MASTER_PORT) say who is there; "
                      "tutti-info prints what is there",
                      variable, launched,
                      transport == CONFIG_TRANSPORT_UCX ? "transport is ucx"
                                                        : choice.why);
}

/* The ranks of a launcher that would join over UCX. */
static tutti_status join_by_boot(tutti **t, const tutti_config *config)
{
    const char *seen = init_boot_seen();
    struct mpi_choice choice;
    char path[PLUGIN_PATH_MAX];

    if (seen == NULL) {
        return TUTTI_AGAIN;
    }
    if (&ucx_plugin != NULL || plugin_path("ucx", path)) {
        return init_boot(t, config);
    }
    plugin_choose_mpi(false, &choice);
    return error_set(TUTTI_ERR_UNSUPPORTED,
            "tutti cannot join these ranks, which are those of %s: %s; and there is no "
            "%.200s",
            seen, choice.why, path);
}

/* The job of the launcher; `config` is the caller's, or of the environment. */
static tutti_status init_world(tutti **t, const tutti_config *config, int transport)
{
    const bool is_wanted = transport == CONFIG_TRANSPORT_MPI;
    const struct mpi_plugin *plugin = NULL;
    tutti_status status = TUTTI_OK;

    if (transport == CONFIG_TRANSPORT_AUTO || is_wanted) {
        status = plugin_load_mpi(is_wanted, &plugin);
    }
    if (status == TUTTI_OK && plugin != NULL) {
        const struct job_source source = { .join = plugin->join };

        return init_join(t, &source, config);
    }
    if (status == TUTTI_OK && !is_wanted) {
        status = join_by_boot(t, config);
        if (status != TUTTI_AGAIN) {
            return status;
        }
    }
    if (status == TUTTI_OK || status == TUTTI_AGAIN) {
        status = check_alone(transport);
    }
    return status == TUTTI_OK ? tutti_init_local(1, t, config) : status;
}

tutti_status tutti_init(tutti **t, const tutti_config *config)
{
    tutti_config *own = NULL;
    const tutti_config *used = config;
    tutti_status status;

    if (t == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_init: t is NULL");
    }
    /* Where it is wrong, the start says so, to all. */
    if (config == NULL && tutti_config_create(&own) == TUTTI_OK) {
        used = own;
    }
    status = init_world(
            t, used, used == NULL ? CONFIG_TRANSPORT_AUTO : used->values.transport);
    tutti_config_destroy(own);
    return status;
}

/* The MPI that tutti_init() would use. */
static tutti_status find_mpi(const struct mpi_plugin **plugin)
{
    tutti_config *config = NULL;
    tutti_status status = tutti_config_create(&config);
    const int transport =
            status == TUTTI_OK ? config->values.transport : CONFIG_TRANSPORT_AUTO;

    tutti_config_destroy(config);
    *plugin = NULL;
    return status == TUTTI_OK && transport != CONFIG_TRANSPORT_UCX
            ? plugin_load_mpi(transport == CONFIG_TRANSPORT_MPI, plugin)
            : status;
}

tutti_status tutti_init_ranks(
        tutti **t, const int *ranks, int n, const tutti_config *config)
{
    const struct mpi_plugin *plugin;
    tutti_status status;

    if (t == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_init_ranks: t is NULL");
    }
    status = find_mpi(&plugin);
    if (status != TUTTI_OK || plugin != NULL) {
        return status != TUTTI_OK ? status : plugin->init_ranks(t, ranks, n, config);
    }
    return error_set(TUTTI_ERR_MPI,
            "tutti_init_ranks: MPI is not running, and this process has none; use "
            "tutti_init(), and a process set of the ranks, or start the job with an "
            "MPI "
            "(tuttirun --transport mpi)");
}

tutti_status tutti_mpi_hold(void)
{
    const struct mpi_plugin *plugin;
    const tutti_status status = find_mpi(&plugin);

    return status != TUTTI_OK || plugin == NULL ? status : plugin->hold();
}

tutti_status tutti_mpi_release(void)
{
    const struct mpi_plugin *plugin;
    const tutti_status status = find_mpi(&plugin);

    return status != TUTTI_OK || plugin == NULL ? status : plugin->release();
}
