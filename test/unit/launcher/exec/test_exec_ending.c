/*
 * How a program has ended, in the words of the link.
 */

#include <errno.h>
#include <signal.h>

#include "launcher/exec/ending.h"
#include "test/unit/unit.h"

/* As waitpid() has it on Linux. */
#define EXITED(status) ((status) << 8)
#define CORE 0x80
/* As ending_signal(), for initialisers. */
#define SIGNAL(number) (UINT64_C(1) << ((number)-1))

UNIT_TEST(test_endings)
{
    static const struct {
        struct ending ending;
        struct link_exited exited;
    } cases[] = {
        { .ending = { .wait_status = EXITED(0) },
                .exited = { .ending = LINK_ENDED_EXIT, .value = 0 } },
        { .ending = { .wait_status = EXITED(3) },
                .exited = { .ending = LINK_ENDED_EXIT, .value = 3 } },
        { .ending = { .wait_status = SIGSEGV | CORE },
                .exited = { .ending = LINK_ENDED_SIGNAL,
                        .value = SIGSEGV,
                        .dumped_core = true } },
        { .ending = { .wait_status = SIGKILL },
                .exited = { .ending = LINK_ENDED_SIGNAL, .value = SIGKILL } },
        { .ending = { .wait_status = SIGKILL, .was_stopped = true },
                .exited = { .ending = LINK_ENDED_SIGNAL,
                        .value = SIGKILL,
                        .was_stopped = true } },
        /* The program may handle a request to end, and then exits by itself. */
        { .ending = { .wait_status = EXITED(1), .signals = SIGNAL(SIGTERM) },
                .exited = { .ending = LINK_ENDED_EXIT,
                        .value = 1,
                        .was_stopped = true } },
        /* What came with the request, or after it, does not hide it. */
        { .ending = { .wait_status = SIGTERM,
                  .signals = SIGNAL(SIGTERM) | SIGNAL(SIGCONT) },
                .exited = { .ending = LINK_ENDED_SIGNAL,
                        .value = SIGTERM,
                        .was_stopped = true } },
        { .ending = { .wait_status = SIGUSR1, .signals = SIGNAL(SIGUSR1) },
                .exited = { .ending = LINK_ENDED_SIGNAL,
                        .value = SIGUSR1,
                        .was_stopped = true } },
        { .ending = { .wait_status = SIGSEGV, .signals = SIGNAL(SIGUSR1) },
                .exited = { .ending = LINK_ENDED_SIGNAL, .value = SIGSEGV } },
        { .ending = { .wait_status = EXITED(126), .exec_errno = ENOENT },
                .exited = { .ending = LINK_ENDED_EXEC, .value = ENOENT } },
        { .ending = { .setup_errno = EMFILE },
                .exited = { .ending = LINK_ENDED_SETUP, .value = EMFILE } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct link_exited exited = { .ending = 99 };

        ending_describe(&cases[i].ending, &exited);
        assert_int_equal(exited.ending, cases[i].exited.ending);
        assert_int_equal(exited.value, cases[i].exited.value);
        assert_int_equal(exited.dumped_core, cases[i].exited.dumped_core);
        assert_int_equal(exited.was_stopped, cases[i].exited.was_stopped);
    }
}
