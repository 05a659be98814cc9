/*
 * NCCL, loaded at run time: one table of functions, filled from its shared object. Types
 * and constants are our own; headers_nccl.c compares them with NVIDIA's nccl.h.
 */
#ifndef TUTTI_OPS_GPU_NCCL_H
#define TUTTI_OPS_GPU_NCCL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/gpu/driver.h"

/** The oldest version that is used, coded as nccl_api.version. */
#define NCCL_OLDEST 21200

/** NCCL_SUCCESS, NCCL_IN_PROGRESS or an error. */
typedef int nccl_result;
/** NCCL_INT8 ... */
typedef int nccl_dtype;
/** NCCL_SUM ... */
typedef int nccl_op;
typedef struct nccl_comm_object *nccl_comm;

#define NCCL_ID_BYTES 128
#define NCCL_LIBRARY_MAX 512

/** What the ranks of a communicator meet by; made by one of them. */
struct nccl_id {
    char bytes[NCCL_ID_BYTES];
};

/** Settings of a communicator, as NCCL 2.27 lays them out; see nccl_config_init(). */
struct nccl_config {
    size_t size; /* of this struct: NCCL copies so much, or what it knows   */
    unsigned magic; /* NCCL_CONFIG_MAGIC                                       */
    unsigned version; /* the NCCL whose struct this is                           */
    int blocking; /* 0: calls may return NCCL_IN_PROGRESS; never NCCL_UNSET  */
    int cga_cluster_size; /* thread blocks that share memory; since 2.17             */
    int min_ctas; /* thread blocks of a kernel, at least; since 2.17         */
    int max_ctas; /* and at most; since 2.17                                 */
    const char *net_name; /* network plug-in; since 2.17                             */
    int split_share; /* parts share resources with their parent; since 2.18     */
    int traffic_class; /* of the network; since 2.26                              */
    const char *comm_name; /* in NCCL's log; since 2.27                               */
    int collnet_enable; /* reductions in switches; since 2.27                      */
    int cta_policy; /* how thread blocks are given; since 2.27                 */
    int shrink_share; /* as split_share, for ncclCommShrink(); 2.27              */
    int nvls_ctas; /* thread blocks of NVLink reductions; since 2.27          */
};

#define NCCL_CONFIG_MAGIC 0xcafebeefU
#define NCCL_CONFIG_VERSION 22703U

/** Constants: see nccl.def. */
enum nccl_constant {
#define NCCL_CONSTANT(ours, theirs, value) ours = (value),
#include "ops/gpu/nccl.def"
};

#define NCCL_ID struct nccl_id
#define NCCL_CONFIG struct nccl_config

/** A loaded NCCL. Immutable after nccl_load(); copies are as good as the original. */
struct nccl_api {
    int version; /* 22809 is 2.28.9 */
    char library[NCCL_LIBRARY_MAX]; /* name or path that it was loaded by */
    /* NOLINTBEGIN(bugprone-macro-parentheses): declarations are no expressions */
#define NCCL_REQUIRED(field, symbol, parameters) nccl_result(*field) parameters;
#define NCCL_OPTIONAL(field, symbol, since, parameters) nccl_result(*field) parameters;
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) const char *(*field)parameters;
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) \
    const char *(*field)parameters;
#include "ops/gpu/nccl.def"
    /* NOLINTEND(bugprone-macro-parentheses) */
};

#undef NCCL_ID
#undef NCCL_CONFIG

/**
 * Loads NCCL. It stays loaded until the process ends, since it has threads of its own;
 * loading it again is cheap and gives the same functions. Any thread. Communicators do not
 * survive fork().
 * @param library  name or path of the shared object ("libnccl.so.2"); a name that the loader does
 *                 not know is looked for in Python's packages
 * @param[out] api  filled on success only
 * @return TUTTI_OK; TUTTI_ERR_UNSUPPORTED with one sentence as the last error: no such
 *         library, too old, or a function is missing
 */
TUTTI_MUST_USE tutti_status nccl_load(const char *library, struct nccl_api *api);

/**
 * Fills in a config in which nothing is set but that calls do not block, and the name.
 * @param name  for NCCL's log; borrowed, as long as the communicator
 */
void nccl_config_init(struct nccl_config *config, const char *name);

/** Text of an error, e.g. "unhandled system error"; never NULL. Any thread. */
const char *nccl_error_text(const struct nccl_api *api, nccl_result error);

/** One of the calls that not every NCCL has, for reports. */
struct nccl_optional {
    const char *symbol; /* "ncclCommSplit" */
    int since; /* coded version that brought it */
    bool used; /* by this library */
};

/**
 * The index-th of the optional calls, in the order of nccl.def.
 * @return false when there are no more; *call is untouched
 */
bool nccl_get_optional(
        const struct nccl_api *api, size_t index, struct nccl_optional *call);

#endif
