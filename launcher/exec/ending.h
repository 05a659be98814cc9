/*
 * How a program has ended, as tuttirun is told. Pure.
 */
#ifndef TUTTI_LAUNCHER_EXEC_ENDING_H
#define TUTTI_LAUNCHER_EXEC_ENDING_H

#include <stdbool.h>

#include "launcher/link/message.h"

/** What is known when a program has ended. */
struct ending {
    int wait_status; /* of waitpid()                                          */
    int exec_errno; /* of exec; 0: the program ran                           */
    int setup_errno; /* why it could not even be started; 0: it was          */
    int last_signal; /* that the engine or tuttirun has sent; 0: none        */
    bool was_stopped; /* it was told to stop: STOP, or the engine is gone    */
};

/** Fills ending, value, dumped_core and was_stopped. */
void ending_describe(const struct ending *ending, struct link_exited *exited);

#endif
