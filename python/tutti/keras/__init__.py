"""Horovod's API for Keras 3 over TensorFlow, served by tutti: `import tutti.keras as hvd`."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy

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


def DistributedOptimizer(
    optimizer: Any, name: Optional[str] = None, device_dense: str = "", device_sparse: str = "",
    compression: Any = Compression.none, sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
    op: int = Average, backward_passes_per_step: int = 1, average_aggregated_gradients: bool = False, num_groups: int = 0,
    groups: Any = None, process_set: Any = global_process_set, scale_local_gradients: bool = True,
) -> Any:
    """A Keras optimizer like the given one that averages gradients over the ranks before it clips and applies them.

    It is an object of a class of the same name, so that saved models load without tutti. Its state is new, as that of the one
    given must be. backward_passes_per_step: gradients of as many batches are added up before they are reduced;
    average_aggregated_gradients: and averaged (Keras averages them itself, and otherwise they are multiplied back).
    num_groups and groups are ignored: tutti fuses.
    """
    del device_dense, device_sparse, num_groups, groups
    base = type(optimizer)
    if not hasattr(base, "_clip_gradients"):
        raise errors.UnsupportedError(f"{base.__name__} is no optimizer of Keras 3; tutti.keras needs Keras 3")
    if optimizer.built:
        raise errors.InvalidError("DistributedOptimizer: the optimizer has been used already; wrap it before")
    reducer = _Reducer(
        f"Distributed{name or optimizer.name}", compression, sparse_as_dense, op, gradient_predivide_factor, process_set,
        scale_local_gradients)

    reducing: list = []  # variables; an attribute would become part of the optimizer's state

    class Distributed(base):
        """See DistributedOptimizer()."""

        register_local_var = staticmethod(reducer.register_local_var)

        def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
            """As that of Keras, with reduced gradients."""
            pairs = zip(grads, self._trainable_variables if trainable_variables is None else trainable_variables)
            reducing[:] = [variable for gradient, variable in pairs if gradient is not None]
            return super().apply(grads, trainable_variables)

        def _clip_gradients(self, grads: Any) -> Any:
            """Keras clips what it is about to apply, accumulated or not: what is to be reduced."""
            reduced = reducer(grads, reducing if len(reducing) == len(grads) else ())
            if backward_passes_per_step > 1 and not average_aggregated_gradients:
                reduced = [gradient * backward_passes_per_step for gradient in reduced]
            return super()._clip_gradients(reduced)

    Distributed.__name__, Distributed.__qualname__ = base.__name__, base.__qualname__
    Distributed.__module__ = base.__module__
    config = optimizer.get_config()
    if backward_passes_per_step > 1:
        config["gradient_accumulation_steps"] = backward_passes_per_step
    return Distributed.from_config(config)


def load_model(
    filepath: Any, custom_optimizers: Any = None, custom_objects: Optional[Dict[str, Any]] = None,
    compression: Any = Compression.none, **options: Any,
) -> Any:
    """keras.models.load_model(), with the model's optimizer made distributed and its state kept."""
    objects = {each.__name__: each for each in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})}, **options)
    if getattr(model, "optimizer", None) is not None:
        state = [variable.numpy() for variable in model.optimizer.variables]
        plain = type(model.optimizer).from_config(model.optimizer.get_config())
        optimizer = DistributedOptimizer(plain, compression=compression)
        optimizer.build(model.trainable_variables)
        for variable, value in zip(optimizer.variables, state):
            variable.assign(value)
        model.optimizer = optimizer
    return model


def allreduce(
    value: Any, name: Optional[str] = None, average: Optional[bool] = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, op: Optional[int] = None, compression: Any = Compression.none,
    process_set: Any = global_process_set,
) -> Any:
    """Reduces a number, an array or a tensor; returns a NumPy array."""
    return _tensorflow.allreduce(
        value, average, compression=compression, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
        name=name, process_set=process_set).numpy()


def allgather(value: Any, name: Optional[str] = None, process_set: Any = global_process_set) -> Any:
    """Concatenates the ranks' arrays along the first dimension; returns a NumPy array."""
    return _tensorflow.allgather(value, name, process_set).numpy()


def broadcast(value: Any, root_rank: int, name: Optional[str] = None, process_set: Any = global_process_set) -> Any:
    """The root's array on every rank; returns a NumPy array."""
    return _tensorflow.broadcast(value, root_rank, name, process_set).numpy()


def reducescatter(value: Any, name: Optional[str] = None, op: int = Average, process_set: Any = global_process_set) -> Any:
    """Reduces an array and returns this rank's rows of the result, a NumPy array."""
    return _tensorflow.reducescatter(value, op=op, name=name, process_set=process_set).numpy()


def broadcast_global_variables(root_rank: int) -> None:
    """Keras 3 has no global variables: raises RuntimeError that says what to call."""
    raise RuntimeError(
        f"Keras 3 has no global variables; use hvd.callbacks.BroadcastGlobalVariablesCallback({root_rank}), or "
        f"hvd.broadcast_variables(model.variables, {root_rank})")


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "keras", "numpy", "os", "errors")]
