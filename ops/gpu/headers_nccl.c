/*
 * Compares nccl.def and the types of our nccl.h with NVIDIA's, where there is one. Compiled
 * by a test and in no library: that it compiles is the proof.
 */
#include <assert.h>
#include <nccl.h>

#include "ops/gpu/nccl.h"

#define SAME_SCALAR(ours, theirs) \
    static_assert(sizeof(ours) == sizeof(theirs) && \
                    __builtin_classify_type((ours)0) == \
                            __builtin_classify_type((theirs)0), \
            #ours " is not passed as " #theirs)

SAME_SCALAR(nccl_result, ncclResult_t);
SAME_SCALAR(nccl_dtype, ncclDataType_t);
SAME_SCALAR(nccl_op, ncclRedOp_t);
SAME_SCALAR(nccl_comm, ncclComm_t);
SAME_SCALAR(cu_stream, cudaStream_t);
static_assert(sizeof(struct nccl_id) == sizeof(ncclUniqueId), "struct nccl_id");

#define SAME_FIELD(ours, theirs) \
    static_assert( \
            offsetof(struct nccl_config, ours) == offsetof(ncclConfig_t, theirs) && \
                    __builtin_types_compatible_p( \
                            __typeof__(((struct nccl_config *)0)->ours), \
                            __typeof__(((ncclConfig_t *)0)->theirs)), \
            #ours " is not " #theirs)

SAME_FIELD(size, size);
SAME_FIELD(magic, magic);
SAME_FIELD(version, version);
SAME_FIELD(blocking, blocking);
SAME_FIELD(cga_cluster_size, cgaClusterSize);
SAME_FIELD(min_ctas, minCTAs);
SAME_FIELD(max_ctas, maxCTAs);
SAME_FIELD(net_name, netName);
SAME_FIELD(split_share, splitShare);
SAME_FIELD(traffic_class, trafficClass);
SAME_FIELD(comm_name, commName);
SAME_FIELD(collnet_enable, collnetEnable);
SAME_FIELD(cta_policy, CTAPolicy);
SAME_FIELD(shrink_share, shrinkShare);
SAME_FIELD(nvls_ctas, nvlsCTAs);
static_assert(sizeof(struct nccl_config) <= sizeof(ncclConfig_t),
        "struct nccl_config is no prefix of ncclConfig_t");

#define NCCL_CONSTANT(ours, theirs, value) \
    static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs);
#include "ops/gpu/nccl.def"

/* The table once more, spelled with the types of nccl.h. */
#define nccl_result ncclResult_t
#define nccl_dtype ncclDataType_t
#define nccl_op ncclRedOp_t
#define nccl_comm ncclComm_t
#define cu_stream cudaStream_t
#define NCCL_ID ncclUniqueId
#define NCCL_CONFIG ncclConfig_t

#define SAME_FUNCTION(symbol, result, parameters) \
    static_assert(__builtin_types_compatible_p(__typeof__(symbol), result parameters), \
            #symbol " has other parameters");
#define NCCL_REQUIRED(field, symbol, parameters) \
    SAME_FUNCTION(symbol, ncclResult_t, parameters)
#define NCCL_OPTIONAL(field, symbol, since, parameters) \
    SAME_FUNCTION(symbol, ncclResult_t, parameters)
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) \
    SAME_FUNCTION(symbol, const char *, parameters)
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) \
    SAME_FUNCTION(symbol, const char *, parameters)
#include "ops/gpu/nccl.def"
