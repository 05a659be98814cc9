"""Horovod's operations on tensors of TensorFlow 2: eager, in a tf.function, and differentiable.

A tensor is handed over as a NumPy array. In a graph that is a stateful operation, so that a function runs its collectives one after
the other, in the order of the program, which is the same on all ranks. What is to travel together is one grouped call.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy
import tensorflow as tf

from .. import _horovod as common
from .. import job, tensor
from .._horovod import Average, Sum, global_process_set
from .compression import Compression


def _host(function: Callable, inputs: Sequence[Any], dtypes: Sequence[Any], shapes: Sequence[Any]) -> List[Any]:
    """Calls a function of NumPy arrays that returns a list of such: now, or whenever the graph runs."""
    if tf.executing_eagerly():
        return [tf.convert_to_tensor(array) for array in function(*[value.numpy() for value in inputs])]
    outputs = tf.numpy_function(function, inputs, list(dtypes), stateful=True)
    for output, shape in zip(outputs, shapes):
        output.set_shape(shape)
    return outputs


def _given(array: numpy.ndarray) -> Any:
    """What the core takes for the array; NumPy's bfloat16 is an extension that says nothing of itself."""
    array = numpy.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind != "V":
        return array
    return tensor.as_tensor(array.view(numpy.uint16), dtype=array.dtype.name)


def _returned(array: numpy.ndarray, like: numpy.ndarray) -> numpy.ndarray:
    return numpy.asarray(array).view(like.dtype)


class _Names:
    """Names of calls without one, by operation and process set; those of a graph stay as they were when it was traced."""

    def __init__(self) -> None:
        self._numbers: dict = {}

    def __call__(self, kind: str, name: Optional[str], process_set: Any) -> str:
        if name is not None:
            return f"{kind}.{name}"
        key = kind, process_set.process_set_id
        self._numbers[key] = self._numbers.get(key, -1) + 1
        return f"{kind}.tensorflow.{self._numbers[key]}"


_name = _Names()


def _scale(array: numpy.ndarray, factor: float) -> numpy.ndarray:
    """Integers times a factor in float64, without the fraction: as Horovod does it."""
    return array if factor == 1 else (array.astype(numpy.float64) * factor).astype(array.dtype)


def _reduce_host(name: str, op: int, prescale: float, postscale: float, process_set: Any) -> Callable:
    """A function that reduces NumPy arrays together."""

    def is_scaled_here(array: numpy.ndarray) -> bool:
        return array.dtype.kind in "iub" and (prescale != 1 or postscale != 1)

    def reduce(*arrays: numpy.ndarray) -> List[numpy.ndarray]:
        context, requests = job.context(), []
        outputs = [numpy.empty(array.shape, array.dtype) for array in arrays]
        with context.group():
            for i, (array, output) in enumerate(zip(arrays, outputs)):
                here = is_scaled_here(array)
                requests.append(context.allreduce_async(
                    _given(_scale(array, prescale) if here else array), _given(output), name=f"{name}.{i}",
                    op=common.core_reduction(Sum if here and op == Average else op),
                    prescale=1.0 if here else prescale, postscale=1.0 if here else postscale,
                    process_set=process_set.process_set_id))
        for request in requests:
            request.wait()
        return [
            _scale(output, postscale / (process_set.size() if op == Average else 1)) if is_scaled_here(array) else output
            for array, output in zip(arrays, outputs)]

    return reduce


def _reduce(tensors: Sequence[Any], name: str, op: int, prescale: float, postscale: float, process_set: Any) -> List[Any]:
    @tf.custom_gradient
    def reduced(*values: Any) -> Any:
        def gradient(*upstream: Any) -> List[Any]:
            if op not in (Average, Sum):
                raise ValueError(f"allreduce has no gradient for op={common.reduction_name(op)}; use Average or Sum")
            return _reduce(upstream, name + ".gradient", op, prescale, postscale, process_set)

        outputs = _host(
            _reduce_host(name, op, prescale, postscale, process_set), values, [value.dtype for value in values],
            [value.shape for value in values])
        return tuple(outputs), gradient

    return list(reduced(*tensors))


def grouped_allreduce(
    tensors: Sequence[Any], average: Optional[bool] = None, device_dense: str = "", device_sparse: str = "",
    compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: Any = global_process_set, name: Optional[str] = None,
) -> List[Any]:
    """Reduces tensors over the ranks of a set, all or nothing and fused; returns new tensors of the same shapes.

    op: Average (the default), Sum, Min, Max or Product. Integers with factors are scaled in float64. Differentiable for Average
    and Sum. Horovod's device_dense and device_sparse are ignored. Raises HorovodInternalError (in a graph, what TensorFlow
    makes of it, with the same text).
    """
    del device_dense, device_sparse
    op = common.reduction(op, average)
    tensors = [tf.convert_to_tensor(value) for value in tensors]
    if not tensors:
        return []
    packed = [compression.compress(value) for value in tensors]
    outputs = _reduce(
        [value for value, _ in packed], _name("grouped_allreduce", name, process_set), op, prescale_factor, postscale_factor,
        process_set)
    return [compression.decompress(output, context) for output, (_, context) in zip(outputs, packed)]


def _allreduce_slices(slices: Any, name: Optional[str], op: int, process_set: Any) -> Any:
    if op not in (Average, Sum):
        raise ValueError(f"op={common.reduction_name(op)} is not for IndexedSlices; use Average or Sum, or sparse_as_dense")
    values = allgather(slices.values, name and name + ".values", process_set=process_set)
    indices = allgather(slices.indices, name and name + ".indices", process_set=process_set)
    if op == Average:
        values = values / tf.cast(process_set.size(), values.dtype)
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def allreduce(
    tensor: Any, average: Optional[bool] = None, device_dense: str = "", device_sparse: str = "",
    compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, name: Optional[str] = None, process_set: Any = global_process_set,
) -> Any:
    """Reduces a tensor, of one shape on all ranks; see grouped_allreduce(). IndexedSlices are gathered: their rows keep
    their indices, and Average divides them by the size of the set."""
    if isinstance(tensor, tf.IndexedSlices):
        return _allreduce_slices(tensor, name, common.reduction(op, average), process_set)
    return grouped_allreduce(
        [tensor], average, device_dense, device_sparse, compression, op, prescale_factor, postscale_factor, process_set,
        name if name is not None else _name("allreduce", None, process_set))[0]


def allgather(tensor: Any, name: Optional[str] = None, process_set: Any = global_process_set) -> Any:
    """Concatenates the ranks' tensors along the first dimension, in which alone they may differ. Differentiable."""
    tensor, name = tf.convert_to_tensor(tensor), _name("allgather", name, process_set)

    def gather(array: numpy.ndarray) -> List[numpy.ndarray]:
        output = job.context().allgather(_given(array), name=name, process_set=process_set.process_set_id)
        return [_returned(output, array)]

    @tf.custom_gradient
    def gathered(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            rows = allgather(tf.reshape(tf.shape(value)[0], [1]), name + ".rows", process_set)
            total = _reduce([upstream], name + ".gradient", Sum, 1.0, 1.0, process_set)[0]
            return tf.split(total, rows, num=process_set.size())[process_set.rank()]

        return _host(gather, [value], [value.dtype], [[None, *value.shape[1:]]])[0], gradient

    return gathered(tensor)


def grouped_allgather(tensors: Sequence[Any], name: Optional[str] = None, process_set: Any = global_process_set) -> List[Any]:
    """allgather() of several tensors."""
    name = _name("grouped_allgather", name, process_set)
    return [allgather(value, f"{name}.{i}", process_set) for i, value in enumerate(tensors)]


def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None, process_set: Any = global_process_set) -> Any:
    """The root's tensor on every rank of the set; all have the same shape. Differentiable."""
    tensor, name = tf.convert_to_tensor(tensor), _name("broadcast", name, process_set)
    root = process_set._index(root_rank)

    @tf.custom_gradient
    def sent(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            total = _reduce([upstream], name + ".gradient", Sum, 1.0, 1.0, process_set)[0]
            return total if job.rank() == root_rank else tf.zeros_like(total)

        return _host(_broadcast_host(name, root, process_set), [value], [value.dtype], [value.shape])[0], gradient

    return sent(tensor)


def _broadcast_host(name: str, root: int, process_set: Any) -> Callable:
    def send(*arrays: numpy.ndarray) -> List[numpy.ndarray]:
        outputs, context = [numpy.array(array) for array in arrays], job.context()
        for request in [
            context.broadcast_async(_given(output), root, name=f"{name}.{i}", process_set=process_set.process_set_id)
            for i, output in enumerate(outputs)]:
            request.wait()
        return outputs

    return send


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: Any = global_process_set, inplace: bool = False,
) -> None:
    """Gives variables of every rank the root's values. They must be in the same order on all ranks.

    variables: of TensorFlow or of Keras, such as model.variables or optimizer.variables. inplace is ignored.
    """
    del inplace
    variables = [variable for variable in variables if not _is_text(variable)]
    if not variables:
        return None
    host = _broadcast_host(_name("broadcast_variables", None, process_set), process_set._index(root_rank), process_set)
    values = [tf.convert_to_tensor(variable) for variable in variables]
    sent = _host(host, values, [value.dtype for value in values], [value.shape for value in values])
    assigned = [variable.assign(value) for variable, value in zip(variables, sent)]
    return None if tf.executing_eagerly() else tf.group(*[getattr(one, "op", one) for one in assigned if one is not None])


def _is_text(variable: Any) -> bool:
    return tf.as_dtype(variable.dtype) == tf.string


def alltoall(
    tensor: Any, splits: Optional[Any] = None, name: Optional[str] = None, process_set: Any = global_process_set,
) -> Any:
    """Sends rows to every rank of the set and returns those received, in order of rank.

    splits: how many rows go to each; None: as many to each. With splits it returns (rows, how many came from each), as Horovod
    does. Differentiable.
    """
    tensor, name = tf.convert_to_tensor(tensor), _name("alltoall", name, process_set)
    ranks, with_rows = process_set.size(), splits is not None

    def exchange(array: numpy.ndarray, rows_to: numpy.ndarray) -> List[numpy.ndarray]:
        output, rows = job.context().alltoall(
            _given(array), [int(rows) for rows in rows_to], name=name, process_set=process_set.process_set_id)
        return [_returned(output, array), numpy.asarray(rows, numpy.int32)]

    if splits is None:
        splits = tf.repeat(tf.shape(tensor)[0] // ranks, ranks)
    splits = tf.cast(splits, tf.int32)

    @tf.custom_gradient
    def exchanged(value: Any) -> Any:
        output, rows = _host(
            exchange, [value, splits], [value.dtype, tf.int32], [[None, *value.shape[1:]], [ranks]])

        def gradient(upstream: Any, _rows: Any) -> Any:
            return alltoall(upstream, rows, name + ".gradient", process_set)[0]

        return (output, rows), gradient

    output, rows = exchanged(tensor)
    return (output, rows) if with_rows else output


def reducescatter(
    tensor: Any, device_dense: str = "", compression: Any = Compression.none, op: int = Average,
    name: Optional[str] = None, process_set: Any = global_process_set, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces a tensor and returns this rank's rows of the result; the first ranks have one more where they do not divide
    evenly. Differentiable for Average and Sum."""
    del device_dense
    op = common.reduction(op)
    packed, context = compression.compress(tf.convert_to_tensor(tensor))
    name = _name("reducescatter", name, process_set)

    def scatter(array: numpy.ndarray) -> List[numpy.ndarray]:
        output = job.context().reducescatter(
            _given(array), name=name, op=common.core_reduction(op), process_set=process_set.process_set_id,
            prescale=prescale_factor, postscale=postscale_factor)
        return [_returned(output, array)]

    @tf.custom_gradient
    def scattered(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            if op not in (Average, Sum):
                raise ValueError(f"reducescatter has no gradient for op={common.reduction_name(op)}; use Average or Sum")
            factor = prescale_factor * postscale_factor / (process_set.size() if op == Average else 1)
            return allgather(upstream, name + ".gradient", process_set) * tf.cast(factor, upstream.dtype)

        return _host(scatter, [value], [value.dtype], [[None, *value.shape[1:]]])[0], gradient

    return compression.decompress(scattered(packed), context)


def grouped_reducescatter(tensors: Sequence[Any], **options: Any) -> List[Any]:
    """reducescatter() of several tensors."""
    return [reducescatter(value, **options) for value in tensors]


def join() -> int:
    """Takes part with zeros until all ranks have joined, for ranks with fewer batches; returns the rank that joined last."""
    return job.join()


def barrier(process_set: Any = global_process_set) -> None:
    """Waits until all ranks of the set have come."""
    job.barrier(process_set=process_set.process_set_id)


def _number_op(function: Callable[[], int], name: str) -> Callable[..., Any]:
    def op(process_set: Any = global_process_set, name: Optional[str] = name) -> Any:
        value = getattr(process_set, function.__name__, function)() if process_set is not global_process_set else function()
        return tf.constant(value, tf.int32, name=name)

    op.__doc__ = f"{function.__name__}() as a tensor."
    return op


rank_op, size_op = _number_op(job.rank, "HorovodRank"), _number_op(job.size, "HorovodSize")
local_rank_op = _number_op(job.local_rank, "HorovodLocalRank")
local_size_op = _number_op(job.local_size, "HorovodLocalSize")
