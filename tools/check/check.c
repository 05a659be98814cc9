/*
 * tuttirun --check.
 */
#include "tools/check/check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/exit_status.h"
#include "launcher/mpi_launcher/prepare.h"
#include "tools/check/check_agent.h"
#include "tools/check/check_connect.h"
#include "tools/check/check_hosts.h"
#include "tools/check/check_show.h"

static void announce(const struct check_hosts *checked)
{
    const struct placement *placement = checked->plan->placement;

    (void)printf("checking %zu host%s (%s) with %s\n", checked->count,
            checked->count == 1 ? "" : "s",
            placement->source[0] == '\0' ? "this machine" : placement->source,
            checked->self);
    (void)fflush(stdout);
}

static int show(const struct check_hosts *checked)
{
    const struct show_result result = {
        .hosts = (const struct seen *const *)checked->seen,
        .host_count = checked->count,
        .general = &checked->general,
        .pairs = checked->pairs,
        .pairs_well = checked->pairs_well,
        .pairs_ms = checked->pairs_ms,
    };
    const char *path = checked->plan->options->report;
    bool is_well = show_is_well(&result);

    show_text(stdout, &result);
    if (path != NULL && show_report(path, &result) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
        is_well = false;
    }
    return is_well ? 0 : EXIT_LAUNCHER;
}

static int run(const struct check_plan *plan)
{
    struct check_hosts checked;
    int result = EXIT_LAUNCHER;

    if (check_hosts_init(&checked, plan) == TUTTI_OK) {
        announce(&checked);
        check_hosts_gather(&checked);
        check_hosts_probe(&checked);
        check_hosts_pair(&checked);
        host_findings_hosts(checked.seen, checked.count, &checked.yardstick);
        result = show(&checked);
    } else {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    }
    check_hosts_fini(&checked);
    return result;
}

int check_run(const struct options *options, char *const *environment)
{
    struct placement placement = { .ranks = 0 };
    struct detect_choice launcher;
    const struct source_facts facts = {
        .options = options,
        .environment = environment,
        .root = "",
    };
    struct check_plan plan = {
        .options = options,
        .placement = &placement,
        .environment = environment,
        .launcher = launcher.path,
    };
    const struct linked unknown = { .kind = MPI_KIND_AUTO };
    int result = EXIT_LAUNCHER;

    (void)signal(SIGPIPE, SIG_IGN);
    if (source_resolve(&facts, &placement) != TUTTI_OK ||
            launch_check_hosts(&placement.hosts) != TUTTI_OK ||
            launch_check_ssh(options) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    } else {
        if (launch_find(options, &placement, environment, &unknown, &launcher) !=
                TUTTI_OK) {
            (void)printf("the hosts are not asked for MPI: %s\n", tutti_last_error());
            launcher.path[0] = '\0';
        }
        result = run(&plan);
    }
    placement_fini(&placement);
    return result;
}

bool check_part(char *const *argv, char *const *environment, int *status)
{
    const char *name = argv[0] == NULL || argv[1] == NULL ? "" : argv[1];

    if (strcmp(name, "--check-host") == 0) {
        *status = agent_main(argv + 2, environment);
    } else if (strcmp(name, "--check-connect") == 0) {
        *status = connect_main(argv + 2);
    } else if (strcmp(name, "--check-listen") == 0) {
        *status = connect_listen_main(argv + 2);
    } else {
        return false;
    }
    return true;
}
