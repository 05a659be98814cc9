"""Horovod's API for TensorFlow 2, served by tutti: `import tutti.tensorflow as hvd`.

Tensors travel through the memory of the host. In a tf.function collectives run in the order of the program; models must not be
compiled with XLA (jit_compile=False), which cannot call out.
"""

from .._horovod import (
    Adasum, Average, HorovodInternalError, HostsUpdatedInterrupt, Max, Min, ProcessSet, Product, Sum, add_process_set,
    ccl_built, cuda_built, ddl_built, global_process_set, gloo_built, gloo_enabled, init, mpi_built, mpi_enabled,
    mpi_threads_supported, nccl_built, remove_process_set, rocm_built, start_timeline, stop_timeline,
)
from ..job import (
    cross_rank, cross_size, is_homogeneous, is_initialized, local_rank, local_size, rank, shutdown, size,
)
from . import elastic
from .errors import MismatchError
from .compression import Compression
from .functions import SyncBatchNormalization, allgather_object, broadcast_object, broadcast_object_fn
from .gradients import (
    BroadcastGlobalVariablesHook, DistributedGradientTape, DistributedOptimizer, PartialDistributedGradientTape,
    broadcast_global_variables,
)
from .ops import (
    allgather, allreduce, alltoall, barrier, broadcast, broadcast_, broadcast_variables, grouped_allgather, grouped_allreduce,
    grouped_reducescatter, join, local_rank_op, local_size_op, process_set_included_op, rank_op, reducescatter, size_op,
)

__all__ = [name for name in dir() if not name.startswith("_")]
