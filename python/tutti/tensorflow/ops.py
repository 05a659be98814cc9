"""Collectives of tensors, in eager execution and in graphs, with their gradients.

Gradients have Horovod's factors: those of allreduce and alltoall are the derivatives of the sum of all ranks' losses, those of
allgather and broadcast of its mean over the ranks, and those of reducescatter of the sum times the size of the set, so that an
allgather of a reducescatter has the gradient of an allreduce.
"""

from __future__ import annotations

import contextlib
import math
import re
import weakref
from typing import Any, Callable, List, Optional, Sequence

import numpy
import tensorflow as tf

from .. import _c, errors, job, tensor
from .. import _horovod as common
from .._horovod import Average, Sum, global_process_set
from ..request import RequestGroup
from . import compiled
from .compression import Compression

_used: Any = weakref.WeakKeyDictionary()  # by graph: how often each name of a process set was given


def _graph() -> Any:
    """The graph that is being built; branches and loops are always traced with the graph that has them."""
    graph = tf.compat.v1.get_default_graph()
    while type(graph).__name__ not in ("FuncGraph", "Graph") and getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def _name(kind: str, name: Optional[str], process_set: Any) -> str:
    """The name of a call; without one in a graph it is that of the graph, which a rank that traces it again finds again."""
    if name is not None:
        return f"{kind}.{name}"
    if tf.executing_eagerly():
        return job.context()._name(f"{kind}.tensorflow", None, process_set.process_set_id)
    function = re.sub(r"_\d+", "", getattr(_graph(), "name", "graph"))  # TensorFlow counts the functions that it traces
    return f"{kind}.{function[-80:]}"


def _unique(name: str, process_set: Any) -> str:
    """The name of one operation of a graph."""
    used, key = _used.setdefault(_graph(), {}), (name, process_set.process_set_id)
    used[key] = used.get(key, -1) + 1
    return f"{name}#{used[key]}" if used[key] else name


def _collective(
    kind: str, tensors: Sequence[Any], name: str, process_set: Any, op: int = 0, factors: Sequence[float] = (1.0, 1.0),
    root: int = 0, sent: Any = (), came: Any = (),
) -> List[Any]:
    """Runs a collective of tensors, all or nothing: now, or whenever the graph runs.

    op, factors: of reductions, the core's. sent: of alltoall, rows for each rank; came: of allgather and alltoall, rows from each
    rank, by tensor; none: as many of each.
    """
    op, sent, came = int(op), tf.cast(sent, tf.int64), tf.cast(came, tf.int64)

    def now(sent: numpy.ndarray, came: numpy.ndarray, *arrays: numpy.ndarray) -> List[numpy.ndarray]:
        return _run(kind, arrays, name, process_set, op, factors, root, sent.tolist(), came.tolist())

    if tf.executing_eagerly():
        return [tf.convert_to_tensor(array) for array in now(*[value.numpy() for value in (sent, came, *tensors)])]
    name = _unique(name, process_set)
    library = compiled.library() if job.context().has_background else None
    if library is not None:
        outputs = library.tutti_collective(
            label=name, sent=sent, came=came, factors=tf.constant(factors, tf.float64), inputs=tensors, kind=kind, op=op,
            root=root, dtypes=[tensor.dtype_of(value.dtype) for value in tensors], process_set=process_set.process_set_id)
    elif tf.compat.v1.executing_eagerly_outside_functions():  # each holds a thread; a function runs one after the other
        outputs = tf.numpy_function(now, [sent, came, *tensors], [value.dtype for value in tensors], stateful=True)
    else:
        raise errors.UnsupportedError(
            f"'{name}': a graph of TensorFlow 1 runs collectives in any order; for that tutti needs a C++ compiler and its "
            "background thread")
    for output, value in zip(outputs, tensors):
        is_same = kind in ("allreduce", "broadcast") or value.shape.rank is None
        output.set_shape(value.shape if is_same else [None, *value.shape[1:]])
    return list(outputs)


def _memory(array: numpy.ndarray) -> tensor.Tensor:
    """An array as the core takes it; bfloat16 is an extension of NumPy's that says nothing of itself."""
    if array.dtype.kind != "V":
        return tensor.as_tensor(array)
    return tensor.as_tensor(array.view(f"u{array.itemsize}"), dtype=array.dtype.name)


def _run(
    kind: str, arrays: Sequence[numpy.ndarray], name: str, process_set: Any, op: int, factors: Sequence[float], root: int,
    sent: List[int], came: List[List[int]],
) -> List[numpy.ndarray]:
    """_collective() of arrays, now; collective.cpp submits the same."""
    context, ranks, rank, outputs, requests = job.context(), process_set.size(), process_set.rank(), [], []
    with context.group() if len(arrays) > 1 else contextlib.nullcontext():
        for i, array in enumerate(arrays):
            array = numpy.ascontiguousarray(array).reshape(array.shape)
            shape, count, row, rows_of = list(array.shape), array.size, 1, came[i] if came else None
            if kind not in ("allreduce", "broadcast"):
                count, row = shape[0], math.prod(shape[1:])
                each = {"allgather": count * ranks, "alltoall": count}.get(kind, _c.lib.tutti_part(count, ranks, rank, None))
                shape[0] = each if rows_of is None else sum(rows_of)
            output = numpy.empty(shape, array.dtype)
            if kind == "broadcast" and rank == root:
                output[...] = array
            shape = list(array.shape)
            if row == 0:  # a row of the core has elements; these rows have none, so none travel
                shape[0], count, row, sent, rows_of = 0, 0, 1, [0] * len(sent), rows_of and [0] * ranks
            given, target = _memory(array), _memory(output)
            requests.append(context.submit_raw(
                kind, f"{name}.{i}" if len(arrays) > 1 else name, given.address, target.address, count, given.dtype,
                row_count=row, rows_of=sent or rows_of, recv_rows=rows_of if sent else None, reduce_op=op, root=root,
                process_set=process_set.process_set_id, shape=tuple(shape), prescale=factors[0], postscale=factors[1],
                keep=(given, target)))
            outputs.append(output)
    RequestGroup(requests).wait()
    return outputs


def _rows(tensors: Sequence[Any], name: str) -> List[Any]:
    """Tensors that have rows."""
    tensors = [tf.convert_to_tensor(value) for value in tensors]
    if any(value.shape.rank == 0 for value in tensors):
        raise errors.InvalidError(f"'{name}': a tensor without dimensions has no rows; reshape it to [1]")
    return tensors


def _scaled(value: Any, factor: float, divisor: int = 1) -> Any:
    """A tensor times a factor; integers in float64, without the fraction, as Horovod does it."""
    if factor == 1 and divisor == 1:
        return value
    if not value.dtype.is_floating:
        return tf.cast(tf.cast(value, tf.float64) * factor / divisor, value.dtype)
    return value * tf.cast(factor, value.dtype) / tf.cast(divisor, value.dtype)


def _reduce(
    kind: str, tensors: Sequence[Any], name: str, op: int, prescale: float, postscale: float, process_set: Any,
) -> List[Any]:
    """allreduce or reducescatter of tensors. Integers with factors, which the core refuses, are scaled here."""
    tensors, ranks = [tf.convert_to_tensor(value) for value in tensors], process_set.size()
    if (prescale, postscale) != (1, 1) and not all(value.dtype.is_floating for value in tensors):
        tensors, here = [_scaled(value, prescale) for value in tensors], Sum if op == Average else op
        sums = _reduce(kind, tensors, name, here, 1.0, 1.0, process_set)
        return [_scaled(value, postscale, ranks if op == Average else 1) for value in sums]

    @tf.custom_gradient
    def reduced(*values: Any) -> Any:
        def gradient(*upstream: Any) -> List[Any]:
            if op not in (Average, Sum):
                raise ValueError(f"{kind} has no gradient for op={common.reduction_name(op)}; use Average or Sum")
            if kind == "allreduce":
                return _reduce(kind, upstream, f"{name}.gradient", op, prescale, postscale, process_set)
            factor = prescale * postscale * (ranks if op == Sum else 1)
            return _gather([_scaled(tf.convert_to_tensor(each), factor) for each in upstream], f"{name}.gradient", process_set)

        return tuple(_collective(kind, values, name, process_set, common.core_reduction(op), (prescale, postscale))), gradient

    return list(reduced(*tensors))


def _gather(tensors: Sequence[Any], name: str, process_set: Any) -> List[Any]:
    """allgather of tensors."""

    @tf.custom_gradient
    def gathered(*values: Any) -> Any:
        mine = tf.stack([tf.shape(value, tf.int64)[0] for value in values])
        every = _collective("allgather", [mine], f"{name}.rows", process_set)[0]
        rows = tf.transpose(tf.reshape(every, [process_set.size(), len(values)]))

        def gradient(*upstream: Any) -> List[Any]:
            rank = process_set.rank()
            first = tf.reduce_sum(rows[:, :rank], 1)
            means = _reduce("allreduce", upstream, f"{name}.gradient", Average, 1.0, 1.0, process_set)
            return [mean[first[i]:first[i] + rows[i, rank]] for i, mean in enumerate(means)]

        return tuple(_collective("allgather", values, name, process_set, came=rows)), gradient

    return list(gathered(*_rows(tensors, name)))


def grouped_allreduce(
    tensors: Sequence[Any], average: Optional[bool] = None, device_dense: str = "", device_sparse: str = "",
    compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: Any = global_process_set, ignore_name_scope: bool = False,
    name: Optional[str] = None,
) -> List[Any]:
    """Reduces tensors over the ranks of a set, all or nothing and fused; returns new tensors of the same shapes.

    tensors: IndexedSlices among them are gathered: their rows keep their indices, and Average divides them by the size of the
    set. op: Average (the default), Sum, Min, Max or Product. Integers with factors are scaled in float64. Differentiable for
    Average and Sum. Horovod's device_dense and device_sparse are ignored; names never have the scope, as with its
    ignore_name_scope. Raises HorovodInternalError (in a graph, what TensorFlow makes of it, with the same text).
    """
    del device_dense, device_sparse, ignore_name_scope
    op, name = common.reduction(op, average), _name("grouped_allreduce", name, process_set)
    return _allreduce(tensors, name, op, prescale_factor, postscale_factor, compression, process_set)


def _allreduce(
    tensors: Sequence[Any], name: str, op: int, prescale: float, postscale: float, compression: Any, process_set: Any,
) -> List[Any]:
    """grouped_allreduce() of dense tensors and of IndexedSlices."""
    outputs = list(tensors)
    sparse = [i for i, value in enumerate(tensors) if isinstance(value, tf.IndexedSlices)]
    dense = [i for i in range(len(outputs)) if i not in sparse]
    if dense:
        packed = [compression.compress(tf.convert_to_tensor(tensors[i])) for i in dense]
        reduced = _reduce("allreduce", [value for value, _ in packed], name, op, prescale, postscale, process_set)
        for i, value, (_, context) in zip(dense, reduced, packed):
            outputs[i] = compression.decompress(value, context)
    if sparse:
        if op not in (Average, Sum):
            raise ValueError(f"op={common.reduction_name(op)} is not for IndexedSlices; use Average or Sum, or sparse_as_dense")
        packed = [compression.compress(_scaled(tensors[i].values, prescale)) for i in sparse]
        rows = _gather(
            [value for value, _ in packed] + [tensors[i].indices for i in sparse], f"{name}.slices", process_set)
        divisor = process_set.size() if op == Average else 1
        for i, value, indices, (_, context) in zip(sparse, rows, rows[len(sparse):], packed):
            value = _scaled(compression.decompress(value, context), postscale, divisor)
            outputs[i] = tf.IndexedSlices(value, indices, tensors[i].dense_shape)
    return outputs


def allreduce(
    tensor: Any, average: Optional[bool] = None, device_dense: str = "", device_sparse: str = "",
    compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, name: Optional[str] = None, process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduces a tensor, of one shape on all ranks, or IndexedSlices; see grouped_allreduce()."""
    del device_dense, device_sparse, ignore_name_scope
    op, name = common.reduction(op, average), _name("allreduce", name, process_set)
    return _allreduce([tensor], name, op, prescale_factor, postscale_factor, compression, process_set)[0]


def allgather(
    tensor: Any, name: Optional[str] = None, process_set: Any = global_process_set, ignore_name_scope: bool = False,
) -> Any:
    """Concatenates the ranks' tensors along the first dimension, in which alone they may differ. Differentiable."""
    return _gather([tensor], _name("allgather", name, process_set), process_set)[0]


def grouped_allgather(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: Any = global_process_set, ignore_name_scope: bool = False,
) -> List[Any]:
    """allgather() of several tensors, all or nothing."""
    return _gather(tensors, _name("grouped_allgather", name, process_set), process_set) if tensors else []


def broadcast(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """The root's tensor on every rank of the set; all have the same shape. Differentiable."""
    name, root = _name("broadcast", name, process_set), process_set._index(root_rank)

    @tf.custom_gradient
    def sent(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            mean = _reduce("allreduce", [upstream], f"{name}.gradient", Average, 1.0, 1.0, process_set)[0]
            return mean if job.rank() == root_rank else tf.zeros_like(mean)

        return _collective("broadcast", [value], name, process_set, root=root)[0], gradient

    return sent(tf.convert_to_tensor(tensor))


def _assign(variables: Sequence[Any], root_rank: int, name: Optional[str], process_set: Any) -> List[Any]:
    """Gives variables the root's values, in place; in a graph, returns operations that do."""
    if not variables:
        return []
    values = [tf.convert_to_tensor(variable) for variable in variables]
    sent = _collective(
        "broadcast", values, _name("broadcast_variables", name, process_set), process_set, root=process_set._index(root_rank))
    assigned = [variable.assign(value) for variable, value in zip(variables, sent)]
    return [getattr(one, "op", one) for one in assigned if one is not None]  # Keras has no operation


def broadcast_(
    variables: Sequence[Any], root_rank: int, name: Optional[str] = None, process_set: Any = global_process_set,
) -> List[Any]:
    """broadcast_variables() that returns the variables' new values."""
    with tf.control_dependencies(_assign(variables, root_rank, name, process_set)):
        return [tf.convert_to_tensor(variable) for variable in variables]


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: Any = global_process_set, inplace: bool = False,
) -> Any:
    """Gives variables of every rank the root's values, in place. They must be in the same order on all ranks.

    variables: of TensorFlow or of Keras, such as model.variables or optimizer.variables; those of strings are left as they
    are. inplace is ignored. Returns None; in a graph of TensorFlow 1 the operation that does it.
    """
    del inplace
    assigned = _assign([variable for variable in variables if not _is_text(variable)], root_rank, None, process_set)
    return None if tf.executing_eagerly() else tf.group(*assigned)


def _is_text(variable: Any) -> bool:
    return tf.as_dtype(variable.dtype) == tf.string


def alltoall(
    tensor: Any, splits: Optional[Any] = None, name: Optional[str] = None, process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Sends rows to every rank of the set and returns those received, in order of rank.

    splits: how many rows go to each; None: as many to each. With splits it returns (rows, how many came from each), as Horovod
    does. Differentiable.
    """
    name, ranks = _name("alltoall", name, process_set), process_set.size()
    (tensor,) = _rows([tensor], name)
    sent = tf.repeat(tf.shape(tensor, tf.int64)[0] // ranks, ranks) if splits is None else tf.cast(splits, tf.int64)
    if not sent.shape.is_compatible_with([ranks]):
        raise errors.InvalidError(f"'{name}': splits is of shape {sent.shape}; it has one number for each of {ranks} ranks")

    @tf.custom_gradient
    def exchanged(value: Any) -> Any:
        came = _collective("alltoall", [sent], f"{name}.rows", process_set)[0]

        def gradient(upstream: Any, _came: Any) -> Any:
            return alltoall(upstream, came, f"{name}.gradient", process_set)[0]

        return (*_collective("alltoall", [value], name, process_set, sent=sent, came=[came]), tf.cast(came, tf.int32)), gradient

    output, came = exchanged(tensor)
    return output if splits is None else (output, came)


def grouped_reducescatter(
    tensors: Sequence[Any], device_dense: str = "", compression: Any = Compression.none, op: int = Average,
    process_set: Any = global_process_set, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
    name: Optional[str] = None,
) -> List[Any]:
    """reducescatter() of several tensors, all or nothing."""
    del device_dense
    op, name = common.reduction(op), _name("grouped_reducescatter", name, process_set)
    if not tensors:
        return []
    packed = [compression.compress(value) for value in _rows(tensors, name)]
    parts = _reduce(
        "reducescatter", [value for value, _ in packed], name, op, prescale_factor, postscale_factor, process_set)
    return [compression.decompress(part, context) for part, (_, context) in zip(parts, packed)]


def reducescatter(
    tensor: Any, device_dense: str = "", compression: Any = Compression.none, op: int = Average,
    name: Optional[str] = None, process_set: Any = global_process_set, ignore_name_scope: bool = False,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> Any:
    """Reduces a tensor and returns this rank's rows of the result; the first ranks have one more where they do not divide
    evenly. Integers with factors are scaled in float64. Differentiable for Average and Sum."""
    return grouped_reducescatter(
        [tensor], device_dense, compression, op, process_set, prescale_factor, postscale_factor, name)[0]


def join() -> int:
    """Takes part with zeros until all ranks have joined, for ranks with fewer batches; returns the rank that joined last."""
    if tf.compat.v1.get_default_graph().building_function:
        raise errors.UnsupportedError("join() in a function of TensorFlow would run once, as it is traced; call it outside")
    return job.join()


def barrier(process_set: Any = global_process_set) -> None:
    """Waits until all ranks of the set have come."""
    job.barrier(process_set=process_set.process_set_id)


def _op_of(function: Callable[[], int]) -> Callable[..., Any]:
    def op(name: Optional[str] = None) -> Any:
        if tf.executing_eagerly():
            return tf.constant(function(), tf.int32, name=name)
        number = tf.numpy_function(lambda: numpy.int32(function()), [], tf.int32, name=name)
        number.set_shape([])
        return number

    op.__doc__ = f"{function.__name__}() as a tensor: of now, or of when the graph runs."
    return op


rank_op, local_rank_op, local_size_op = _op_of(job.rank), _op_of(job.local_rank), _op_of(job.local_size)


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """The size of a process set as a tensor; InvalidError for an unknown one."""
    return _op_of(lambda: job.context()._size_of(process_set_id))(name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """1 if this rank is in a process set, else 0, as a tensor; -1 before init(), -3 for an unknown set, as Horovod has it."""

    def included() -> int:
        known = {each.handle: int(each.included) for each in job.process_sets()} if job.is_initialized() else None
        return -1 if known is None else known.get(process_set_id, -3)

    return _op_of(included)(name)
