/*
 * How a program has ended, as tuttirun is told. Pure.
 */
#ifndef TUTTI_LAUNCHER_EXEC_ENDING_H
#define TUTTI_LAUNCHER_EXEC_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/session/link.h"

/** What is known when a program has ended. */
struct ending {
    int wait_status; /* of waitpid()                                          */
    int exec_errno; /* of exec; 0: the program ran                           */
    int setup_errno; /* why it could not even be started; 0: it was          */
    uint64_t signals; /* that the starter or tuttirun has sent, see ending_signal() */
    bool was_stopped; /* it was told to stop: STOP, or the starter is gone    */
};

/** The bit of a signal, 1 to 64, in `signals`. */
static inline uint64_t ending_signal(int number)
{
    return UINT64_C(1) << (number - 1);
}

/** True when a signal among these asks a program to end; however it then ends, that is why. */
bool ending_was_asked(uint64_t signals);
/** Fills ending, value, dumped_core and was_stopped. */
void ending_describe(const struct ending *ending, struct link_exited *exited);

#endif
