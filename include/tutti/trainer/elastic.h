/*
 * Elastic jobs: state that is committed to the memory of the hosts, and from which a job goes on
 * that has lost ranks or hosts, or got more.
 *
 *     tutti_state_create(t, &state);
 *     tutti_state_register(state, params, bytes, "params");
 *     tutti_state_register(state, &step, sizeof step, "step");
 *     status = tutti_elastic_run(state, train, user);
 *     tutti_state_destroy(state);
 *     tutti_finalize(t);
 *     return tutti_elastic_exit_status(status);
 *
 * where train() goes on from whatever is in the registered memory:
 *
 *     while (status == TUTTI_OK && step < steps) {
 *         ... one step ...
 *         step++;
 *         status = tutti_state_commit(state);
 *     }
 *     return status;
 *
 * Under tuttirun --min-np N the program is started anew when a rank has died, or when hosts have
 * come or gone. The first that tutti_elastic_run() does is to fill the registered memory with what was
 * committed last. Without tuttirun the same program runs as any other.
 *
 * Calls that have a state are collective over all ranks, except where they say "local". What one
 * rank alone finds wrong, all ranks return, with its message.
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

/** What a job goes on from. Opaque; one thread at a time. */
typedef struct tutti_state tutti_state;

/** What tuttirun has told the ranks. Equal on all ranks. */
typedef enum tutti_notice {
    TUTTI_NOTICE_NONE,
    TUTTI_NOTICE_HOSTS, /**< hosts have come or gone: the job is to be started anew       */
    TUTTI_NOTICE_LEAVE /**< the job has to end now (SIGTERM, SIGUSR1): save a checkpoint */
} tutti_notice;

/** The exit status of a program that is not finished: EX_TEMPFAIL of sysexits.h. */
#define TUTTI_EXIT_AGAIN 75

/**
 * Makes a state without tensors. Local. Under tuttirun a process has one at most.
 * @param[out] state  released with tutti_state_destroy(), before tutti_finalize()
 * @return TUTTI_OK, TUTTI_ERR_INVALID (t, or a second state), TUTTI_ERR_SYSTEM (no memory to
 *         keep it in), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_state_create(tutti *t, tutti_state **state);

/** Frees it; what was committed stays until the job ends. Local; NULL is allowed. */
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
 * optimizer (tutti_optimizer_state()). The parts may be others in another start of the program.
 * Local, as tutti_state_register().
 * @param tensors  n tensors; names and dims are borrowed, too
 */
TUTTI_MUST_USE tutti_status tutti_state_register_tensors(
        tutti_state *state, const tutti_state_tensor *tensors, size_t n);

/**
 * Copies what is registered to memory that outlives this process, and looks whether tuttirun has
 * told the ranks something. The commit counts when all ranks have it; one that fails, or
 * in which a rank dies, leaves the one before. Each host keeps two of them. Takes the time of a copy
 * of the state divided by the ranks of the host, and one small allreduce; parts of tensors also
 * travel to all hosts.
 * @return TUTTI_OK; TUTTI_AGAIN: it is committed, and the ranks are to leave: tutti_state_notice()
 *         says why; TUTTI_ERR_SYSTEM (no memory), TUTTI_ERR_INVALID, TUTTI_ERR_MISMATCH (ranks
 *         have registered other things), TUTTI_ERR_NO_MEMORY, and the statuses of tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_state_commit(tutti_state *state);

/**
 * Fills what is registered with the newest commit that all ranks had, wherever that
 * is kept. Of several, the one whose marks have survived on any host counts.
 * @param[out] number  NULL, or: 0, there is none, and nothing was changed; else its number, which
 *                     grows with each commit
 * @return TUTTI_OK; TUTTI_ERR_MISMATCH (the program that committed had registered other things, or
 *         ranks have), TUTTI_ERR_NO_MEMORY, and the statuses of tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_state_restore(tutti_state *state, uint64_t *number);

/** tutti_state_restore(), or, where nothing was committed, all ranks get what rank 0 has. Tensors of
 *  which ranks have parts stay as they are then. Statuses of it and of tutti_broadcast_state(). */
TUTTI_MUST_USE tutti_status tutti_state_sync(tutti_state *state);

/**
 * Looks whether tuttirun has told the ranks something, without a commit.
 * @return TUTTI_OK, TUTTI_AGAIN as tutti_state_commit(), and the statuses of tutti_allreduce()
 */
TUTTI_MUST_USE tutti_status tutti_check_hosts(tutti_state *state);

/** Why the last commit or check returned TUTTI_AGAIN. Local. */
tutti_notice tutti_state_notice(const tutti_state *state);

/** How often the job was started, from 1; 1 without an elastic tuttirun. Local. */
uint32_t tutti_state_generation(const tutti_state *state);

/** A program's training, from what is registered to the end. */
typedef tutti_status (*tutti_elastic_function)(tutti_state *state, void *user);

/**
 * tutti_state_sync(), then the function.
 * @return its status. TUTTI_AGAIN means that the program is to end, in order, and that the
 *         job then goes on in new processes
 */
TUTTI_MUST_USE tutti_status tutti_elastic_run(
        tutti_state *state, tutti_elastic_function function, void *user);

/** What main() returns to tuttirun: 0 for TUTTI_OK, TUTTI_EXIT_AGAIN for TUTTI_AGAIN, else 1. Local. */
int tutti_elastic_exit_status(tutti_status status);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
