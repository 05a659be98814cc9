"""An elastic job of Keras: a rank kills itself in the first start; the second goes on from what was committed."""
import os
import signal
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
try:
    import keras
    import numpy
    import tensorflow as tf
except ImportError as error:
    print(f"skipped: {error}; pip install tensorflow-cpu")
    sys.exit(77)

import tutti.horovod

tutti.horovod.install()
import horovod.tensorflow.keras as hvd
from horovod.tensorflow.elastic import TensorFlowState

EPOCHS, BATCHES, DEATH = 3, 4, 6  # DEATH: after as many batches
hvd.init()
data = numpy.random.default_rng(1).normal(size=(BATCHES, 3)).astype("float32")


def new_model(seed, optimizer):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(optimizer=optimizer, loss="mse")
    return model


def fit(model, first, epochs, callbacks=()):
    left = data[first:]
    model.fit(left, left[:, :2], batch_size=1, shuffle=False, verbose=0, epochs=epochs, callbacks=list(callbacks))


class Death(keras.callbacks.Callback):
    """Counts batches, and kills the last rank when DEATH are committed."""

    def on_train_batch_begin(self, batch, logs=None):
        if state.generation == 1 and len(state.history) == DEATH and hvd.rank() == hvd.size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, batch, logs=None):
        state.history = state.history + [state.generation]


model = new_model(hvd.rank(), hvd.DistributedOptimizer(keras.optimizers.Adam(0.1)))
state = hvd.elastic.KerasState(model, epoch=0, batch=0, history=[])
resets = []
state.register_reset_callbacks([lambda: resets.append((state.epoch, state.batch))])
callbacks = [hvd.elastic.CommitStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state),
             hvd.elastic.UpdateEpochStateCallback(state), Death()]


@hvd.elastic.run
def train(state):
    if state.batch > 0:  # what is left of an epoch
        fit(model, state.batch, 1, callbacks)
    fit(model, 0, EPOCHS - state.epoch, callbacks)
    return "done"


assert train(state) == "done"
assert (state.epoch, state.batch) == (EPOCHS, 0)
assert state.history == [1] * DEATH + [2] * (EPOCHS * BATCHES - DEATH), state.history
assert resets == [divmod(DEATH, BATCHES)], resets
expected = new_model(0, keras.optimizers.Adam(0.1))
fit(expected, 0, EPOCHS)
for got, wanted in zip([*model.weights, *model.optimizer.variables], [*expected.weights, *expected.optimizer.variables]):
    assert numpy.array_equal(got.numpy(), wanted.numpy()), (got, wanted)
state.close()
variable = tf.Variable([1, hvd.rank()], dtype=tf.bfloat16)
plain = TensorFlowState([variable], step=hvd.rank())
plain.save()
variable.assign([7, 7])
plain._load()
assert variable.numpy().tolist() == [1, hvd.rank()] and plain.step == 0
hvd.shutdown()
