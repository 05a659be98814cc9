"""Elastic jobs, in which ranks may die and hosts come and go: under tuttirun --min-np, see docs/python-keras.md.

What a script goes on from is in a state, and what it does is in a function with the decorator run.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy
import tensorflow as tf

from .._elastic import State, run
from .._horovod import HostsUpdatedInterrupt


class _VariablesState(State):
    """Some attributes are lists of variables, others are objects."""

    def __init__(self, held: Dict[str, List[Any]], capacity: Optional[int], values: Dict[str, Any]):
        self._held = held
        sizes = (tf.as_dtype(variable.dtype).size * int(numpy.prod(variable.shape)) for each in held.values() for variable in each)
        super().__init__(sizes, capacity, values)

    @staticmethod
    def _flat(leaf: Any) -> Any:
        is_tensor = isinstance(leaf, numpy.ndarray) and not leaf.dtype.hasobject
        return numpy.ascontiguousarray(leaf).reshape(-1).view(numpy.uint8) if is_tensor else None

    @staticmethod
    def _empty(shape: Any, dtype: Any) -> numpy.ndarray:
        return numpy.empty(shape, dtype)

    def _get(self, name: str) -> Any:
        if name in self._held:
            return [numpy.asarray(variable.numpy()) for variable in self._held[name]]
        return getattr(self, name)

    def _set(self, name: str, value: Any) -> None:
        if name not in self._held:
            setattr(self, name, value)
            return
        if len(value) != len(self._held[name]):
            raise ValueError(
                f"{type(self).__name__}: {len(value)} variables of {name} were committed, and there are {len(self._held[name])}")
        for variable, array in zip(self._held[name], value):
            variable.assign(array)


class TensorFlowState(_VariablesState):
    """Variables of TensorFlow 2, and other objects, as attributes; equal on all ranks when they are committed.

    capacity: bytes for all of it, equal in each start of the program; by default enough for the variables, and 1 MiB.
    """

    def __init__(self, variables: Sequence[Any], capacity: Optional[int] = None, **others: Any):
        super().__init__({"variables": list(variables)}, capacity, {"variables": variables, **others})


class TensorFlowKerasState(_VariablesState):
    """The weights of a model of Keras, the state of its optimizer, and other objects, as attributes.

    optimizer: None for the one that the model was compiled with. The model must be built; the optimizer is built here.
    backend is ignored. Weights and the rest must be equal on all ranks when they are committed. capacity: see
    TensorFlowState.
    """

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, capacity: Optional[int] = None, **others: Any,
    ):
        del backend
        if not model.built:
            raise ValueError(f"{type(self).__name__}: the model has no weights yet; call model.build(input_shape) first")
        optimizer = optimizer or getattr(model, "optimizer", None)
        if optimizer is not None and not optimizer.built:
            optimizer.build(model.trainable_variables)
        held = {"model": list(model.weights), "optimizer": list(optimizer.variables) if optimizer is not None else []}
        super().__init__(held, capacity, {"model": model, "optimizer": optimizer, **others})


__all__ = ["HostsUpdatedInterrupt", "TensorFlowKerasState", "TensorFlowState", "run"]
