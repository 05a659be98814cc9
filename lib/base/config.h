/*
 * Configuration: one table (config.def) and everything that is generated from it.
 */
#ifndef TUTTI_BASE_CONFIG_H
#define TUTTI_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/error.h"
#include "base/shared.h"

/** A byte for each parameter: they count them. */
struct config_bytes {
#define ANY(name, scope, help) char name;
#include "base/config.def"
};

/** The parameters, with the names of config.def. TEXT values are owned copies. */
struct config {
#define BOOL(name, def, scope, horovod, help) bool name;
#define INT(name, def, min, max, scope, horovod, help) int name;
#define SIZE(name, def, min, max, scope, horovod, help) size_t name;
#define REAL(name, def, min, max, scope, horovod, help) double name;
#define ENUM(name, def, choices, scope, horovod, help) int name;
#define TEXT(name, def, scope, horovod, help) char *name;
#include "base/config.def"
    struct config_bytes given; /* 1: it was set by config_set() */
};

/** Number of parameters. */
#define CONFIG_COUNT sizeof(struct config_bytes)

/** Longest name of a parameter. */
#define CONFIG_NAME_MAX 64
/** Longest value of a TEXT parameter in bytes, without the terminating zero. */
#define CONFIG_TEXT_MAX 255
/** Characters of a wrong name or value that an error shows. */
#define CONFIG_SHOWN_MAX 200

/** Indices of the choices of the parameters so named, in the order of config.def. */
enum config_backend {
    CONFIG_BACKEND_AUTO,
    CONFIG_BACKEND_SHM,
    CONFIG_BACKEND_MESSAGES,
    CONFIG_BACKEND_VENDOR
};

enum config_transport {
    CONFIG_TRANSPORT_AUTO,
    CONFIG_TRANSPORT_MPI,
    CONFIG_TRANSPORT_UCX
};
enum config_hierarchy {
    CONFIG_HIERARCHY_AUTO,
    CONFIG_HIERARCHY_FLAT,
    CONFIG_HIERARCHY_NODE,
    CONFIG_HIERARCHY_CACHE
};
enum config_algorithm {
    CONFIG_ALGORITHM_AUTO,
    CONFIG_ALGORITHM_GATHER,
    CONFIG_ALGORITHM_DIRECT,
    CONFIG_ALGORITHM_DOUBLING
};
enum config_wire_dtype {
    CONFIG_WIRE_DTYPE_FLOAT32,
    CONFIG_WIRE_DTYPE_BFLOAT16,
    CONFIG_WIRE_DTYPE_FLOAT16
};
enum config_kernels {
    CONFIG_KERNELS_AUTO,
    CONFIG_KERNELS_SCALAR,
    CONFIG_KERNELS_AVX2,
    CONFIG_KERNELS_AVX512,
    CONFIG_KERNELS_NEON
};
enum config_issue {
    CONFIG_ISSUE_AUTO,
    CONFIG_ISSUE_CALLER
};
enum config_gpu_connect {
    CONFIG_GPU_CONNECT_INIT,
    CONFIG_GPU_CONNECT_USE
};
enum config_gpu_half_sums {
    CONFIG_GPU_HALF_SUMS_FLOAT,
    CONFIG_GPU_HALF_SUMS_HALF
};
enum config_type {
    CONFIG_BOOL,
    CONFIG_INT,
    CONFIG_SIZE,
    CONFIG_REAL,
    CONFIG_ENUM,
    CONFIG_TEXT
};

/** One row of the table, for --help, docs, tuttirun and tests. */
struct config_row {
    const char *name; /* "stall_warning_s" */
    const char *initial; /* default, as text */
    const char *range; /* "0..86400", "error|warn|...", "true|false" or "text" */
    const char *horovod; /* alias, or NULL */
    const char *help; /* one sentence */
    size_t offset; /* of the value in struct config */
    double min, max; /* numbers only */
    enum config_type type;
    bool same; /* must be equal on all ranks */
};

/** All rows; *count is set. */
const struct config_row *config_rows(size_t *count);
/** The row of a name ('-' counts as '_'), or NULL. */
const struct config_row *config_find(const char *name);
/** The row whose name is nearest, for "did you mean", or NULL. */
const struct config_row *config_nearest(const char *name);

/** The error for a name that config_find() does not know; returns TUTTI_ERR_CONFIG. */
tutti_status config_unknown(const char *name, const char *origin);

/** Fills in the defaults. @return TUTTI_OK or TUTTI_ERR_NO_MEMORY */
tutti_status config_init(struct config *config);
void config_fini(struct config *config);
/** Deep copy into uninitialised storage. @return TUTTI_OK or TUTTI_ERR_NO_MEMORY */
tutti_status config_copy(struct config *to, const struct config *from);

/**
 * Sets a value from text. `origin` ("TUTTI_FUSION_BYTES", "--fusion-bytes") is named in
 * the error. On failure nothing changes and the thread's last error is set.
 */
tutti_status config_set(
        struct config *config, const char *name, const char *text, const char *origin);
/** True when config_set() has set it, even to its default. */
bool config_is_given(const struct config *config, const char *name);
/** Writes a value as text; false when it does not fit. */
bool config_format(const struct config *config, const struct config_row *row,
        char *text, size_t capacity);

/**
 * Applies the environment: HOROVOD_* aliases first, TUTTI_* second. On failure nothing
 * changes. Unknown TUTTI_ names are errors under strict and otherwise appended, one line
 * each, to `warnings`, as are the aliases used. TUTTI_INTERNAL_* names are left to their
 * users.
 * @return TUTTI_OK, TUTTI_ERR_CONFIG, TUTTI_ERR_NO_MEMORY
 */
tutti_status config_from_environment(
        struct config *config, char *warnings, size_t capacity);

/**
 * Appends a line to `warnings`, once, when parameters are set that are accepted and ignored.
 */
void config_warn_ignored(const struct config *config, char *warnings, size_t capacity);

/** The value of a variable that is tuttirun's and ours alone (TUTTI_INTERNAL_...), or NULL. */
const char *config_internal(const char *variable) TUTTI_SHARED(config_internal);

/**
 * The value of a variable that rules other libraries (CUDA_VISIBLE_DEVICES, PMI_FD), or NULL.
 */
const char *config_foreign(const char *variable) TUTTI_SHARED(config_foreign);

/**
 * How many ranks the launcher that started this process says there are (Open MPI, MPICH
 * and its relatives, srun, tuttirun, torchrun); 0: none of them did.
 * @param[out] variable  which of the variables said so; untouched for 0
 */
int config_launched_ranks(const char **variable) TUTTI_SHARED(config_launched_ranks);

/** The public object behind tutti_config. */
struct tutti_config {
    struct config values; /* effective values */
    char warnings[ERROR_TEXT_MAX]; /* logged once the context has a log */
    tutti_log_callback log; /* NULL: stderr */
    void *log_user; /* for log */
    char text[CONFIG_COUNT][CONFIG_TEXT_MAX + 1]; /* values as text, row by row */
};

#endif
