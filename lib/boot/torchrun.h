/*
 * The ranks that torchrun starts, and all that say so by its variables: RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT and, if they are there, TORCHELASTIC_RESTART_COUNT and
 * TORCHELASTIC_USE_AGENT_STORE.
 */
#ifndef TUTTI_BOOT_TORCHRUN_H
#define TUTTI_BOOT_TORCHRUN_H

#include <stdbool.h>

#include "boot/boot.h"

/**
 * Meets the other ranks at MASTER_ADDR.
 * @return TUTTI_OK; TUTTI_AGAIN: these variables are not set; TUTTI_ERR_CONFIG,
 *         TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status boot_torchrun_open(struct boot *boot);
bool boot_torchrun_is_here(void);

#endif
