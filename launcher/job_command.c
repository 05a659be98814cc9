/*
 * From options to a command that can be run.
 */
#include "launcher/job_command.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "launcher/environment.h"
#include "launcher/program.h"
#include "launcher/starter/job_network.h"
#include "launcher/starter/prepare.h"

/* Values that every rank would refuse are refused once. */
static tutti_status check_environment(void)
{
    struct config config;
    char warnings[ERROR_TEXT_MAX] = "";
    tutti_status status = config_init(&config);

    if (status != TUTTI_OK) {
        return status;
    }
    status = config_from_environment(&config, warnings, sizeof warnings);
    config_fini(&config);
    return status;
}

tutti_status launch_check_hosts(const struct host_list *hosts)
{
    for (size_t i = 0; i < hosts->count; i++) {
        if (strchr(hosts->hosts[i].name, ':') != NULL) {
            return error_set(TUTTI_ERR_INVALID,
                    "host [%s]: no engine takes an IPv6 address; give the host a name "
                    "in DNS or /etc/hosts",
                    hosts->hosts[i].name);
        }
    }
    return TUTTI_OK;
}

static tutti_status check_program(const struct options *options,
        const struct placement *placement, char *const *environment)
{
    char file[PATH_MAX];
    tutti_status status = program_find(options->program[0],
            environment_get(environment, "PATH"), file, sizeof file);

    if (status == TUTTI_OK || network_is_here(&placement->hosts)) {
        return status;
    }
    (void)fprintf(stderr,
            "tuttirun: on this host, which may not be one of the job: %s\n",
            tutti_last_error());
    return TUTTI_OK;
}

tutti_status launch_prepare(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct starter_command *command)
{
    tutti_status status = check_environment();

    if (status == TUTTI_OK) {
        status = launch_check_hosts(&placement->hosts);
    }
    if (status == TUTTI_OK) {
        status = check_program(options, placement, environment);
    }
    return status == TUTTI_OK
            ? starter_prepare(options, placement, environment, command)
            : status;
}
