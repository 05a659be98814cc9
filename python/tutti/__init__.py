"""tutti: collective communication for data-parallel training.

A thin package over the C library libtutti: its documents hold here as well.

    import numpy, tutti

    with tutti.Context() as job:
        total = job.allreduce(numpy.ones(4), op=tutti.SUM)

or, with one context for the process, ``tutti.init()`` and ``tutti.allreduce(...)``.
"""

from . import _c
from .context import AVERAGE, MAX, MIN, PRODUCT, SET_AVERAGE, SUM, Context, ProcessSet, ReduceOp, Registered
from .errors import (
    CancelledError, ConfigError, ContextFailedError, DuplicateError, FinalizedError,
    InternalError, InvalidError, MismatchError, MpiError, NoMemoryError, ProtocolError,
    SystemCallError, ThreadError, TuttiError, UnsupportedError, WaitTimeoutError,
)
from .job import (
    allgather, allgather_async, allreduce, allreduce_async, alltoall, alltoall_async, barrier,
    barrier_async, broadcast, broadcast_async, context, cross_rank, cross_size,
    grouped_allgather, grouped_allgather_async, grouped_allreduce, grouped_allreduce_async,
    grouped_reducescatter, grouped_reducescatter_async, init, is_homogeneous, is_initialized,
    join, join_async, local_rank, local_size, process_set, process_sets, rank, recv, recv_async,
    reducescatter, reducescatter_async, send, send_async, shutdown, size,
)
from .request import Request, RequestGroup
from .tensor import DTYPES, Tensor, as_tensor, dtype_of

__version__ = _c.VERSION


def library_version() -> str:
    """The version of the C library that is loaded."""
    return _c.lib.tutti_version().decode()


def has_feature(feature: str) -> bool:
    """True if the C library has a feature: "mpi", "shm", "cuda", ..."""
    return _c.lib.tutti_has_feature(feature.encode())


__all__ = [name for name in dir() if not name.startswith("_")]
