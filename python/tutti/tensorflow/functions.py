"""Python objects from one rank to the others, with the arguments that Horovod has for TensorFlow."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from .. import _horovod as common
from .. import errors
from .._horovod import global_process_set


def broadcast_object(
    obj: Any, root_rank: int = 0, session: Any = None, name: Optional[str] = None, process_set: Any = global_process_set,
) -> Any:
    """Returns the root's object on every rank; it travels pickled. Other ranks may give anything, such as None."""
    del session
    return common.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: Optional[str] = None, process_set: Any = global_process_set,
) -> Callable[[Any], Any]:
    """broadcast_object() as a function of the object alone."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: Optional[str] = None, process_set: Any = global_process_set,
) -> List[Any]:
    """Returns a list of the objects of all ranks of the set, in their order; they travel pickled."""
    del session
    return common.allgather_object(obj, name, process_set)


def SyncBatchNormalization(*_arguments: Any, **_options: Any) -> None:
    """Not offered: raises UnsupportedError."""
    raise errors.UnsupportedError(
        "SyncBatchNormalization is not offered for TensorFlow; GroupNormalization needs no statistics of other ranks")
