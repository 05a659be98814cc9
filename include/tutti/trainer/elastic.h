/*
 * Elastic jobs: state is committed to the memory of the hosts, and a job that loses or gains
 * ranks or hosts continues from it.
 *
 *     tutti_state_create(t, &state);
 *     tutti_state_register(state, params, bytes, "params");
 *     tutti_state_register(state, &step, sizeof step, "step");
 *     status = tutti_elastic_run(state, train, user);
 *     tutti_state_destroy(state);
 *     tutti_finalize(t);
 *     return tutti_elastic_exit_status(status);
 *
 * where train() continues from the values in the registered memory:
 *
 *     while (status == TUTTI_OK && step < steps) {
 *         ... one step ...
 *         step++;
 *         status = tutti_state_commit(state);
 *     }
 *     return status;
 *
 * Under tuttirun --min-np N the program is restarted when a rank has died, or when hosts have
 * been added or removed. tutti_elastic_run() first restores the last commit into the
 * registered memory. Without tuttirun the program runs as any other.
 *
 * Calls that take a state are collective over all ranks, unless they are marked "local". If one
 * rank finds an error, all ranks return it, with its message.
 */
#ifndef TUTTI_TRAINER_ELASTIC_H
#define TUTTI_TRAINER_ELASTIC_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/state.h>
#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/** The committed state of a job. Opaque; one thread at a time. */
typedef struct tutti_state tutti_state;

/** A notice from tuttirun. Equal on all ranks. */
typedef enum tutti_notice {
    TUTTI_NOTICE_NONE,
    TUTTI_NOTICE_HOSTS, /**< hosts were added or removed: the job will be restarted       */
    TUTTI_NOTICE_LEAVE /**< the job has to end now (SIGTERM, SIGUSR1): save a checkpoint */
} tutti_notice;

/** The exit status of a program that is not finished: EX_TEMPFAIL of sysexits.h. */
#define TUTTI_EXIT_AGAIN 75

/**
 * Creates a state without tensors. Local. Under tuttirun a process has one at most.
 * @param[out] state  released with tutti_state_destroy(), before tutti_finalize()
 * @return TUTTI_OK, TUTTI_ERR_INVALID (t, or a second state), TUTTI_ERR_SYSTEM (no memory to
 *         keep it in), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_state_create(tutti *t, tutti_state **state);

/** Frees a state; commits stay until the job ends. Local; NULL is allowed. */
void tutti_state_destroy(tutti_state *state);

/**
 * Adds memory that is equal on all ranks: parameters, counters, the state of a
 * random generator, a tutti_shard_state. Local; all ranks add the same in the same order, before the
 * first commit or restore.
 * @param data   borrowed until the state is destroyed
 * @param bytes  of it; the same in each start of the program
 * @param name   unique in the state; copied
 * @return TUTTI_OK, TUTTI_ERR_INVALID (the name; no data; too late), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_state_register(
        tutti_state *state, void *data, size_t bytes, const char *name);

/**
 * Adds tensors, of which each rank may have a part, as in a checkpoint: the state of a sharded
 * optimizer (tutti_optimizer_state()). The division may differ in another start of the program.
 * Local, as tutti_state_register().
 * @param tensors  n tensors; names and dims are borrowed, too
 */
TUTTI_MUST_USE tutti_status tutti_state_register_tensors(
        tutti_state *state, const tutti_state_tensor *tensors, size_t n);

/**
 * Copies the registered memory to memory that outlives this process, and checks for a notice of
 * tuttirun. The commit is valid when all ranks have it; if it fails, or a rank dies in it, the
 * previous one stays valid. Each host keeps two of them. Takes the time of a copy
 * of the state divided by the ranks of the host, and one small allreduce; parts of tensors are
 * also sent to all hosts.
 * @return TUTTI_OK; TUTTI_AGAIN: it is committed, and the ranks must leave, for the reason of
 *         tutti_state_notice(); TUTTI_ERR_SYSTEM (no memory), TUTTI_ERR_INVALID,
 *         TUTTI_ERR_MISMATCH (registrations differ between ranks), TUTTI_ERR_NO_MEMORY, and the
 *         statuses of tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_state_commit(tutti_state *state);

/**
 * Restores the newest commit of all ranks into the registered memory, from any host that has
 * it. A commit is complete if its marks have survived on any host.
 * @param[out] number  NULL, or the number of the commit, which grows with each; 0: there is none,
 *                     and nothing was changed
 * @return TUTTI_OK; TUTTI_ERR_MISMATCH (registrations differ from those of the commit, or between
 *         ranks), TUTTI_ERR_NO_MEMORY, and the statuses of tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_state_restore(tutti_state *state, uint64_t *number);

/** tutti_state_restore(), or, without a commit, a broadcast from rank 0 that leaves tensors with
 *  parts unchanged. Statuses of it and of tutti_broadcast_state(). */
TUTTI_MUST_USE tutti_status tutti_state_sync(tutti_state *state);

/**
 * Checks for a notice of tuttirun, without a commit.
 * @return TUTTI_OK, TUTTI_AGAIN as tutti_state_commit(), and the statuses of tutti_allreduce()
 */
TUTTI_MUST_USE tutti_status tutti_check_hosts(tutti_state *state);

/** Why the last commit or check returned TUTTI_AGAIN. Local. */
tutti_notice tutti_state_notice(const tutti_state *state);

/** How often the job was started, from 1; 1 without an elastic tuttirun. Local. */
uint32_t tutti_state_generation(const tutti_state *state);

/** A program's training, from the registered state to the end. */
typedef tutti_status (*tutti_elastic_function)(tutti_state *state, void *user);

/**
 * tutti_state_sync(), then the function.
 * @return its status. TUTTI_AGAIN: the program must end in an orderly way, and the
 *         job continues in new processes
 */
TUTTI_MUST_USE tutti_status tutti_elastic_run(
        tutti_state *state, tutti_elastic_function function, void *user);

/** The exit status for main(): 0 for TUTTI_OK, TUTTI_EXIT_AGAIN for TUTTI_AGAIN, else 1. Local. */
int tutti_elastic_exit_status(tutti_status status);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
