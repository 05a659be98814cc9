/*
 * Which starter is chosen, among programs that the test puts into a folder.
 */
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "launcher/starter/detect.h"
#include "test/unit/launcher/root.h"

static struct root folder;

static int make_folder(void **state)
{
    (void)state;
    root_make(&folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    root_remove(&folder);
    return 0;
}

#define FOLDER_TEST(name) UNIT_TEST_WITH(name, make_folder, remove_folder)

/* A program that prints a version; NULL: nothing. */
static void install(const char *name, const char *version)
{
    char path[64];
    char text[256];

    (void)snprintf(path, sizeof path, "/%s", name);
    (void)snprintf(text, sizeof text,
            "#!/bin/sh\n[ \"$1\" = --version ] || exit 1\necho '%s'\n",
            version == NULL ? "" : version);
    root_write(&folder, path, text, 0755);
}

/* What is asked; the zero of a member is "not". */
struct question {
    enum starter_kind kind; /* --engine                    */
    const char *mpirun; /* --mpirun, inside the folder */
    enum starter_kind built;
    enum starter_kind program;
    bool is_slurm;
    const char *step; /* "SLURM_STEP_ID=0"           */
    const char *intel; /* "I_MPI_ROOT=/opt"           */
};

static tutti_status detect(
        const struct question *question, struct detect_choice *choice)
{
    struct arguments environment = { .items = NULL };
    struct options options = { .np = 1 };
    char mpirun[128];
    struct detect_facts facts = {
        .options = &options,
        .built = question->built,
        .built_mpirun = "/nowhere/mpirun",
        .program = question->program,
        .is_slurm = question->is_slurm,
    };
    tutti_status status;

    arguments_add_format(&environment, "PATH=%s", folder.path);
    if (question->step != NULL) {
        arguments_add(&environment, question->step);
    }
    if (question->intel != NULL) {
        arguments_add(&environment, question->intel);
    }
    facts.environment = environment.items;
    options.engine = (int)question->kind;
    if (question->mpirun != NULL) {
        (void)snprintf(mpirun, sizeof mpirun, "%s/%s", folder.path, question->mpirun);
        options.mpirun = mpirun;
    }
    status = detect_starter(&facts, choice);
    arguments_fini(&environment);
    return status;
}

static void expect_starter(const struct question *question,
        const struct starter *starter, const char *name, const char *how)
{
    struct detect_choice choice;
    const char *slash;

    if (detect(question, &choice) != TUTTI_OK) {
        fail_msg("%s", tutti_last_error());
    }
    assert_string_equal(choice.starter->title, starter->title);
    slash = strrchr(choice.path, '/');
    assert_string_equal(slash + 1, name);
    assert_non_null(strstr(choice.how, how));
}

static void expect_refused(const struct question *question, const char *text)
{
    struct detect_choice choice = { .starter = NULL };

    assert_int_equal(detect(question, &choice), TUTTI_ERR_INVALID);
    if (strstr(tutti_last_error(), text) == NULL) {
        fail_msg("no '%s' in: %s", text, tutti_last_error());
    }
    assert_null(choice.starter);
}

UNIT_TEST(test_versions_tell_the_starter)
{
    static const struct {
        const char *text;
        const struct starter *starter;
    } rows[] = {
        { "mpirun (Open MPI) 4.1.4\n\nReport bugs to", &starter_openmpi },
        { "mpirun.openmpi (OpenRTE) 4.1.4", &starter_openmpi },
        { "mpirun (Open MPI) 5.0.8", &starter_prrte },
        { "prterun (PRRTE) 3.0.1", &starter_prrte },
        { "mpirun (IBM Spectrum MPI) 10.3.1", &starter_openmpi },
        { "HYDRA build details:\n    Version:  4.0.2", &starter_mpich },
        { "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build", &starter_intel },
        { "slurm 22.05.8", &starter_srun },
        { "slurm-wlm 22.05.8", &starter_srun },
        { "true (GNU coreutils) 9.1", NULL },
        { "", NULL },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ptr_equal(detect_by_version(rows[i].text), rows[i].starter);
    }
}

FOLDER_TEST(test_names_tell_the_starter)
{
    char path[128];

    assert_ptr_equal(detect_by_name("/nowhere/orterun"), &starter_openmpi);
    assert_ptr_equal(detect_by_name("/nowhere/prterun"), &starter_prrte);
    assert_ptr_equal(detect_by_name("mpiexec.hydra"), &starter_mpich);
    assert_ptr_equal(detect_by_name("/nowhere/srun"), &starter_srun);
    assert_null(detect_by_name("/nowhere/mpirun"));
    install("orterun", NULL);
    (void)snprintf(path, sizeof path, "%s/link", folder.path);
    assert_int_equal(symlink("orterun", path), 0);
    assert_ptr_equal(detect_by_name(path), &starter_openmpi);
}

FOLDER_TEST(test_the_built_mpi_is_found_in_path)
{
    const struct question openmpi = { .built = STARTER_OPENMPI };
    const struct question mpich = { .built = STARTER_MPICH };
    const struct question linked = { .built = STARTER_OPENMPI,
        .program = STARTER_MPICH };

    expect_refused(&openmpi, "the mpirun of Open MPI is not in PATH");
    install("mpirun", "HYDRA build details:");
    expect_refused(&openmpi, "the mpirun of Open MPI is not in PATH");
    expect_starter(&mpich, &starter_mpich, "mpirun", "built with it");
    install("mpirun", "mpirun (Open MPI) 5.0.8");
    expect_starter(&openmpi, &starter_prrte, "mpirun", "built with it");
    install("mpirun.mpich", "HYDRA build details:");
    expect_starter(&mpich, &starter_mpich, "mpirun.mpich", "built with it");
    expect_starter(&linked, &starter_mpich, "mpirun.mpich", "linked to it");
}

FOLDER_TEST(test_flags_decide)
{
    const struct question named = { .built = STARTER_OPENMPI, .mpirun = "mine" };
    const struct question unknown = { .mpirun = "mine" };
    const struct question both = { .kind = STARTER_OPENMPI, .mpirun = "mine" };
    const struct question kind = { .kind = STARTER_MPICH, .built = STARTER_OPENMPI };
    const struct question missing = { .mpirun = "link" };

    install("mine", "HYDRA build details:");
    expect_starter(&named, &starter_mpich, "mine", "--mpirun");
    expect_refused(&both, "--engine openmpi, but");
    install("mine", NULL);
    expect_starter(&named, &starter_openmpi, "mine", "does not say whose it is");
    expect_starter(&both, &starter_openmpi, "mine", "does not say whose it is");
    expect_refused(&unknown, "does not say whose it is");
    expect_refused(&missing, "No such file");
    expect_refused(&kind, "the mpirun of MPICH is not in PATH");
    install("mpiexec.hydra", "HYDRA build details:");
    install("orterun", NULL);
    expect_starter(&kind, &starter_mpich, "mpiexec.hydra", "--engine");
}

FOLDER_TEST(test_intel_has_the_same_names_as_mpich)
{
    const struct question mpich = { .kind = STARTER_MPICH };
    const struct question intel = { .kind = STARTER_INTEL, .intel = "I_MPI_ROOT=/opt" };

    install("mpiexec.hydra", "Intel(R) MPI Library for Linux* OS");
    expect_starter(&mpich, &starter_mpich, "mpiexec.hydra", "--engine");
    expect_starter(&intel, &starter_intel, "mpiexec.hydra", "--engine");
}

FOLDER_TEST(test_slurm)
{
    const struct question allocation = { .built = STARTER_OPENMPI, .is_slurm = true };
    const struct question outside = { .built = STARTER_OPENMPI };
    const struct question step = {
        .built = STARTER_OPENMPI, .is_slurm = true, .step = "SLURM_STEP_ID=3"
    };
    const struct question interactive = {
        .built = STARTER_OPENMPI, .is_slurm = true, .step = "SLURM_STEP_ID=4294967290"
    };
    const struct question asked = { .kind = STARTER_SRUN, .built = STARTER_OPENMPI };
    struct detect_choice choice;

    expect_refused(&asked, "there is no srun");
    expect_refused(&allocation, "nor is srun");
    install("srun", "slurm-wlm 22.05.8");
    expect_starter(&allocation, &starter_srun, "srun", "without an mpirun");
    expect_refused(&outside, "not in PATH;");
    install("orterun", NULL);
    expect_starter(&allocation, &starter_openmpi, "orterun", "built with it");
    expect_starter(&step, &starter_srun, "srun", "step of a Slurm job");
    expect_starter(&interactive, &starter_openmpi, "orterun", "built with it");
    expect_starter(&asked, &starter_srun, "srun", "--engine");
    assert_int_equal(detect(&asked, &choice), TUTTI_OK);
    assert_int_equal(choice.ranks, STARTER_OPENMPI);
}

FOLDER_TEST(test_without_mpi_any_mpirun_serves)
{
    const struct question any = { .built = STARTER_AUTO };

    expect_refused(&any, "any MPI");
    install("mpirun", "mpirun (Open MPI) 4.1.4");
    expect_starter(&any, &starter_openmpi, "mpirun", "found in PATH");
}
