/*
 * The command lines of all starters, word by word.
 */
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "base/mem.h"
#include "launcher/command_line.h"
#include "launcher/starter/starter.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

static char *const no_variables[] = { NULL };
static const struct network_choice no_network = { .is_asked = false };

/* Facts of a user on a machine without Slurm. Hosts are those of the command line. */
static const struct starter_facts plain = {
    .path = "RUN",
    .self = "/opt/tuttirun",
    .network = &no_network,
    .environment = no_variables,
};

/* The flags that every remote start has, and supervision. */
#define OPENMPI_SSH \
    "--mca plm_rsh_args '-oBatchMode=yes -oConnectTimeout=10' " \
    "--mca plm_rsh_no_tree_spawn 1 "
#define OPENMPI_LIMITS(interval) \
    "--mca odls_base_sigkill_timeout 0 --mca oob_tcp_keepalive_time " interval \
    " --mca oob_tcp_keepalive_intvl " interval " --mca oob_tcp_keepalive_probes 3 "
/* Programs behind --exec, with and without binding by MPI. */
#define EXEC_NONE "/opt/tuttirun --exec --bind none -- "
#define EXEC_MPI "/opt/tuttirun --exec --bind mpi -- "
#define HYDRA_SSH "'HYDRA_LAUNCHER_EXTRA_ARGS=-oBatchMode=yes -oConnectTimeout=10' "

/* "VARIABLES WORDS" as one quoted line; freed with mem_free(). */
static char *line_of(const struct starter_command *command)
{
    struct arguments all = { .items = NULL };
    char *line;

    if (command->variables.count > 0) {
        arguments_add_all(&all, command->variables.items);
    }
    arguments_add_all(&all, command->words.items);
    line = arguments_quote(&all);
    arguments_fini(&all);
    return line;
}

/* Builds the command of a command line and compares it as one quoted line. */
static void expect_command(const struct starter *starter,
        const struct starter_facts *template, const char *const *argv,
        const char *expected)
{
    struct arguments words = { .items = NULL };
    struct starter_command command = { .words = { .items = NULL } };
    struct starter_facts facts = *template;
    struct options options;
    char *line;

    assert_int_equal(command_line_parse(&options, words_set(&words, argv)), TUTTI_OK);
    if (facts.hosts == NULL) {
        facts.hosts = &options.hosts;
    }
    facts.is_here = network_is_here(facts.hosts);
    assert_int_equal(starter_build(starter, &options, &facts, &command), TUTTI_OK);
    line = line_of(&command);
    assert_string_equal(line, expected);
    mem_free(line);
    starter_command_fini(&command);
    options_fini(&options);
    arguments_fini(&words);
}

#define ARGV(...) \
    ((const char *const[]){ "tuttirun", "--supervise", "off", __VA_ARGS__, NULL })

UNIT_TEST(test_openmpi_on_this_machine)
{
    expect_command(&starter_openmpi, &plain, ARGV("-np", "4", "./train", "a b"),
            "RUN --map-by slot:OVERSUBSCRIBE --bind-to none -np 4 "
            "/opt/tuttirun --exec -- ./train 'a b'");
    expect_command(&starter_openmpi, &plain, ARGV("-H", "localhost:2", "p"),
            "RUN --map-by slot -H localhost:2 --bind-to none -np 2 "
            "/opt/tuttirun --exec -- p");
    expect_command(&starter_prrte, &plain, ARGV("-np", "4", "p"),
            "RUN --map-by slot:OVERSUBSCRIBE --bind-to none -np 4 "
            "/opt/tuttirun --exec -- p");
}

UNIT_TEST(test_openmpi_on_hosts)
{
    expect_command(&starter_openmpi, &plain,
            ARGV("-H", "a:2,b:1,a:1", "-np", "3", "./train"),
            "RUN --map-by slot -H a:3,b:1 --bind-to none " OPENMPI_SSH
            "-x TUTTI_INTERNAL_SHELL -np 3 /opt/tuttirun --exec -- ./train");
    expect_command(&starter_prrte, &plain, ARGV("-H", "a:2,b:1", "p"),
            "RUN --map-by slot -H a:2,b:1 --bind-to none "
            "--prtemca plm_ssh_args '-oBatchMode=yes -oConnectTimeout=10' "
            "--prtemca plm_ssh_no_tree_spawn 1 -x TUTTI_INTERNAL_SHELL -np 3 "
            "/opt/tuttirun --exec -- p");
}

UNIT_TEST(test_openmpi_reaches_many_hosts_over_a_tree)
{
    static char hosts[65 * 8];
    struct host_list list = { .hosts = NULL };
    struct starter_facts facts = plain;
    size_t used = 0;

    for (int i = 0; i < 65; i++) {
        used += (size_t)snprintf(
                hosts + used, sizeof hosts - used, "%sn%d", i == 0 ? "" : ",", i);
    }
    assert_int_equal(host_list_parse(&list, hosts), TUTTI_OK);
    for (list.count = 64; list.count <= 65; list.count++) {
        struct starter_command command = { .words = { .items = NULL } };
        struct options options = { .np = 1, .program = no_variables };
        char *line;

        facts.hosts = &list;
        assert_int_equal(
                starter_build(&starter_openmpi, &options, &facts, &command), TUTTI_OK);
        line = line_of(&command);
        assert_int_equal(strstr(line, "no_tree_spawn") != NULL, list.count == 64);
        mem_free(line);
        starter_command_fini(&command);
    }
    list.count = 65;
    host_list_fini(&list);
}

UNIT_TEST(test_openmpi_is_told_that_root_may)
{
    struct starter_facts facts = plain;

    facts.is_root = true;
    expect_command(&starter_openmpi, &facts, ARGV("-np", "1", "--bind", "none", "p"),
            "RUN --allow-run-as-root --map-by slot:OVERSUBSCRIBE --bind-to none "
            "-np 1 " EXEC_NONE "p");
    expect_command(&starter_mpich, &facts, ARGV("-np", "1", "--bind", "none", "p"),
            "RUN -bind-to none -np 1 " EXEC_NONE "p");
}

UNIT_TEST(test_variables_are_handed_on)
{
    static const char *const variables[] = { "TUTTI_STRICT=1", "HOROVOD_X=2",
        "TUTTI_SPIN_US=9", "PATH=/bin", "TUTTIX=1", "TUTTI_INTERNAL_FAILURE_PAGE=3",
        NULL };
    struct arguments environment = { .items = NULL };
    struct starter_facts facts = plain;
    const char *const *const argv = ARGV("-np", "1", "--bind", "none", "--spin-us", "3",
            "-x", "A=b c=d", "-xB", "p");

    facts.environment = words_set(&environment, variables);
    expect_command(&starter_openmpi, &facts, argv,
            "RUN --map-by slot:OVERSUBSCRIBE --bind-to none -x TUTTI_SPIN_US=3 "
            "-x 'A=b c=d' -x B -x TUTTI_STRICT -x HOROVOD_X -np 1 " EXEC_NONE "p");
    expect_command(&starter_mpich, &facts, argv,
            "RUN -bind-to none -genv TUTTI_SPIN_US 3 -genv A 'b c=d' -np 1 " EXEC_NONE
            "p");
    expect_command(&starter_srun, &facts, argv,
            "TUTTI_SPIN_US=3 'A=b c=d' RUN --ntasks=1 --cpu-bind=none "
            "--kill-on-bad-exit=1 --export=ALL --input=0 " EXEC_NONE "p");
    arguments_fini(&environment);
}

UNIT_TEST(test_supervised_ranks_get_the_name_of_the_link)
{
    expect_command(&starter_openmpi, &plain,
            ARGV("--supervise", "on", "-H", "a:2", "p"),
            "RUN --map-by slot -H a:2 --bind-to none --mca plm_rsh_args "
            "'-oBatchMode=yes -oConnectTimeout=10 -oServerAliveInterval=21 "
            "-oServerAliveCountMax=3' --mca plm_rsh_no_tree_spawn 1 " OPENMPI_LIMITS(
                    "21") "-x TUTTI_INTERNAL_SHELL -x TUTTI_INTERNAL_JOIN -np 2 "
                          "/opt/tuttirun --exec -- p");
    expect_command(&starter_openmpi, &plain,
            ARGV("--supervise", "on", "-np", "2", "--bind", "none", "p"),
            "RUN --map-by slot:OVERSUBSCRIBE --bind-to none "
            "--mca odls_base_sigkill_timeout 0 -x TUTTI_INTERNAL_JOIN -np 2 "
            "/opt/tuttirun --exec --bind none -- p");
    expect_command(&starter_mpich, &plain, ARGV("--supervise", "on", "-np", "2", "p"),
            "RUN -bind-to none -np 2 /opt/tuttirun --exec -- p");
    expect_command(&starter_srun, &plain, ARGV("--supervise", "on", "-np", "2", "p"),
            "RUN --ntasks=2 --cpu-bind=none --kill-on-bad-exit=0 --export=ALL "
            "--input=0 /opt/tuttirun --exec -- p");
}

/* Starters read all words: they would obey these, or begin another program at the ':'. */
UNIT_TEST(test_words_of_the_program_are_hidden_from_starters)
{
    expect_command(&starter_openmpi, &plain,
            ARGV("-np", "1", "p", "a", ":", "--mca", "x", "-tune", "=", "=b", "::", ""),
            "RUN --map-by slot:OVERSUBSCRIBE --bind-to none -np 1 /opt/tuttirun --exec "
            "-- p a =: =--mca x =-tune == ==b :: ''");
}

/* A connection lives as long as tuttirun waits. */
UNIT_TEST(test_signs_of_life_follow_the_heartbeat)
{
    struct starter_facts facts = plain;

    facts.is_slurm = true;
    expect_command(&starter_openmpi, &facts,
            ARGV("--supervise", "on", "--heartbeat-timeout", "2.9", "-H", "a:1", "p"),
            "RUN --map-by slot -H a:1 --bind-to none " OPENMPI_LIMITS(
                    "1") "-x TUTTI_INTERNAL_SHELL -x TUTTI_INTERNAL_JOIN -np 1 "
                         "/opt/tuttirun --exec -- "
                         "p");
    expect_command(&starter_mpich, &plain,
            ARGV("--supervise", "on", "--heartbeat-timeout", "600", "-H", "a:1", "p"),
            "'HYDRA_LAUNCHER_EXTRA_ARGS=-oBatchMode=yes -oConnectTimeout=10 "
            "-oServerAliveInterval=201 -oServerAliveCountMax=3' RUN -hosts a:1 "
            "-bind-to none -np 1 /opt/tuttirun --exec -- p");
}

/* mpirun takes no parameter twice. */
UNIT_TEST(test_parameters_of_the_user_count)
{
    expect_command(&starter_openmpi, &plain,
            ARGV("-H", "a:1", "--mpi-args", "--mca plm_rsh_no_tree_spawn 0", "p"),
            "RUN --map-by slot -H a:1 --bind-to none --mca plm_rsh_args "
            "'-oBatchMode=yes -oConnectTimeout=10' -x TUTTI_INTERNAL_SHELL --mca "
            "plm_rsh_no_tree_spawn 0 -np 1 /opt/tuttirun --exec -- p");
}

UNIT_TEST(test_names_of_hosts_keep_their_domains)
{
    expect_command(&starter_openmpi, &plain, ARGV("-H", "a:1,b.c.d:1", "p"),
            "RUN --map-by slot -H a:1,b.c.d:1 --bind-to none " OPENMPI_SSH
            "--mca orte_keep_fqdn_hostnames 1 -x TUTTI_INTERNAL_SHELL -np 2 "
            "/opt/tuttirun --exec -- p");
    expect_command(&starter_prrte, &plain, ARGV("-H", "b.c.d:1", "p"),
            "RUN --map-by slot -H b.c.d:1 --bind-to none "
            "--prtemca plm_ssh_args '-oBatchMode=yes -oConnectTimeout=10' "
            "--prtemca plm_ssh_no_tree_spawn 1 --prtemca prte_keep_fqdn_hostnames 1 "
            "-x TUTTI_INTERNAL_SHELL -np 1 /opt/tuttirun --exec -- p");
}

/* The other starters hand on all of them. */
UNIT_TEST(test_python_and_locale_reach_other_hosts)
{
    static const char *const variables[] = { "PYTHONPATH=/a", "VIRTUAL_ENV=/b",
        "LC_ALL=C", "LANG=C", "LANGX=1", "SECRET=1", "TUTTI_INTERNAL_JOIN=1", NULL };
    struct arguments environment = { .items = NULL };
    struct starter_facts facts = plain;

    facts.environment = words_set(&environment, variables);
    expect_command(&starter_openmpi, &facts, ARGV("-H", "a:1", "-x", "LANG=D", "p"),
            "RUN --map-by slot -H a:1 --bind-to none " OPENMPI_SSH
            "-x LANG=D -x PYTHONPATH -x VIRTUAL_ENV -x LC_ALL -x TUTTI_INTERNAL_SHELL "
            "-np 1 /opt/tuttirun --exec -- p");
    arguments_fini(&environment);
}

UNIT_TEST(test_ssh_gets_its_flags)
{
    const char *const *const argv =
            ARGV("-H", "a:1,b:1", "-p", "2222", "-i", "/k", "--ssh-config", "/c",
                    "--ssh-args", "-o LogLevel=ERROR", "--bind", "none", "p");

    expect_command(&starter_openmpi, &plain, argv,
            "RUN --map-by slot -H a:1,b:1 --bind-to none --mca plm_rsh_args "
            "'-F /c -p 2222 -i /k -o LogLevel=ERROR -oBatchMode=yes "
            "-oConnectTimeout=10' --mca plm_rsh_no_tree_spawn 1 -x "
            "TUTTI_INTERNAL_SHELL -np 2 " EXEC_NONE "p");
    expect_command(&starter_mpich, &plain, argv,
            "'HYDRA_LAUNCHER_EXTRA_ARGS=-F /c -p 2222 -i /k -o LogLevel=ERROR "
            "-oBatchMode=yes -oConnectTimeout=10' RUN -hosts a:1,b:1 -bind-to none "
            "-np 2 " EXEC_NONE "p");
    expect_command(&starter_intel, &plain, argv,
            "'I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-F /c -p 2222 -i /k -o "
            "LogLevel=ERROR -oBatchMode=yes -oConnectTimeout=10' RUN -hosts a,b -ppn 1 "
            "-bind-to none -np 2 " EXEC_NONE "p");
}

UNIT_TEST(test_words_that_starters_would_split_are_refused)
{
    static const char *const lines[][6] = {
        { "tuttirun", "-np", "1", "-i", "/my keys/k", "p" },
        { "tuttirun", "-np", "1", "--ssh-args", "-o 'ProxyCommand=ssh jump'", "p" },
        { "tuttirun", "-np", "1", "--ssh-args", "-o ''", "p" },
    };
    static const char *const named[] = { "'/my keys/k'", "'ProxyCommand=ssh jump'",
        "''" };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct starter_command command = { .words = { .items = NULL } };
        const char *argv[7] = { NULL };
        struct arguments words = { .items = NULL };
        struct options options;

        memcpy(argv, lines[i], sizeof lines[i]);
        assert_int_equal(
                command_line_parse(&options, words_set(&words, argv)), TUTTI_OK);
        assert_int_equal(starter_build(&starter_mpich, &options, &plain, &command),
                TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), named[i]));
        starter_command_fini(&command);
        options_fini(&options);
        arguments_fini(&words);
    }
}

/* What stands in for ssh need not know its flags, unless they were asked for. */
UNIT_TEST(test_other_agents_get_no_flags_of_ssh)
{
    static const char *const variables[] = { "OMPI_MCA_plm_rsh_agent=/etc/kubexec",
        NULL };
    struct arguments environment = { .items = NULL };
    struct starter_facts facts = plain;

    facts.environment = words_set(&environment, variables);
    expect_command(&starter_openmpi, &facts, ARGV("-H", "a:1", "--bind", "none", "p"),
            "RUN --map-by slot -H a:1 --bind-to none --mca plm_rsh_no_tree_spawn 1 "
            "-x TUTTI_INTERNAL_SHELL -np 1 " EXEC_NONE "p");
    expect_command(&starter_openmpi, &facts,
            ARGV("-H", "a:1", "--bind", "none", "-p", "7", "p"),
            "RUN --map-by slot -H a:1 --bind-to none --mca plm_rsh_args '-p 7 "
            "-oBatchMode=yes -oConnectTimeout=10' --mca plm_rsh_no_tree_spawn 1 "
            "-x TUTTI_INTERNAL_SHELL -np 1 " EXEC_NONE "p");
    facts = plain;
    expect_command(&starter_openmpi, &facts,
            ARGV("-H", "a:1", "--bind", "none", "--mpi-args", "--mca plm_rsh_agent x",
                    "p"),
            "RUN --map-by slot -H a:1 --bind-to none --mca plm_rsh_no_tree_spawn 1 "
            "-x TUTTI_INTERNAL_SHELL --mca plm_rsh_agent x -np 1 " EXEC_NONE "p");
    /* A word with such a name in it is none. */
    expect_command(&starter_openmpi, &facts,
            ARGV("-H", "a:1", "--mpi-args", "--wdir /my_agent/launcher", "p"),
            "RUN --map-by slot -H a:1 --bind-to none " OPENMPI_SSH
            "-x TUTTI_INTERNAL_SHELL --wdir /my_agent/launcher -np 1 /opt/tuttirun "
            "--exec -- p");
    expect_command(&starter_mpich, &facts,
            ARGV("-H", "a:1", "--mpi-args", "--launcher rsh", "p"),
            "RUN -hosts a:1 -bind-to none --launcher rsh -np 1 /opt/tuttirun --exec -- "
            "p");
    facts.remote_agent = "/opt/agent";
    expect_command(&starter_openmpi, &facts, ARGV("-H", "a:1", "--bind", "none", "p"),
            "RUN --map-by slot -H a:1 --bind-to none --mca plm_rsh_agent /opt/agent "
            "--mca plm_rsh_no_tree_spawn 1 -x TUTTI_INTERNAL_SHELL -np 1 " EXEC_NONE
            "p");
    expect_command(&starter_mpich, &facts, ARGV("-H", "a:1", "--bind", "none", "p"),
            "RUN -hosts a:1 -bind-to none -launcher ssh -launcher-exec /opt/agent "
            "-np 1 " EXEC_NONE "p");
    expect_command(&starter_intel, &facts, ARGV("-H", "a:1", "--bind", "none", "p"),
            "RUN -hosts a -ppn 1 -bind-to none -bootstrap ssh -bootstrap-exec "
            "/opt/agent -np 1 " EXEC_NONE "p");
    arguments_fini(&environment);
}

UNIT_TEST(test_a_network_is_told)
{
    const struct network_choice asked = {
        .cidrs = "10.0.0.0/8,fd00::/64", .interface = "ens5", .is_asked = true
    };
    const struct network_choice routed = { .cidrs = "10.0.0.0/8", .interface = "ens5" };
    struct starter_facts facts = plain;

    facts.network = &asked;
    expect_command(&starter_openmpi, &facts, ARGV("-np", "1", "--bind", "none", "p"),
            "RUN --map-by slot:OVERSUBSCRIBE --bind-to none "
            "--mca oob_tcp_if_include 10.0.0.0/8,fd00::/64 "
            "--mca btl_tcp_if_include 10.0.0.0/8,fd00::/64 "
            "-x TUTTI_INTERNAL_NIC=10.0.0.0/8,fd00::/64 -np 1 " EXEC_NONE "p");
    expect_command(&starter_srun, &facts, ARGV("-np", "1", "--bind", "none", "p"),
            "TUTTI_INTERNAL_NIC=10.0.0.0/8,fd00::/64 "
            "OMPI_MCA_btl_tcp_if_include=10.0.0.0/8,fd00::/64 RUN --ntasks=1 "
            "--cpu-bind=none --kill-on-bad-exit=1 --export=ALL --input=0 " EXEC_NONE
            "p");
    facts.network = &routed;
    expect_command(&starter_prrte, &facts, ARGV("-np", "1", "--bind", "none", "p"),
            "RUN --map-by slot:OVERSUBSCRIBE --bind-to none "
            "--prtemca prte_if_include 10.0.0.0/8 "
            "--mca btl_tcp_if_include 10.0.0.0/8 -np 1 " EXEC_NONE "p");
    expect_command(&starter_mpich, &facts, ARGV("-np", "1", "--bind", "none", "p"),
            "RUN -bind-to none -iface ens5 -np 1 " EXEC_NONE "p");
}

UNIT_TEST(test_mpich_on_hosts)
{
    expect_command(&starter_mpich, &plain, ARGV("-H", "a:2,b", "p"),
            HYDRA_SSH "RUN -hosts a:2,b:1 -bind-to none -np 3 "
                      "/opt/tuttirun --exec -- p");
}

UNIT_TEST(test_intel_on_unequal_hosts_has_sections)
{
    struct starter_facts facts = plain;

    facts.remote_agent = "A";
    expect_command(&starter_intel, &facts,
            ARGV("-H", "a:2,b:1,c:4", "-np", "3", "p", "x"),
            "RUN -bind-to none -bootstrap ssh -bootstrap-exec A -np 2 -host a "
            "/opt/tuttirun --exec -- p x : -np 1 -host b /opt/tuttirun --exec -- p x");
}

UNIT_TEST(test_srun_in_an_allocation)
{
    struct starter_facts facts = plain;

    facts.is_slurm = true;
    facts.ranks = STARTER_OPENMPI;
    expect_command(&starter_srun, &facts, ARGV("-H", "a:2,b:2", "--bind", "none", "p"),
            "RUN --ntasks=4 --nodes=2 --nodelist=a,b --ntasks-per-node=2 "
            "--distribution=block --mpi=pmix --cpu-bind=none --kill-on-bad-exit=1 "
            "--export=ALL --input=0 " EXEC_NONE "p");
    facts.ranks = STARTER_MPICH;
    facts.is_step = true;
    expect_command(&starter_srun, &facts,
            ARGV("-H", "a:2,b:2,c:2", "-np", "3", "--bind", "mpi", "--mpi-args",
                    "--mem=1G", "p"),
            "RUN --ntasks=3 --nodes=2 --nodelist=a,a,b --distribution=arbitrary "
            "--mpi=pmi2 --kill-on-bad-exit=1 --export=ALL --input=0 --overlap "
            "--mem=1G " EXEC_MPI "p");
    expect_command(&starter_srun, &facts,
            ARGV("-H", "a:2,b:2,c:2", "-np", "2", "--bind", "mpi", "p"),
            "RUN --ntasks=2 --nodes=1 --nodelist=a --ntasks-per-node=2 "
            "--distribution=block --mpi=pmi2 --kill-on-bad-exit=1 --export=ALL "
            "--input=0 --overlap " EXEC_MPI "p");
}

UNIT_TEST(test_openmpi_in_an_allocation_needs_no_ssh)
{
    struct starter_facts facts = plain;

    facts.is_slurm = true;
    expect_command(&starter_openmpi, &facts,
            ARGV("-H", "a:2,b:2", "--bind", "none", "p"),
            "RUN --map-by slot -H a:2,b:2 --bind-to none -x TUTTI_INTERNAL_SHELL -np "
            "4 " EXEC_NONE "p");
}

UNIT_TEST(test_ranks_fill_slots_in_order)
{
    static const struct {
        const char *hosts;
        int ranks;
        int counts[3];
    } rows[] = {
        { "a:2,b:2,c:2", 6, { 2, 2, 2 } },
        { "a:2,b:2,c:2", 3, { 2, 1, 0 } },
        { "a:1,b:4,c:1", 6, { 1, 4, 1 } },
        { "a:1,b:2,c:1", 9, { 3, 4, 2 } },
        { "a:1,b:1,c:1", 0, { 0, 0, 0 } },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct host_list hosts = { .hosts = NULL };
        int counts[3];

        assert_int_equal(host_list_parse(&hosts, rows[i].hosts), TUTTI_OK);
        starter_spread(&hosts, rows[i].ranks, counts);
        assert_memory_equal(counts, rows[i].counts, sizeof counts);
        host_list_fini(&hosts);
    }
}

UNIT_TEST(test_binding_can_be_left_to_mpirun)
{
    expect_command(&starter_openmpi, &plain,
            ARGV("-np", "2", "--bind", "mpi", "--mpi-args", "--bind-to core", "p"),
            "RUN --map-by slot:OVERSUBSCRIBE --bind-to core -np 2 " EXEC_MPI "p");
    expect_command(&starter_mpich, &plain,
            ARGV("-np", "2", "--bind", "mpi", "--mpi-args", "-bind-to core", "p"),
            "RUN -bind-to core -np 2 " EXEC_MPI "p");
}

UNIT_TEST(test_verbose_reaches_the_supervisor)
{
    expect_command(&starter_mpich, &plain, ARGV("-np", "2", "-v", "p"),
            "RUN -bind-to none -np 2 /opt/tuttirun --exec --verbose -- p");
}

static void expect_every_failure_reported(const struct starter *starter)
{
    struct starter_facts facts = plain;
    struct arguments words = { .items = NULL };
    struct options options;
    uint64_t n = 0;
    tutti_status status;

    (void)words_set(
            &words, ARGV("-H", "a:2,b:1", "-x", "A=1", "--supervise", "on", "p"));
    assert_int_equal(command_line_parse(&options, words.items), TUTTI_OK);
    facts.hosts = &options.hosts;
    facts.is_slurm = starter == &starter_srun;
    do {
        struct starter_command command = { .words = { .items = NULL } };

        mem_fail_at(++n);
        status = starter_build(starter, &options, &facts, &command);
        mem_fail_at(0);
        starter_command_fini(&command);
        assert_true(status == TUTTI_OK || status == TUTTI_ERR_NO_MEMORY);
    } while (status != TUTTI_OK);
    assert_true(n > 10);
    options_fini(&options);
    arguments_fini(&words);
}

UNIT_TEST(test_every_failing_allocation_is_reported)
{
    expect_every_failure_reported(&starter_openmpi);
    expect_every_failure_reported(&starter_mpich);
    expect_every_failure_reported(&starter_intel);
    expect_every_failure_reported(&starter_srun);
}

static void expect_environment(bool is_remote, const char *expected)
{
    static const char *const ours[] = { "CUDA_VISIBLE_DEVICES=2,3", "A=1",
        "CUDA_VISIBLE_DEVICES_X=1", "ROCR_VISIBLE_DEVICES=0", NULL };
    struct arguments environment = { .items = NULL };
    struct arguments made = { .items = NULL };
    struct starter_command command = { .is_remote = is_remote };
    char *line;

    starter_environment(&command, words_set(&environment, ours), &made);
    line = arguments_quote(&made);
    assert_string_equal(line, expected);
    mem_free(line);
    arguments_fini(&environment);
    arguments_fini(&made);
}

UNIT_TEST(test_gpus_of_this_host_are_not_those_of_others)
{
    expect_environment(true, "A=1 CUDA_VISIBLE_DEVICES_X=1");
    expect_environment(false,
            "CUDA_VISIBLE_DEVICES=2,3 A=1 CUDA_VISIBLE_DEVICES_X=1 "
            "ROCR_VISIBLE_DEVICES=0");
}

UNIT_TEST(test_supervisors_are_told_how_to_bind)
{
    expect_command(&starter_srun, &plain,
            ARGV("-np", "1", "--bind", "none", "--gpus-visible", "one", "p"),
            "RUN --ntasks=1 --cpu-bind=none --kill-on-bad-exit=1 --export=ALL "
            "--input=0 "
            "/opt/tuttirun --exec --bind none --gpus-visible one -- p");
}

UNIT_TEST(test_variables_replace_ours)
{
    static const char *const ours[] = { "PATH=/bin", "A=1", NULL };
    struct arguments environment = { .items = NULL };
    struct arguments made = { .items = NULL };
    struct starter_command command = { .words = { .items = NULL } };

    arguments_add(&command.variables, "A=2=3");
    arguments_add(&command.variables, "B=");
    starter_environment(&command, words_set(&environment, ours), &made);
    assert_int_equal(made.count, 3);
    assert_string_equal(made.items[0], "PATH=/bin");
    assert_string_equal(made.items[1], "A=2=3");
    assert_string_equal(made.items[2], "B=");
    starter_command_fini(&command);
    arguments_fini(&environment);
    arguments_fini(&made);
}
