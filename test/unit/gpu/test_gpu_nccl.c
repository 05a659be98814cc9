/*
 * Loading of NCCL: versions, and which calls are used of each.
 */
#include <stdio.h>

#include "loading.h"
#include "ops/gpu/nccl.h"

static void assert_refused(
        const char *library, const char *version, const char *sentence)
{
    struct nccl_api api = { .version = 77 };

    if (version != NULL) {
        (void)setenv("FAKE_NCCL_VERSION", version, 1);
    }
    assert_int_equal(nccl_load(library, &api), TUTTI_ERR_UNSUPPORTED);
    assert_sentence(tutti_last_error(), sentence);
    assert_int_equal(api.version, 77);
}

LOADING_TEST(test_what_is_not_there_or_not_nccl)
{
    assert_refused("libnccl_of_nowhere.so.2", NULL,
            "there is no NCCL: libnccl_of_nowhere.so.2: cannot open shared object "
            "file: No "
            "such file or directory");
    assert_refused(FAKES "/libfake_cuda.so", NULL,
            "libfake_cuda.so lacks ncclGetVersion: it is not NCCL");
    assert_refused(FAKES "/libfake_nccl_torn.so", "22809",
            "libfake_nccl_torn.so lacks ncclSend");
    assert_int_equal(unsetenv("FAKE_NCCL_VERSION"), 0);
    assert_refused(FAKES "/libfake_nccl.so", NULL,
            "NCCL in libfake_nccl.so does not tell its version (error 2)");
}

/* Where pip has put it: in the packages of a virtual environment, or where PYTHONPATH leads. */
LOADING_TEST(test_what_pip_has_installed)
{
    static const char *const variables[] = { "VIRTUAL_ENV", "PYTHONPATH" };
    static const char *const folders[] = { "/lib/python3.9/site-packages", "" };
    char root[] = "/tmp/tutti-pip-XXXXXX";
    char command[512];
    struct nccl_api api;

    assert_non_null(mkdtemp(root));
    (void)setenv("FAKE_NCCL_VERSION", "22809", 1);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(command, sizeof command,
                "d=%s%s/nvidia/nccl/lib && mkdir -p $d && cp " FAKES
                "/libfake_nccl.so $d/libnccl-%d.so.2",
                root, folders[i], i);
        assert_int_equal(system(command), 0);
        (void)snprintf(command, sizeof command, "libnccl-%d.so.2", i);
        assert_int_equal(nccl_load(command, &api), TUTTI_ERR_UNSUPPORTED);
        (void)setenv(variables[i], root, 1);
        assert_int_equal(nccl_load(command, &api), TUTTI_OK);
        (void)unsetenv(variables[i]);
        assert_int_equal(api.version, 22809);
        (void)snprintf(command, sizeof command, "%s%s/nvidia/nccl/lib/libnccl-%d.so.2",
                root, folders[i], i);
        assert_string_equal(api.library, command);
    }
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

LOADING_TEST(test_what_is_too_old)
{
    assert_refused(FAKES "/libfake_nccl.so", "21104",
            "NCCL 2.11.4 in libfake_nccl.so is older than 2.12");
    assert_refused(FAKES "/libfake_nccl.so", "2804",
            "NCCL 2.8.4 in libfake_nccl.so is older than 2.12");
    /* Too old comes first: what else is missing follows from it. */
    assert_refused(FAKES "/libfake_nccl_torn.so", "21104",
            "NCCL 2.11.4 in libfake_nccl_torn.so is older than 2.12");
}

/* The calls of a version, as a text. */
static void list_calls(
        const char *library, const char *version, char *text, size_t capacity)
{
    struct nccl_optional call;
    struct nccl_api api;

    (void)setenv("FAKE_NCCL_VERSION", version, 1);
    assert_int_equal(nccl_load(library, &api), TUTTI_OK);
    assert_int_equal(api.version, strtol(version, NULL, 10));
    assert_non_null(api.all_reduce);
    assert_non_null(api.get_error_string);
    text[0] = '\0';
    for (size_t i = 0; nccl_get_optional(&api, i, &call); i++) {
        if (call.used) {
            strncat(text, call.symbol + strlen("nccl"), capacity - strlen(text) - 2);
            strncat(text, " ", 2);
        }
    }
}

LOADING_TEST(test_which_calls_are_used)
{
    static const struct {
        const char *version;
        const char *calls;
    } rows[] = {
        { "21200", "" },
        { "21303", "" },
        { "21304", "GetLastError " },
        { "21402", "GetLastError " },
        { "21403", "GetLastError CommInitRankConfig CommFinalize " },
        { "21801", "GetLastError CommInitRankConfig CommSplit CommFinalize " },
        { "21901",
                "GetLastError CommInitRankConfig CommSplit CommFinalize MemAlloc "
                "MemFree "
                "CommRegister CommDeregister " },
        { "22807",
                "GetLastError CommInitRankConfig CommSplit CommFinalize CommRevoke "
                "CommInitRankScalable MemAlloc MemFree CommRegister CommDeregister " },
    };
    char calls[1024];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        list_calls(FAKES "/libfake_nccl.so", rows[i].version, calls, sizeof calls);
        assert_string_equal(calls, rows[i].calls);
    }
}

LOADING_TEST(test_a_call_that_a_library_lacks_is_not_used)
{
    char calls[1024];

    list_calls(FAKES "/libfake_nccl_thin.so", "22809", calls, sizeof calls);
    assert_null(strstr(calls, "CommRevoke "));
    assert_non_null(strstr(calls, "CommSplit "));
    assert_non_null(strstr(calls, "CommRegister "));
}

/* The real one needs no GPU to be loaded. */
LOADING_TEST(test_the_nccl_of_this_machine)
{
    struct nccl_api api;
    struct nccl_optional call;

    if (REAL_NCCL[0] == '\0') {
        print_message("no NCCL here\n");
        skip();
    }
    if (nccl_load(REAL_NCCL, &api) != TUTTI_OK) {
        fail_msg("%s", tutti_last_error());
    }
    print_message("NCCL %d\n", api.version);
    for (size_t i = 0; nccl_get_optional(&api, i, &call); i++) {
        assert_int_equal(call.used, call.since <= api.version);
    }
    assert_string_equal(nccl_error_text(&api, NCCL_SUCCESS), "no error");
}
