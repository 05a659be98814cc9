"""The functions of the module: a context of the process, as Horovod has it."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

from .context import Context
from .errors import FinalizedError

_context: Optional[Context] = None


def init(**parameters: Any) -> Context:
    """Joins the job, unless this process has joined it already, and returns the context.

    Collective over all ranks. parameters: as for Context. After shutdown() it may be called
    again. A process that no launcher started is a job of one rank.
    """
    global _context
    if _context is None or _context.closed:
        _context = Context(**parameters)
    return _context


def shutdown() -> None:
    """Leaves the job. Collective over all ranks. At the end of the process it is called by
    itself."""
    if _context is not None:
        _context.close()


def is_initialized() -> bool:
    """True between init() and shutdown()."""
    return _context is not None and not _context.closed


def context() -> Context:
    """The context of init()."""
    if _context is None or _context.closed:
        raise FinalizedError("tutti is not initialised; call tutti.init() first")
    return _context


def _forward(name: str) -> Callable:
    method = getattr(Context, name)

    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(context(), name)(*arguments, **options)

    return call


def _fact(name: str, text: str) -> Callable[[], int]:
    def call() -> int:
        return getattr(context(), name)

    call.__name__, call.__doc__ = name, text
    return call


rank, size = _fact("rank", "This rank, from 0."), _fact("size", "Number of ranks of the job.")
local_rank = _fact("local_rank", "Index of this rank among those of its node.")
local_size = _fact("local_size", "Number of ranks on this node.")
cross_rank = _fact("cross_rank", "Index of this node.")
cross_size = _fact("cross_size", "Number of nodes.")
is_homogeneous = _forward("is_homogeneous")
process_set = _forward("process_set")
process_sets = _forward("process_sets")
allreduce, allreduce_async = _forward("allreduce"), _forward("allreduce_async")
broadcast, broadcast_async = _forward("broadcast"), _forward("broadcast_async")
send, send_async = _forward("send"), _forward("send_async")
recv, recv_async = _forward("recv"), _forward("recv_async")
allgather, allgather_async = _forward("allgather"), _forward("allgather_async")
alltoall, alltoall_async = _forward("alltoall"), _forward("alltoall_async")
reducescatter = _forward("reducescatter")
reducescatter_async = _forward("reducescatter_async")
barrier, barrier_async = _forward("barrier"), _forward("barrier_async")
join, join_async = _forward("join"), _forward("join_async")
grouped_allreduce = _forward("grouped_allreduce")
grouped_allreduce_async = _forward("grouped_allreduce_async")
grouped_allgather = _forward("grouped_allgather")
grouped_allgather_async = _forward("grouped_allgather_async")
grouped_reducescatter = _forward("grouped_reducescatter")
grouped_reducescatter_async = _forward("grouped_reducescatter_async")
