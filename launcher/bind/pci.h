/*
 * GPUs in the files of the kernel. It reads a few small files, where hwloc reads each
 * device's configuration, which takes milliseconds per device in virtual machines.
 */
#ifndef TUTTI_LAUNCHER_BIND_PCI_H
#define TUTTI_LAUNCHER_BIND_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PCI_NVIDIA = 0x10de, /* vendors */
    PCI_AMD = 0x1002
};

/** GPUs of a machine, whether or not programs can use them. */
struct pci_gpus {
    uint64_t usable; /* with a device file */
    uint64_t unusable; /* without            */
};

/** True for a base class of PCI devices that GPUs have. */
bool pci_is_gpu(unsigned base_class);
/** Reads the beginning of FOLDER/DEVICE/NAME; false when it cannot be read. */
bool pci_read(const char *folder, const char *device, const char *name, char *text,
        size_t capacity);

/**
 * True unless the kernel's list of PCI devices shows that there is no GPU.
 * @param folder  /sys/bus/pci/devices, or a test's
 */
bool pci_may_have_gpu(const char *folder);

/** Counts the GPUs below a root folder: "" or a test's. */
void pci_count_gpus(struct pci_gpus *gpus, const char *root);

/** How many ranks this machine takes when nobody says: its GPUs, else our cores. */
int pci_slots_here(void);

#endif
