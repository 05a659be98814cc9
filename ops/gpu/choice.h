/*
 * Which device a rank uses: the parameter gpu, read against the devices that there are.
 */
#ifndef TUTTI_OPS_GPU_CHOICE_H
#define TUTTI_OPS_GPU_CHOICE_H

#include <tutti/tutti.h>

#include "ops/gpu/driver.h"
#include "ops/gpu/gpu.h"

/** True when the parameter gpu asks for none. */
bool choice_is_off(const char *wanted);
/** True when it names devices, so that it is an error when they are not there. */
bool choice_is_definite(const char *wanted);

/**
 * The ordinal of the device that the parameter gpu means for a rank. The caller's thread
 * counts (gpu_seat.is_alone). Not for "off".
 * @param wanted  "auto"; or a list with commas, of which the rank takes the one at its local
 *                rank, or the only one: ordinals, PCI ids, beginnings of UUIDs
 * @return TUTTI_OK; TUTTI_ERR_CONFIG, TUTTI_ERR_SYSTEM (the driver does not answer)
 */
TUTTI_MUST_USE tutti_status choice_make(const struct cuda_driver *driver,
        const char *wanted, const struct gpu_seat *seat, int *ordinal);

#endif
