"""Horovod's API for Keras 3 over TensorFlow, served by tutti: `import tutti.keras as hvd`."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import types
from typing import Any, Dict, Optional, Sequence

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import tensorflow as tf

from .. import errors
from .. import tensorflow as _tensorflow
from .._horovod import (
    Adasum, Average, HorovodInternalError, HostsUpdatedInterrupt, Max, Min, ProcessSet, Product, Sum, add_process_set, ccl_built, cuda_built,
    ddl_built, global_process_set, gloo_built, gloo_enabled, init, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built,
    remove_process_set, rocm_built, start_timeline, stop_timeline,
)
from ..job import (
    cross_rank, cross_size, is_homogeneous, is_initialized, local_rank, local_size, rank, shutdown, size,
)
from ..tensorflow import (
    Compression, allgather_object, broadcast_object, broadcast_variables,
)
from ..tensorflow.gradients import Reducer as _Reducer
from . import callbacks, elastic

if keras.backend.backend() != "tensorflow":
    raise errors.UnsupportedError(
        f"tutti.keras is for Keras over TensorFlow, and KERAS_BACKEND is {keras.backend.backend()}; use tutti.torch for PyTorch")


_reduced = threading.local()  # is_so: within an apply() that has reduced its gradients


def _apply_reduced(optimizer: Any, grads: Sequence[Any], variables: Any) -> None:
    """The apply() of the optimizer's class; what is distributed in it takes the gradients as they are."""
    _reduced.is_so = True
    try:
        type(optimizer).apply(optimizer, grads, variables)
    finally:
        _reduced.is_so = False


def _distribute(optimizer: Any, reducer: Any, passes: int = 1, divisor: int = 1) -> Any:
    """Lets the optimizer's apply() begin with a reduction; it stays the object that it was, and of its class."""
    count = tf.Variable(0, trainable=False, dtype=tf.int64)
    sums: Dict[int, Any] = {}  # by the id of a variable, which lives as long as the optimizer

    def add(grads: Sequence[Any], variables: Sequence[Any]) -> None:
        for gradient, variable in zip(grads, variables):
            if gradient is None:
                continue
            if id(variable) not in sums:
                with tf.init_scope():  # outside of the function that is being traced
                    sums[id(variable)] = tf.Variable(tf.zeros(variable.shape, gradient.dtype), trainable=False)
            sums[id(variable)].assign_add(tf.convert_to_tensor(gradient))
        count.assign_add(1)

    @tf.autograph.experimental.do_not_convert
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        """That of its class, with gradients that are reduced over the ranks."""
        if getattr(_reduced, "is_so", False):
            type(self).apply(self, grads, trainable_variables)
            return
        grads, variables = list(grads), list(self._trainable_variables if trainable_variables is None else trainable_variables)
        if passes == 1 or len(grads) != len(variables):  # of which Keras says what is wrong
            grads = reducer(grads, variables if len(grads) == len(variables) else ())
            _apply_reduced(self, grads, trainable_variables)
            return
        if not self.built:
            self.build(variables)
        add(grads, variables)

        def update() -> None:
            taken = [sums.get(id(variable)) for variable in variables]
            totals = [each if each is None else each / divisor for each in taken]
            _apply_reduced(self, reducer(totals, variables), variables)
            for each in taken:
                if each is not None:
                    each.assign(tf.zeros_like(each))

        def wait() -> None:
            self.iterations.assign_add(1)

        tf.cond(count % passes == 0, update, wait)

    vars(optimizer).update(apply=types.MethodType(apply, optimizer), register_local_var=reducer.register_local_var)
    return optimizer


def _is_distributed(optimizer: Any) -> bool:
    """True of one that is, and of one that is around such."""
    within = [optimizer, getattr(optimizer, "inner_optimizer", optimizer), *getattr(optimizer, "optimizers", ())]
    return any("register_local_var" in vars(each) for each in within)


_apply_plain = keras.optimizers.LossScaleOptimizer.apply


@functools.wraps(_apply_plain)
def _apply_scaled(self: Any, grads: Any, trainable_variables: Any = None) -> None:
    """A loss scale around a distributed optimizer, such as compile() makes for mixed_float16, reduces in its place: it must
    look for overflows in what is reduced, so that all ranks see the same."""
    inner = self.inner_optimizer
    if getattr(_reduced, "is_so", False) or not _is_distributed(inner):
        _apply_plain(self, grads, trainable_variables)
    elif "apply" in vars(inner):
        inner.apply.__func__(self, grads, trainable_variables)
    else:
        raise errors.InvalidError(
            "LossScaleOptimizer around distributed optimizers of parts of a model: each rank would see its own overflows; "
            "give DistributedOptimizer the optimizer that is around all of them")


keras.optimizers.LossScaleOptimizer.apply = _apply_scaled
_numbers = itertools.count()


def _name(optimizer: Any) -> str:
    """Equal on all ranks, also where one has loaded the optimizer, or has made others: Keras counts all of them."""
    return f"Distributed{type(getattr(optimizer, 'inner_optimizer', optimizer)).__name__}.{next(_numbers)}"


def DistributedOptimizer(
    optimizer: Any, name: Optional[str] = None, device_dense: str = "", device_sparse: str = "",
    compression: Any = Compression.none, sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
    op: int = Average, backward_passes_per_step: int = 1, average_aggregated_gradients: bool = False, num_groups: int = 0,
    groups: Any = None, process_set: Any = global_process_set, scale_local_gradients: bool = True,
) -> Any:
    """Lets a Keras optimizer average gradients over the ranks before it does anything with them; returns that optimizer.

    optimizer: any of Keras 3, also one around others, such as LossScaleOptimizer; not used yet, as a function that was traced
    would go on without the average. Its class stays, so that saved models load without tutti; what is made of its config is
    not distributed. backward_passes_per_step: gradients of as many batches are added up before they are reduced, and
    optimizer.iterations counts all of them; average_aggregated_gradients: and averaged. num_groups and groups are ignored:
    tutti fuses. Raises InvalidError, UnsupportedError or ValueError for what it cannot do.
    """
    del device_dense, device_sparse, num_groups, groups
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise errors.UnsupportedError(f"{type(optimizer).__name__} is no optimizer of Keras 3; tutti.keras needs Keras 3")
    if _is_distributed(optimizer):
        raise errors.InvalidError(f"DistributedOptimizer: {optimizer.name} is distributed already; wrap it once")
    if optimizer.built:
        raise errors.InvalidError(
            f"DistributedOptimizer: {optimizer.name} has been used already; wrap it before, or use hvd.load_model()")
    if backward_passes_per_step > 1 and optimizer.gradient_accumulation_steps:
        raise errors.InvalidError(
            f"backward_passes_per_step={backward_passes_per_step} and {optimizer.name}'s gradient_accumulation_steps="
            f"{optimizer.gradient_accumulation_steps} do the same; give one, the first to reduce less often")
    reducer = _Reducer(
        name or _name(optimizer), compression, sparse_as_dense, op, gradient_predivide_factor, process_set,
        scale_local_gradients)
    if op not in (Average, Sum):
        raise ValueError("op of DistributedOptimizer must be Average or Sum")
    return _distribute(
        optimizer, reducer, backward_passes_per_step, backward_passes_per_step if average_aggregated_gradients else 1)


def PartialDistributedOptimizer(optimizer: Any, name: Optional[str] = None, *, local_layers: Any = None, **options: Any) -> Any:
    """DistributedOptimizer() in which the weights of some layers are this rank's own: see register_local_var().

    local_layers: a layer, or several; they must have their weights, that is, be built. The rest as for
    DistributedOptimizer().
    """
    layers = [local_layers] if isinstance(local_layers, keras.layers.Layer) else list(local_layers or ())
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"local_layers: {layer!r} is no layer of Keras")
        if not layer.built:
            raise ValueError(f"local_layers: {layer.name} has no weights yet; build the model first")
    optimizer = DistributedOptimizer(optimizer, name, **options)
    for variable in (variable for layer in layers for variable in layer.trainable_weights):
        optimizer.register_local_var(variable)
    return optimizer


def load_model(
    filepath: Any, custom_optimizers: Any = None, custom_objects: Optional[Dict[str, Any]] = None,
    compression: Any = Compression.none, legacy_opts: bool = False, **options: Any,
) -> Any:
    """keras.models.load_model(), with the model's optimizer made distributed and its state kept."""
    if legacy_opts:
        raise errors.UnsupportedError("load_model(legacy_opts=True): Keras 3 has no legacy optimizers")
    objects = {each.__name__: each for each in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})}, **options)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        _distribute(optimizer, _Reducer(_name(optimizer), compression))
    return model


def allreduce(
    value: Any, name: Optional[str] = None, average: Optional[bool] = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, op: Optional[int] = None, compression: Any = Compression.none,
    process_set: Any = global_process_set,
) -> Any:
    """Reduces a number, an array or a tensor; returns a tensor."""
    return _tensorflow.allreduce(
        value, average, compression=compression, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
        name=name, process_set=process_set)


def allgather(value: Any, name: Optional[str] = None, process_set: Any = global_process_set) -> Any:
    """Concatenates the ranks' arrays along the first dimension; returns a tensor."""
    return _tensorflow.allgather(value, name, process_set)


def broadcast(value: Any, root_rank: int, name: Optional[str] = None, process_set: Any = global_process_set) -> Any:
    """The root's value on every rank; returns a tensor."""
    return _tensorflow.broadcast(value, root_rank, name, process_set)


def reducescatter(value: Any, name: Optional[str] = None, op: int = Average, process_set: Any = global_process_set) -> Any:
    """Reduces an array and returns this rank's rows of the result, a tensor."""
    return _tensorflow.reducescatter(value, op=op, name=name, process_set=process_set)


def broadcast_global_variables(root_rank: int) -> None:
    """Keras 3 has no global variables: raises RuntimeError that says what to call."""
    raise RuntimeError(
        f"Keras 3 has no global variables; use hvd.callbacks.BroadcastGlobalVariablesCallback({root_rank}), or "
        f"hvd.broadcast_variables(model.variables, {root_rank})")


__all__ = [
    name for name in dir()
    if not name.startswith("_") and name not in ("annotations", "errors", "functools", "itertools", "keras", "os", "tf", "threading", "types")]
