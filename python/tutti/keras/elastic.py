"""Elastic jobs with Keras: a state, and callbacks that keep it up to date in fit(); see docs/python-keras.md."""

from __future__ import annotations

from typing import Any

import keras

from ..tensorflow.elastic import HostsUpdatedInterrupt, TensorFlowKerasState, run


class KerasState(TensorFlowKerasState):
    """The weights of a model, the state of its optimizer, and other objects; see TensorFlowKerasState."""


class CommitStateCallback(keras.callbacks.Callback):
    """Commits the state after every batches_per_commit batches and after every epoch. It does so before the next batch
    or at the end of the training, when all callbacks have seen the one before, whatever their order."""

    def __init__(self, state: Any, batches_per_commit: int = 1):
        super().__init__()
        self.state, self.batches_per_commit, self._left = state, batches_per_commit, batches_per_commit

    def _commit_if_due(self, *_batch_and_logs: Any, **_logs: Any) -> None:
        if self._left <= 0:
            self._left = self.batches_per_commit
            self.state.commit()

    on_epoch_begin = on_train_batch_begin = on_train_end = _commit_if_due

    def on_train_begin(self, logs: Any = None) -> None:
        """Counts from here, as all ranks do."""
        self._left = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts."""
        self._left -= 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Due, whatever the number of batches."""
        self._left = 0


class UpdateBatchStateCallback(keras.callbacks.Callback):
    """Counts in state.batch the batches of the epoch that are done, also those of earlier starts of the job."""

    def __init__(self, state: Any):
        super().__init__()
        self.state = state

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts."""
        self.state.batch += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Begins anew."""
        self.state.batch = 0


class UpdateEpochStateCallback(keras.callbacks.Callback):
    """Counts in state.epoch the epochs that are done, also those of earlier starts of the job."""

    def __init__(self, state: Any):
        super().__init__()
        self.state = state

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Counts."""
        self.state.epoch += 1


__all__ = [
    "CommitStateCallback", "HostsUpdatedInterrupt", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run",
]
