/*
 * A program of cases of ends.h, and its clock: time passes for tutti when a case says so.
 *
 *     test_gpu_ends CASE RANKS NCCL
 *     test_gpu_planted CASE RANKS NCCL BUG      with a bug on purpose (lib/base/faults.h)
 */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/faults.h"
#include "test/gpu/ends.h"

#define PASS_NS (1001 * ENDS_SECONDS)
#define SLEEP_NS INT64_C(20000000)
#define LOOK_NS INT64_C(100000000) /* all ranks look at the clock meanwhile */

/* The linker puts the second in front of the first, in tutti. */
int64_t __real_libtutti_clock_ns(void);
int64_t __wrap_libtutti_clock_ns(void);
void __real_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns);
void __wrap_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns);

static _Atomic int64_t passed;

int64_t __wrap_libtutti_clock_ns(void)
{
    return __real_libtutti_clock_ns() + atomic_load(&passed);
}

/* Nobody sleeps for long: it may be later than he knows. */
void __wrap_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
    __real_futex_wait(word, seen, timeout_ns < SLEEP_NS ? timeout_ns : SLEEP_NS);
}

void ends_pass_time(struct ends_rank *r, const char *words)
{
    bool was = false;

    while (!was) {
        (void)pthread_mutex_lock(&r->job->lock);
        was = strstr(r->job->lines, words) != NULL;
        (void)atomic_fetch_add(&passed, was ? 0 : PASS_NS);
        (void)pthread_mutex_unlock(&r->job->lock);
        clock_sleep_ns(LOOK_NS);
    }
}

int main(int argc, char **argv)
{
    static const struct ends_case *const tables[] = { cases_failures, cases_graphs,
        cases_streams };
    static const struct ends_case twice; /* a name that two cases have */
    const struct ends_case *found = NULL;

#ifdef TUTTI_FAULTS
    if (argc != 5 || tutti_fault_set(argv[4]) != TUTTI_OK) {
        return 2;
    }
#endif
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct ends_case *c = tables[i]; argc >= 4 && c->name != NULL; c++) {
            if (strcmp(c->name, argv[1]) == 0) {
                found = found == NULL ? c : &twice;
            }
        }
    }
    return found == NULL || found == &twice
            ? 2
            : ends_run(found, argv[2][0] - '0', argv[3]);
}
