/*
 * The board (ops/board.h) in the segments of a domain: for ranks of a process or of a node.
 */
#ifndef TUTTI_OPS_SHM_SHM_BOARD_H
#define TUTTI_OPS_SHM_SHM_BOARD_H

#include "ops/board.h"
#include "ops/shm/shm.h"

/** That of a domain, which it borrows and does not outlive; of NULL: none. */
struct board shm_board(struct shm_domain *domain);

#endif
