/*
 * What is said about hosts, and the commands that go with it.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "test/unit/unit.h"
#include "tools/check/host_findings.h"
#include "tools/check/probe.h"

static const struct options options = { .np = 0 };

static const struct facts good = {
    .release = "1.0.0",
    .binary = "aa",
    .host = "here",
    .machine = "boot here",
    .launcher = "Open MPI 4.1.4",
    .seen_as = "10.0.0.1",
    .shm_bytes = UINT64_C(1) << 30,
    .shm_free = UINT64_C(1) << 30,
    .port = 4000,
    .ptrace_scope = -1,
};

static const struct findings_yardstick yardstick = {
    .way = { .options = &options },
    .self = "/opt/tuttirun",
    .launcher = "/usr/bin/mpirun",
    .here = &good,
};

#define SSH_B "ssh -o BatchMode=yes -o ConnectTimeout=10 b "

static struct seen host_b(void)
{
    struct seen seen = {
        .name = "b",
        .slots = 2,
        .has_facts = true,
        .facts = good,
        .probe_status = -1,
        .address = "10.0.0.2",
    };

    (void)snprintf(seen.facts.machine, sizeof seen.facts.machine, "boot b");
    return seen;
}

static struct seen silent_b(int status, const char *words)
{
    struct seen seen = { .name = "b", .slots = 1, .probe_status = -1 };

    seen.status = status;
    (void)snprintf(seen.last_words, sizeof seen.last_words, "%s", words);
    return seen;
}

/* One finding of a level, whose text and command hold these. */
static void expect(struct seen *seen, enum finding_level level, const char *text,
        const char *command)
{
    struct seen *const list[] = { seen };
    const struct finding *finding;

    host_findings_hosts(list, 1, &yardstick);
    assert_int_equal(seen->findings.count, 1);
    finding = &seen->findings.items[0];
    assert_int_equal(finding->level, level);
    assert_int_equal(seen->findings.errors, level == FINDING_ERROR ? 1 : 0);
    if (strstr(finding->text, text) == NULL) {
        fail_msg("no '%s' in: %s", text, finding->text);
    }
    assert_string_equal(finding->command, command);
    findings_fini(&seen->findings);
}

UNIT_TEST(test_nothing_is_said_of_a_good_host)
{
    struct seen seen = host_b();
    struct seen *const list[] = { &seen };

    seen.has_clock = true;
    seen.offset_s = -0.9;
    host_findings_hosts(list, 1, &yardstick);
    assert_int_equal(seen.findings.count, 0);
    assert_false(seen.findings.failed);
}

UNIT_TEST(test_hosts_that_do_not_answer)
{
    struct seen seen = silent_b(127, "sh: /opt/tuttirun: not found");

    expect(&seen, FINDING_ERROR, "is not there; it must be on all hosts: sh:",
            SSH_B "'ls -l /opt/tuttirun'");
    seen = silent_b(126, "");
    expect(&seen, FINDING_ERROR, "no program that can be run there",
            SSH_B "'ls -l /opt/tuttirun'");
    seen = silent_b(125, "tuttirun: unknown option --check-host");
    expect(&seen, FINDING_ERROR, "with status 125: tuttirun: unknown option",
            SSH_B "'/opt/tuttirun --version'");
    seen = silent_b(0, "");
    seen.is_late = true;
    expect(&seen, FINDING_ERROR, "ssh gave no answer in time", SSH_B "true");
    /* 255 of an agent here is not ssh's. */
    seen = silent_b(255, "");
    seen.is_here = true;
    expect(&seen, FINDING_ERROR, "status 255", "/opt/tuttirun --version");
}

UNIT_TEST(test_other_programs)
{
    struct seen seen = host_b();

    (void)snprintf(seen.facts.release, sizeof seen.facts.release, "0.9.0");
    (void)snprintf(seen.facts.binary, sizeof seen.facts.binary, "bb");
    expect(&seen, FINDING_ERROR, "version 0.9.0, ours 1.0.0",
            SSH_B "'/opt/tuttirun --version'");
    seen = host_b();
    (void)snprintf(seen.facts.binary, sizeof seen.facts.binary, "bb");
    expect(&seen, FINDING_ERROR, "another build", SSH_B "'sha256sum /opt/tuttirun'");
    seen = host_b();
    (void)snprintf(seen.facts.launcher, sizeof seen.facts.launcher, "Open MPI 4.1.5");
    expect(&seen, FINDING_WARNING, "its MPI is Open MPI 4.1.5, ours Open MPI 4.1.4",
            SSH_B "'/usr/bin/mpirun --version'");
    seen = host_b();
    seen.facts.launcher[0] = '\0';
    (void)snprintf(seen.facts.launcher_trouble, sizeof seen.facts.launcher_trouble,
            "/usr/bin/mpirun: No such file or directory");
    expect(&seen, FINDING_ERROR, "no MPI there: /usr/bin/mpirun: No such file",
            SSH_B "'/usr/bin/mpirun --version'");
}

UNIT_TEST(test_reading_the_memory_of_others)
{
    struct seen seen = host_b();

    seen.facts.cma_errno = EPERM;
    seen.facts.ptrace_scope = 1;
    expect(&seen, FINDING_WARNING, "(ptrace_scope is 1)",
            SSH_B "'cat /proc/sys/kernel/yama/ptrace_scope'");
    seen.facts.ptrace_scope = 0;
    expect(&seen, FINDING_WARNING, "--cap-add SYS_PTRACE",
            SSH_B "'grep Cap /proc/self/status'");
}

UNIT_TEST(test_clocks_and_shells)
{
    struct seen seen = host_b();

    seen.has_clock = true;
    seen.offset_s = 3.5;
    seen.round_trip_s = 0.01;
    expect(&seen, FINDING_WARNING, "3.5 s ahead of ours", SSH_B "'date +%s.%N'");
    seen.offset_s = -3.5;
    expect(&seen, FINDING_WARNING, "3.5 s behind ours", SSH_B "'date +%s.%N'");
    seen.round_trip_s = 4; /* so slow a link proves nothing */
    seen.noise_lines = 2;
    (void)snprintf(seen.noise, sizeof seen.noise, "Welcome!");
    expect(&seen, FINDING_WARNING, "(2 lines, first: Welcome!)", SSH_B "true");
}

UNIT_TEST(test_hosts_are_compared_with_each_other)
{
    struct seen a = host_b();
    struct seen b = host_b();
    struct seen c = silent_b(1, "");
    struct seen *const list[] = { &c, &a, &b };

    a.name = "a";
    a.facts.gpus = 8;
    b.facts.gpus_unusable = 8;
    host_findings_hosts(list, 3, &yardstick);
    assert_int_equal(a.findings.count, 0);
    assert_int_equal(b.findings.count, 2);
    assert_non_null(strstr(b.findings.items[0].text, "docker run --gpus all"));
    assert_string_equal(b.findings.items[1].text, "it is the same host as a");
    findings_fini(&b.findings);
    (void)snprintf(b.facts.machine, sizeof b.facts.machine, "other");
    b.facts.gpus = 4;
    host_findings_hosts(list, 3, &yardstick);
    assert_int_equal(b.findings.count, 1);
    assert_string_equal(b.findings.items[0].text, "it has 4 GPUs, a 8");
    findings_fini(&b.findings);
    findings_fini(&c.findings);
}

UNIT_TEST(test_ways_to_a_host)
{
    static const char *const words[] = { "ls", "a b", NULL };
    struct options asked = { .np = 0 };
    struct ssh_way way = { .options = &asked };
    char *line;

    asked.ssh_port = 2222;
    asked.ssh_identity_file = "/k ey";
    asked.ssh_config = "cfg";
    arguments_add(&asked.ssh_args, "-4");
    line = ssh_line(&way, "b", false, words);
    assert_string_equal(line,
            "ssh -o BatchMode=yes -o ConnectTimeout=10 -F cfg -p 2222 -i '/k ey' -4 b "
            "'ls '\\''a b'\\'''");
    mem_free(line);
    line = ssh_line(&way, "b", true, words);
    assert_string_equal(line, "ls 'a b'");
    mem_free(line);
    way.is_slurm = true;
    line = ssh_line(&way, "b", false, words);
    assert_string_equal(
            line, "srun -N1 -n1 --overlap --mpi=none --quiet -w b ls 'a b'");
    mem_free(line);
    arguments_fini(&asked.ssh_args);
}

UNIT_TEST(test_what_starters_use_for_ssh)
{
    char *const variables[] = { (char[]){ "HYDRA_LAUNCHER_EXEC=/h" },
        (char[]){ "OMPI_MCA_plm_rsh_agent=/o/ssh -v" }, NULL };
    static const char *const words[] = { "true", NULL };
    struct options asked = { .np = 0 };
    struct ssh_way way = { .options = &asked };
    char *line;

    assert_null(ssh_agent(&asked, variables + 2));
    assert_string_equal(ssh_agent(&asked, variables), "/o/ssh -v");
    way.agent = ssh_agent(&asked, variables);
    line = ssh_line(&way, "b", false, words);
    assert_string_equal(line, "/o/ssh -v -o BatchMode=yes -o ConnectTimeout=10 b true");
    mem_free(line);
    way.agent = "/etc/mpi/kubexec.sh";
    line = ssh_line(&way, "b", false, words);
    assert_string_equal(line, "/etc/mpi/kubexec.sh b true");
    mem_free(line);
    way.agent = "'";
    line = ssh_line(&way, "b", false, words);
    assert_string_equal(line, SSH_B "true");
    mem_free(line);
    asked.ssh_port = 22;
    assert_null(ssh_agent(&asked, variables));
}

UNIT_TEST(test_configuration_of_ssh)
{
    struct seen seen = { .name = "b" };

    assert_true(probe_take_line(&seen, "hostname b.example"));
    assert_true(probe_take_line(&seen, "hostnames x"));
    assert_true(probe_take_line(&seen, "port 2222"));
    assert_true(probe_take_line(&seen, "proxycommand none"));
    assert_false(probe_take_line(&seen, "proxyjump gate"));
    assert_false(probe_take_line(&seen, "proxycommand nc %h %p"));
    assert_string_equal(seen.probe_host, "b.example");
    assert_string_equal(seen.probe_port, "2222");
}

UNIT_TEST(test_every_failing_allocation_is_noticed)
{
    uint64_t n = 0;
    bool failed;

    do {
        struct seen seen = host_b();
        struct seen *const list[] = { &seen };

        seen.facts.shm_bytes = 0;
        seen.facts.cma_errno = EPERM;
        mem_fail_at(++n);
        host_findings_hosts(list, 1, &yardstick);
        mem_fail_at(0);
        assert_int_equal(seen.findings.errors, 1); /* also when it cannot be shown */
        failed = seen.findings.failed;
        assert_int_equal(seen.findings.count, failed ? 1 : 2);
        findings_fini(&seen.findings);
    } while (failed);
    assert_true(n > 8);
}
