/*
 * tuttirun --check.
 */
#include "launcher/check/check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/check/agent.h"
#include "launcher/check/connect.h"
#include "launcher/check/crew.h"
#include "launcher/check/show.h"
#include "launcher/engine/prepare.h"
#include "launcher/job/job.h"
#include "launcher/launch.h"

static void announce(const struct crew *crew)
{
    const struct placement *placement = crew->plan->placement;

    (void)printf("checking %zu host%s (%s) with %s\n", crew->count,
            crew->count == 1 ? "" : "s",
            placement->source[0] == '\0' ? "this machine" : placement->source,
            crew->self);
    (void)fflush(stdout);
}

static int show(const struct crew *crew)
{
    const struct show_result result = {
        .hosts = (const struct seen *const *)crew->seen,
        .host_count = crew->count,
        .general = &crew->general,
        .pairs = crew->pairs,
        .pairs_well = crew->pairs_well,
        .pairs_ms = crew->pairs_ms,
    };
    const char *path = crew->plan->options->job.report;
    bool is_well = show_is_well(&result);

    show_text(stdout, &result);
    if (path != NULL && show_report(path, &result) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
        is_well = false;
    }
    return is_well ? 0 : JOB_EXIT_LAUNCHER;
}

static int run(const struct check_plan *plan, const char *own_name)
{
    struct crew crew;
    int result = JOB_EXIT_LAUNCHER;

    if (crew_init(&crew, plan, own_name) == TUTTI_OK) {
        announce(&crew);
        crew_gather(&crew);
        crew_probe(&crew);
        crew_pair(&crew);
        judge_hosts(crew.seen, crew.count, &crew.yardstick);
        result = show(&crew);
    } else {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    }
    crew_fini(&crew);
    return result;
}

int check_run(const struct options *options, char *const *environment)
{
    char own_name[HOST_NAME_LIMIT] = "";
    struct placement placement = { .ranks = 0 };
    struct detect_choice engine;
    const struct source_facts facts = {
        .options = options,
        .environment = environment,
        .root = "",
        .own_name = own_name,
    };
    struct check_plan plan = {
        .options = options,
        .placement = &placement,
        .environment = environment,
        .engine = engine.path,
    };
    int result = JOB_EXIT_LAUNCHER;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)gethostname(own_name, sizeof own_name - 1);
    if (source_resolve(&facts, &placement) != TUTTI_OK ||
            launch_check_hosts(&placement.hosts) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    } else {
        if (engine_find(options, &placement, environment, &engine) != TUTTI_OK) {
            (void)printf("the hosts are not asked for MPI: %s\n", tutti_last_error());
            engine.path[0] = '\0';
        }
        result = run(&plan, own_name);
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
