"""Python objects from one rank to the others, for scripts of TensorFlow and Keras."""

from __future__ import annotations

import pickle
from typing import Any, Callable, List, Optional

import numpy

from .. import job
from .._horovod import global_process_set


def broadcast_object(
    obj: Any, root_rank: int = 0, session: Any = None, name: Optional[str] = None, process_set: Any = global_process_set,
) -> Any:
    """Returns the root's object on every rank; it travels pickled. Other ranks may give anything, such as None."""
    del session
    name, root, context = name or "broadcast_object", process_set._index(root_rank), job.context()
    is_root, number = job.rank() == root_rank, process_set.process_set_id
    data = numpy.frombuffer(pickle.dumps(obj), numpy.uint8).copy() if is_root else None
    length = numpy.array([len(data) if is_root else 0])
    context.broadcast(length, root, name=f"{name}.length", process_set=number)
    if not is_root:
        data = numpy.empty(int(length[0]), numpy.uint8)
    context.broadcast(data, root, name=f"{name}.data", process_set=number)
    return obj if is_root else pickle.loads(data.tobytes())


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
    name, context, number = name or "allgather_object", job.context(), process_set.process_set_id
    data = numpy.frombuffer(pickle.dumps(obj), numpy.uint8)
    lengths = context.allgather(numpy.array([len(data)]), name=f"{name}.lengths", process_set=number)
    every = context.allgather(data, name=f"{name}.data", process_set=number)
    return [pickle.loads(part.tobytes()) for part in numpy.split(every, numpy.cumsum(lengths)[:-1])]
