/*
 * Which starter is chosen, among programs that the test puts into a folder, and its command line,
 * word by word.
 */
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/mpi_launcher/detect.h"
#include "launcher/mpi_launcher/mpi_collectives.h"
#include "launcher/options.h"
#include "test/unit/launcher/cases.h"
#include "test/unit/launcher/root.h"

static const struct {
    const char *name;
    enum mpi_kind kind;
    const struct mpi_launcher *launcher;
} launchers[] = {
    { "none", MPI_KIND_AUTO, NULL },
    { "openmpi", MPI_KIND_OPENMPI, &launcher_openmpi },
    { "prrte", MPI_KIND_OPENMPI, &launcher_prrte },
    { "mpich", MPI_KIND_MPICH, &launcher_mpich },
    { "intel", MPI_KIND_INTEL, &launcher_intel },
    { "srun", MPI_KIND_SRUN, &launcher_srun },
    { "own", MPI_KIND_LOCAL, &launcher_own },
};

enum {
    LAUNCHERS = sizeof launchers / sizeof launchers[0]
};

static size_t index_of(const char *name)
{
    size_t i = 0;

    while (i < LAUNCHERS && strcmp(launchers[i].name, name) != 0) {
        i++;
    }
    assert_true(i < LAUNCHERS);
    return i;
}

static const char *name_of(const struct mpi_launcher *launcher)
{
    size_t i = 0;

    while (i < LAUNCHERS && launchers[i].launcher != launcher) {
        i++;
    }
    assert_true(i < LAUNCHERS);
    return launchers[i].name;
}

/* What stands behind a '=', if a fact has this name; else NULL. */
static const char *value_of(const char *fact, const char *name)
{
    size_t len = strlen(name);

    return strncmp(fact, name, len) == 0 && fact[len] == '=' ? fact + len + 1 : NULL;
}

/* A command and what it is made of. */
struct made {
    struct arguments words, environment;
    struct options options;
    struct launch_facts facts;
    struct launch_command command;
    struct share share;
};

static const struct network_choice no_network = { .is_asked = false };
static const struct network_choice asked = {
    .cidrs = "10.0.0.0/8,fd00::/64", .interface = "ens5", .is_asked = true
};
static const struct network_choice routed = { .cidrs = "10.0.0.0/8",
    .interface = "ens5" };

static void read_fact(struct made *made, const char *fact)
{
    struct launch_facts *facts = &made->facts;

    facts->is_root |= strcmp(fact, "root") == 0;
    facts->is_slurm |= strcmp(fact, "slurm") == 0;
    facts->is_step |= strcmp(fact, "step") == 0;
    facts->network = strcmp(fact, "asked") == 0 ? &asked
            : strcmp(fact, "routed") == 0       ? &routed
                                                : facts->network;
    if (value_of(fact, "ranks") != NULL) {
        facts->ranks = launchers[index_of(value_of(fact, "ranks"))].kind;
    }
    if (value_of(fact, "share") != NULL) { /* two digits: first and count */
        made->share = (struct share){ .is_set = true,
            .first = value_of(fact, "share")[0] - '0',
            .count = value_of(fact, "share")[1] - '0' };
    }
}

/* Facts of a user on a machine without Slurm, with those of a case, and its command line. */
static void make(struct made *made, const char *facts, const char *environment,
        const char *flags)
{
    static char *const none[] = { NULL };
    char *const *words;

    *made = (struct made){ .words = { .items = NULL } };
    made->facts = (struct launch_facts){ .path = "RUN",
        .self = "/opt/tuttirun",
        .network = &no_network,
        .share = &made->share,
        .environment = none };
    for (words = cases_words(facts); *words != NULL; words++) {
        read_fact(made, *words);
    }
    words = cases_words(environment);
    if (*words != NULL) {
        arguments_add_all(&made->environment, words);
        made->facts.environment = made->environment.items;
    }
    arguments_add_all(&made->words,
            (char *const[]){
                    (char[]){ "tuttirun" }, (char[]){ "--supervise=off" }, NULL });
    arguments_add_all(&made->words, cases_words(flags));
    assert_int_equal(command_line_parse(&made->options, made->words.items), TUTTI_OK);
    made->facts.hosts = &made->options.hosts;
    made->facts.is_here = network_is_here(made->facts.hosts);
}

static void unmake(struct made *made)
{
    launch_command_fini(&made->command);
    options_fini(&made->options);
    arguments_fini(&made->words);
    arguments_fini(&made->environment);
}

/* One quoted line. */
static void show(const struct arguments *words, char *out)
{
    char *line = arguments_quote(words);

    (void)snprintf(out, CASES_OUT, "%s", line);
    mem_free(line);
}

UNIT_CASES(test_commands, "commands")
{
    struct arguments all = { .items = NULL };
    char *fields[CASES_FIELDS];
    struct made made;
    size_t name;

    assert_int_equal(cases_fields(in, fields), 3);
    name = strcspn(fields[0], " ");
    make(&made, fields[0] + name, fields[1], fields[2]);
    fields[0][name] = '\0';
    assert_int_equal(launch_build(launchers[index_of(fields[0])].launcher,
                             &made.options, &made.facts, &made.command),
            TUTTI_OK);
    if (made.command.variables.count > 0) {
        arguments_add_all(&all, made.command.variables.items);
    }
    arguments_add_all(&all, made.command.words.items);
    show(&all, out);
    arguments_fini(&all);
    unmake(&made);
}

UNIT_CASES(test_words_that_starters_would_split_are_refused,
        "words that starters would split")
{
    char flags[128];
    struct made made;

    (void)snprintf(flags, sizeof flags, "-np 1 %s p", in);
    make(&made, "", "", flags);
    assert_int_equal(
            launch_build(&launcher_mpich, &made.options, &made.facts, &made.command),
            TUTTI_ERR_INVALID);
    cases_refused(out);
    unmake(&made);
}

UNIT_CASES(test_ranks_fill_slots_in_order, "spread")
{
    struct host_list hosts = { .hosts = NULL };
    char *fields[CASES_FIELDS];
    int counts[3];

    assert_int_equal(cases_fields(in, fields), 2);
    assert_int_equal(host_list_parse(&hosts, fields[0]), TUTTI_OK);
    launch_spread(&hosts, (int)strtol(fields[1], NULL, 10), counts);
    (void)sprintf(out, "%d %d %d", counts[0], counts[1], counts[2]);
    host_list_fini(&hosts);
}

UNIT_CASES(test_environments, "environment")
{
    struct arguments ours = { .items = NULL };
    struct arguments made = { .items = NULL };
    struct launch_command command = { .words = { .items = NULL } };
    char *fields[CASES_FIELDS];

    (void)cases_fields(in, fields);
    command.is_remote = strcmp(fields[0], "remote") == 0;
    arguments_add_all(&ours, cases_words(fields[1]));
    if (fields[2] != NULL) {
        arguments_add_all(&command.variables, cases_words(fields[2]));
    }
    launch_environment(&command, ours.items, &made);
    show(&made, out);
    launch_command_fini(&command);
    arguments_fini(&ours);
    arguments_fini(&made);
}

UNIT_CASES(test_versions_tell_the_starter, "versions")
{
    (void)strcpy(out, name_of(detect_by_version(in)));
}

UNIT_CASES(test_names_tell_the_starter, "names")
{
    (void)strcpy(out, name_of(detect_by_name(in)));
}

/* What is asked, and the folder that is PATH. */
struct question {
    struct root root;
    struct arguments environment;
    struct options options;
    struct detect_facts facts;
    char mpirun[64];
};

/* A program that prints a version. */
static void install(const struct root *root, const char *name, const char *version)
{
    char text[256];
    char path[64];

    (void)snprintf(path, sizeof path, "/%s", name);
    (void)snprintf(text, sizeof text,
            "#!/bin/sh\n[ \"$1\" = --version ] || exit 1\necho '%s'\n", version);
    root_write(root, path, text, 0755);
}

static void ask(struct question *question, char *word)
{
    static const char *const kinds[] = { "engine", "built", "program" };
    char *version = strchr(word, '@');

    question->facts.is_slurm |= strcmp(word, "slurm") == 0;
    question->facts.needs_no_mpi |= strcmp(word, "alone") == 0;
    question->options.supervise = true;
    if (version != NULL) {
        *version = '\0';
        install(&question->root, word, version + 1);
    } else if (value_of(word, "mpirun") != NULL) {
        (void)snprintf(question->mpirun, sizeof question->mpirun, "%s/%s",
                question->root.path, value_of(word, "mpirun"));
        question->options.mpirun = question->mpirun;
    } else if (strchr("IST", word[0]) != NULL) {
        arguments_add(&question->environment, word);
    }
    for (int i = 0; i < 3; i++) {
        const char *value = value_of(word, kinds[i]);
        enum mpi_kind kind =
                value == NULL ? MPI_KIND_AUTO : launchers[index_of(value)].kind;

        question->options.engine =
                i == 0 && value != NULL ? (int)kind : question->options.engine;
        question->facts.built = i == 1 && value != NULL ? kind : question->facts.built;
        question->facts.program =
                i == 2 && value != NULL ? kind : question->facts.program;
    }
}

UNIT_CASES(test_detection, "detect")
{
    struct question question = { .options = { .np = 1 } };
    struct detect_choice choice = { .launcher = NULL };

    root_make(&question.root);
    question.facts = (struct detect_facts){ .options = &question.options,
        .built_mpirun = "/nowhere/mpirun" };
    arguments_add_format(&question.environment, "PATH=%s", question.root.path);
    for (char *const *words = cases_words(in); *words != NULL; words++) {
        ask(&question, *words);
    }
    question.facts.environment = question.environment.items;
    if (detect_launcher(&question.facts, &choice) == TUTTI_OK) {
        (void)snprintf(out, CASES_OUT, "%s %s, %s, for %s", name_of(choice.launcher),
                strrchr(choice.path, '/') + 1, choice.how,
                launchers[choice.ranks].name);
    } else {
        assert_null(choice.launcher);
        cases_refused(out);
    }
    arguments_fini(&question.environment);
    root_remove(&question.root);
}

UNIT_CASES(test_names_of_libraries_tell_whose_mpi_it_is, "libraries")
{
    enum mpi_kind kind = linked_kind_of(in);
    size_t i = 0;

    while (launchers[i].kind != kind) {
        i++;
    }
    (void)strcpy(out, launchers[i].name);
}

/* This program is linked to a library that has only the name of MPICH's. */
UNIT_CASES(test_what_a_program_needs_is_read, "linked")
{
    static char *const no_variables[] = { NULL };
    char path[PATH_MAX];
    struct linked linked;

    (void)snprintf(path, sizeof path, "%s", in);
    if (strncmp(in, "/proc/", 6) == 0) {
        ssize_t end = readlink(in, path, sizeof path - 1);

        assert_true(end > 0);
        path[end] = '\0';
    }
    linked_read(path, no_variables, &linked);
    (void)sprintf(out, "%s", linked.kind == MPI_KIND_AUTO ? "none" : "mpich ");
    if (linked.kind != MPI_KIND_AUTO) {
        assert_int_equal(linked.kind, MPI_KIND_MPICH);
        (void)strcat(out, linked.library);
    }
}

/* Up to 64 hosts are reached by mpirun itself, more over a tree. */
UNIT_TEST(test_openmpi_reaches_many_hosts_over_a_tree)
{
    static char flags[65 * 8] = "-H n0";
    static char line[CASES_OUT];

    for (int i = 1; i < 65; i++) {
        struct made made;

        (void)sprintf(flags + strlen(flags), ",n%d", i);
        (void)sprintf(line, "%s p", flags);
        make(&made, "", "", line);
        assert_int_equal(launch_build(&launcher_openmpi, &made.options, &made.facts,
                                 &made.command),
                TUTTI_OK);
        show(&made.command.words, line);
        assert_int_equal(strstr(line, "no_tree_spawn") != NULL, i < 64);
        unmake(&made);
    }
}

UNIT_TEST(test_every_failing_allocation_is_reported)
{
    for (size_t i = 1; i < LAUNCHERS; i++) {
        uint64_t n = 0;
        tutti_status status;
        struct made made;

        make(&made, launchers[i].kind == MPI_KIND_SRUN ? "slurm" : "", "",
                "-H a:2,b:1 -x A=1 --supervise on p");
        do {
            mem_fail_at(++n);
            status = launch_build(
                    launchers[i].launcher, &made.options, &made.facts, &made.command);
            mem_fail_at(0);
            launch_command_fini(&made.command);
            assert_true(status == TUTTI_OK || status == TUTTI_ERR_NO_MEMORY);
        } while (status != TUTTI_OK);
        assert_true(n > 10);
        unmake(&made);
    }
}
