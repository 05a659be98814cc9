"""Gradients that are averaged over the ranks: DistributedGradientTape, and optimizers of TensorFlow 1 and Keras."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import tensorflow as tf

from .. import _horovod as common
from .._horovod import Average, Sum, global_process_set
from .compression import Compression
from .ops import broadcast_variables, grouped_allreduce


class Reducer:
    """How gradients are reduced: the arguments that tapes and optimizers share."""

    def __init__(
        self, name: str, compression: Any = Compression.none, sparse_as_dense: bool = False, op: int = Average,
        gradient_predivide_factor: float = 1.0, process_set: Any = global_process_set, scale_local_gradients: bool = True,
    ):
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor is for op=Average")
        self._name, self._compression, self._sparse_as_dense = name, compression, sparse_as_dense
        self._op, self._predivide, self._process_set = common.reduction(op), gradient_predivide_factor, process_set
        self._scale_local, self._local = scale_local_gradients, []  # variables whose gradients stay here

    def register_local_var(self, variable: Any) -> None:
        """This variable belongs to this rank: its gradient is not reduced (and, unless scale_local_gradients=False, divided by
        the number of ranks, as the losses of the others count as well)."""
        self._local.append(_key(variable))

    @tf.autograph.experimental.do_not_convert
    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any] = ()) -> List[Any]:
        """Returns the reduced gradients, in the same order; None stays None. They are one group. Ranks outside the process set
        keep their own."""
        reduced, shared, size = list(gradients), [], self._process_set.size()
        for i, gradient in enumerate(reduced):
            if isinstance(gradient, tf.IndexedSlices) and self._sparse_as_dense:
                reduced[i] = tf.convert_to_tensor(gradient)
            if gradient is None:
                continue
            if not variables or _key(variables[i]) not in self._local:
                shared.append(i)
            elif self._scale_local and isinstance(reduced[i], tf.IndexedSlices):
                reduced[i] = tf.IndexedSlices(gradient.values / size, gradient.indices, gradient.dense_shape)
            elif self._scale_local:
                reduced[i] = reduced[i] / size
        if not shared or not self._process_set.included():
            return reduced
        # As Horovod does it: divided by a part of the size before the sum, and by the rest after it.
        before, after, op = 1.0, 1.0, self._op
        if self._predivide != 1.0:
            before, after, op = 1 / self._predivide, self._predivide / size, Sum
        outputs = grouped_allreduce(
            [reduced[i] for i in shared], compression=self._compression, op=op, prescale_factor=before, postscale_factor=after,
            name=self._name, process_set=self._process_set)
        for i, output in zip(shared, outputs):
            reduced[i] = output
        return reduced


def _key(variable: Any) -> Any:
    return variable.ref() if hasattr(variable, "ref") else id(variable)


@tf.autograph.experimental.do_not_convert
def DistributedGradientTape(
    gradtape: Any, device_dense: str = "", device_sparse: str = "", compression: Any = Compression.none,
    sparse_as_dense: bool = False, op: int = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
    groups: Any = None, process_set: Any = global_process_set, scale_local_gradients: bool = True,
) -> Any:
    """A tf.GradientTape whose gradient() returns gradients that are averaged over the ranks.

    gradtape: a tape that has recorded. num_groups and groups are ignored: tutti fuses. register_local_source(variable) names
    what is not reduced. On ranks outside the process set gradients stay as they are.
    """
    del device_dense, device_sparse, num_groups, groups
    reducer = Reducer(
        "DistributedGradientTape", compression, sparse_as_dense, op, gradient_predivide_factor, process_set,
        scale_local_gradients)

    class Tape(type(gradtape)):
        """See DistributedGradientTape()."""

        def __init__(self) -> None:
            self.__dict__.update(gradtape.__dict__)

        register_local_source = register_local_var = staticmethod(reducer.register_local_var)

        @tf.autograph.experimental.do_not_convert
        def gradient(
            self, target: Any, sources: Any, output_gradients: Any = None,
            unconnected_gradients: Any = tf.UnconnectedGradients.NONE, use_generic_names: bool = False,
        ) -> Any:
            """As that of tf.GradientTape, reduced. Names never depend on those of the graph, as with Horovod's
            use_generic_names."""
            del use_generic_names
            gradients = super().gradient(target, sources, output_gradients, unconnected_gradients)
            flat, variables = tf.nest.flatten(gradients), tf.nest.flatten(sources)
            return tf.nest.pack_sequence_as(gradients, reducer(flat, variables))

    return Tape()


def PartialDistributedGradientTape(gradtape: Any, *arguments: Any, local_layers: Any = None, **options: Any) -> Any:
    """DistributedGradientTape() that leaves the gradients of some layers of Keras on their rank.

    local_layers: a layer or several. The other arguments are those of DistributedGradientTape.
    """
    tape = DistributedGradientTape(gradtape, *arguments, **options)
    for layer in [local_layers] if hasattr(local_layers, "trainable_weights") else local_layers or ():
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape


def DistributedOptimizer(
    optimizer: Any, name: Optional[str] = None, use_locking: bool = False, device_dense: str = "", device_sparse: str = "",
    compression: Any = Compression.none, sparse_as_dense: bool = False, backward_passes_per_step: int = 1,
    op: int = Average, gradient_predivide_factor: float = 1.0, average_aggregated_gradients: bool = False,
    num_groups: int = 0, groups: Any = None, process_set: Any = global_process_set, scale_local_gradients: bool = True,
) -> Any:
    """An optimizer that averages gradients over the ranks before it applies them.

    optimizer: of Keras 3 (see tutti.keras.DistributedOptimizer) or of tf.compat.v1.train.
    """
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from ..keras import DistributedOptimizer as of_keras

        return of_keras(
            optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op,
            backward_passes_per_step, average_aggregated_gradients, num_groups, groups, process_set, scale_local_gradients)
    if backward_passes_per_step != 1:
        raise common.errors.UnsupportedError(
            "backward_passes_per_step with an optimizer of tf.compat.v1 is not offered; use one of Keras")
    reducer = Reducer(
        f"Distributed{name or type(optimizer).__name__}", compression, sparse_as_dense, op, gradient_predivide_factor,
        process_set, scale_local_gradients)

    class Optimizer(tf.compat.v1.train.Optimizer):
        """See DistributedOptimizer()."""

        def __init__(self) -> None:
            super().__init__(name=name or f"Distributed{type(optimizer).__name__}", use_locking=use_locking)

        register_local_var = staticmethod(reducer.register_local_var)

        def compute_gradients(self, *arguments: Any, **options: Any) -> Any:
            """Those of the optimizer, reduced."""
            pairs = optimizer.compute_gradients(*arguments, **options)
            gradients = reducer([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
            return list(zip(gradients, [variable for _, variable in pairs]))

        def apply_gradients(self, *arguments: Any, **options: Any) -> Any:
            """That of the optimizer."""
            return optimizer.apply_gradients(*arguments, **options)

        def get_slot(self, *arguments: Any) -> Any:
            """That of the optimizer."""
            return optimizer.get_slot(*arguments)

        def get_slot_names(self) -> Any:
            """Those of the optimizer."""
            return optimizer.get_slot_names()

        def variables(self) -> Any:
            """Those of the optimizer."""
            return optimizer.variables()

    return Optimizer()


def broadcast_global_variables(root_rank: int) -> Any:
    """An operation that gives all global variables of a graph of TensorFlow 1 the root's values."""
    if tf.executing_eagerly():
        raise RuntimeError("there are no global variables when TensorFlow is eager; call broadcast_variables(model.variables, 0)")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Broadcasts all global variables once the session exists; for Estimators and MonitoredTrainingSession."""

    def __init__(self, root_rank: int, device: str = ""):
        del device
        self._root_rank, self._operation = root_rank, None

    def begin(self) -> None:
        """Adds the operation to the graph, unless it is there."""
        if self._operation is None or self._operation.graph is not tf.compat.v1.get_default_graph():
            self._operation = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs it."""
        session.run(self._operation)
