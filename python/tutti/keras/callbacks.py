"""Horovod's callbacks for Keras 3."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, Optional, Union

import keras
import numpy
import tensorflow as tf

from .. import job
from .._horovod import global_process_set
from ..tensorflow import allreduce, broadcast_variables


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """After the first batch, when all variables exist, gives every rank the root's: weights and the optimizer's state.

    local_variables: a variable of the model, or several, that stay as they are.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = ()):
        super().__init__()
        del device
        self.root_rank, self.broadcast_done, self._local = root_rank, False, []
        is_one = isinstance(local_variables, (keras.Variable, tf.Variable))
        for variable in [local_variables] if is_one else local_variables or ():
            self.register_local_var(variable)

    def register_local_var(self, variable: Any) -> None:
        """This variable stays as it is, too."""
        if not isinstance(variable, (keras.Variable, tf.Variable)):
            raise ValueError(f"local_variables: {variable!r} is no variable")
        self._local.append(_storage(variable))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcasts, once."""
        if self.broadcast_done:
            return
        shared = [each for each in self.model.variables if not any(_storage(each) is local for local in self._local)]
        broadcast_variables([*shared, *self.model.optimizer.variables], self.root_rank)
        self.broadcast_done = True


def _storage(variable: Any) -> Any:
    """TensorFlow's variable in one of Keras."""
    return variable.value if isinstance(variable, keras.Variable) else variable


class MetricAverageCallback(keras.callbacks.Callback):
    """At the end of an epoch replaces the metrics by their average over the ranks. Put it before callbacks that read them."""

    def __init__(self, device: str = "", process_set: Any = global_process_set):
        super().__init__()
        del device
        self.process_set = process_set

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Averages logs in place, in one operation."""
        names = sorted(logs or ())
        if names:
            values = allreduce(
                numpy.array([logs[name] for name in names], numpy.float64), name="MetricAverage", process_set=self.process_set)
            logs.update(zip(names, (float(value) for value in values)))


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Multiplies initial_lr by a number, or by multiplier(epoch), from start_epoch to before end_epoch.

    staircase: at the begin of epochs; otherwise at every batch, with a fraction of an epoch. momentum_correction: while the rate
    changes, momentum is scaled by the same factor for a batch (Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 3).
    steps_per_epoch: batches of an epoch; None: what fit() knows.
    """

    def __init__(
        self, initial_lr: float, multiplier: Union[float, Callable[[float], float]], start_epoch: int = 0,
        end_epoch: Optional[int] = None, staircase: bool = True, momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ):
        super().__init__()
        if initial_lr is None:
            raise ValueError("LearningRateScheduleCallback: initial_lr is required")
        self.initial_lr, self.start_epoch, self.end_epoch = initial_lr, start_epoch, end_epoch
        self.staircase, self.momentum_correction, self.steps_per_epoch = staircase, momentum_correction, steps_per_epoch
        self.multiplier: Callable[[float], float] = multiplier if callable(multiplier) else lambda _epoch: multiplier
        self.current_epoch = 0
        self._momentum: Optional[float] = None

    @property
    def _optimizer(self) -> Any:
        """What has a rate and momentum: the optimizer in a loss scale."""
        return getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)

    def _adjust(self, epoch: float) -> None:
        optimizer = self._optimizer
        before = float(optimizer.learning_rate)
        after = self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = after
        if self.momentum_correction and getattr(optimizer, "momentum", 0) and before:
            self._momentum, optimizer.momentum = optimizer.momentum, optimizer.momentum * after / before

    def _applies(self) -> bool:
        return self.start_epoch <= self.current_epoch and (self.end_epoch is None or self.current_epoch < self.end_epoch)

    def on_train_begin(self, logs: Any = None) -> None:
        """Finds out how many batches an epoch has, and whether momentum can change."""
        if self.momentum_correction and getattr(self._optimizer, "momentum", 0) and not self.model.run_eagerly:
            warnings.warn(
                "momentum_correction is left out: Keras compiles momentum into the step; it needs compile(run_eagerly=True)",
                stacklevel=2)
            self.momentum_correction = False
        if not self.staircase and self.steps_per_epoch is None:
            self.steps_per_epoch = self.params.get("steps")
            if self.steps_per_epoch is None:
                raise ValueError("the number of batches of an epoch is not known; pass steps_per_epoch")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the epoch."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the rate."""
        if self._applies() and (batch == 0 or not self.staircase):
            self._adjust(self.current_epoch + (0 if self.staircase else batch / self.steps_per_epoch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Puts momentum back."""
        if self._momentum is not None:
            self._optimizer.momentum, self._momentum = self._momentum, None

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Adds the rate to the logs."""
        if logs is not None:
            logs["lr"] = float(self._optimizer.learning_rate)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the rate from initial_lr / size to initial_lr in warmup_epochs epochs, batch by batch (Goyal et al., "Accurate, Large
    Minibatch SGD", 2017, section 2.2). initial_lr: already multiplied by the number of ranks."""

    def __init__(
        self, initial_lr: float, warmup_epochs: float = 5, momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None, verbose: int = 0,
    ):
        self.warmup_epochs, self.verbose = warmup_epochs, verbose

        def multiplier(epoch: float) -> float:
            epoch += 1.0 / self.steps_per_epoch  # the last batch ends with the whole
            return (epoch * (job.size() - 1) / warmup_epochs + 1) / job.size()

        super().__init__(
            initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Adds the rate to the logs, and says when it has been reached."""
        super().on_epoch_end(epoch, logs)
        if epoch + 1 == self.end_epoch and self.verbose and job.rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {float(self._optimizer.learning_rate):g}.")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """keras.callbacks.ModelCheckpoint that keeps the best model alone.

    filepath: where; it may also be set as an attribute before training begins, as Horovod's scripts do. Give the callback to one
    rank, or each rank another file.
    """

    def __init__(
        self, monitor: str = "val_loss", verbose: int = 0, save_weights_only: bool = False, mode: str = "auto",
        save_freq: Any = "epoch", filepath: Any = None,
    ):
        super().__init__(
            filepath or ("best.weights.h5" if save_weights_only else "best.keras"), monitor, verbose, True, save_weights_only,
            mode, save_freq)
        self.filepath = self.filepath if filepath else None

    def on_train_begin(self, logs: Any = None) -> None:
        """Asks for a file."""
        if not self.filepath:
            raise ValueError("BestModelCheckpoint: set its filepath before fit()")
        super().on_train_begin(logs)
