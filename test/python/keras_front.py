"""tutti.keras: training equals that of one process with all batches; callbacks, saved models; on any number of ranks."""
import os
import sys
import tempfile

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
try:
    import keras
    import numpy
    import tensorflow as tf
    from keras.optimizers import SGD, AdamW, LossScaleOptimizer, MultiOptimizer, OptimizerMap
except ImportError as error:
    print(f"skipped: {error}; pip install tensorflow-cpu")
    sys.exit(77)

from check import refused

import tutti
import tutti.keras as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
BATCH, STEPS = 6, 4
inputs = numpy.random.default_rng(1).normal(size=(BATCH * STEPS, 4)).astype("float32")
labels = (inputs.sum(axis=1, keepdims=True) > 0).astype("float32")


def new_model(seed):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])


def train(optimizer, x, y, batch, is_eager=False, **options):
    model = new_model(7)
    model.compile(optimizer=optimizer, loss="mse", run_eagerly=is_eager)
    history = model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, **options)
    return model, history.history


def mine(array):
    """This rank's part of every batch."""
    return array.reshape(STEPS, size, BATCH // size, -1)[:, rank].reshape(STEPS * BATCH // size, -1)


def near(ours, theirs):
    for a, b in zip(ours, theirs):
        numpy.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Cannot be remade: no get_config()."""

    def __call__(self, step):
        return 0.1 / (1.0 + tf.cast(step, tf.float32))


@keras.saving.register_keras_serializable(package="test")
class Own(keras.optimizers.Optimizer):
    """Does everything in apply(), and its config lacks an argument."""

    def __init__(self, gain=1.0, learning_rate=0.1, **options):
        super().__init__(learning_rate, **options)
        self.gain = gain

    def apply(self, grads, trainable_variables=None):
        if not self.built:
            self.build(trainable_variables)
        for gradient, variable in zip(grads, trainable_variables):
            variable.assign_sub(self.gain * gradient)
        self.iterations.assign_add(1)


def excluding():
    optimizer = AdamW(0.01, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def scaled(inner, growth=3):
    return LossScaleOptimizer(inner, initial_scale=8.0, dynamic_growth_steps=growth)


def test_equals_one_process():
    for is_eager, make in (
            (False, lambda: SGD(Schedule(), momentum=0.5)), (False, lambda: scaled(SGD(lambda: 0.1, clipnorm=0.05))),
            (False, lambda: SGD(0.1, gradient_accumulation_steps=2)), (True, excluding), (True, lambda: Own(gain=0.05)),
            (True, lambda: SGD(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3)),
            (True, lambda: MultiOptimizer(OptimizerMap(SGD(0.1), {".*bias": keras.optimizers.Adam(0.1)})))):
        alone, _ = train(make(), inputs, labels, BATCH, is_eager=True, epochs=2)
        plain = make()
        kind, optimizer = type(plain), hvd.DistributedOptimizer(plain)
        assert optimizer is plain and type(optimizer) is kind
        together, _ = train(optimizer, mine(inputs), mine(labels), BATCH // size, is_eager, epochs=2)
        near(together.get_weights(), alone.get_weights())
    for is_averaged, rate in ((False, 0.05), (True, 0.1)):  # of two batches
        alone, _ = train(SGD(0.1, momentum=0.5), inputs, labels, 2 * BATCH, is_eager=True)
        optimizer = hvd.DistributedOptimizer(
            SGD(rate, momentum=0.5), backward_passes_per_step=2, average_aggregated_gradients=is_averaged)
        together, _ = train(optimizer, mine(inputs), mine(labels), BATCH // size, is_eager=is_averaged)
        near(together.get_weights(), alone.get_weights())
        assert int(optimizer.iterations) == STEPS


def test_overflow():
    """What overflows on one rank is left out on all, as in one process."""
    bad = labels.copy()
    bad[2 * BATCH - 1] = numpy.inf  # of the last rank
    for passes in (1, 2):
        options = dict(backward_passes_per_step=passes, average_aggregated_gradients=True)
        alone, _ = train(scaled(SGD(0.1)), inputs, bad, passes * BATCH, is_eager=True)
        if rank == 0:
            SGD(0.1)  # Keras numbers what follows otherwise than on other ranks
        for make in (lambda: hvd.DistributedOptimizer(scaled(SGD(0.1)), **options),
                     lambda: scaled(hvd.DistributedOptimizer(SGD(0.1), **options))):
            together, _ = train(make(), mine(inputs), mine(bad), BATCH // size, is_eager=passes > 1)
            near(together.get_weights(), alone.get_weights())
            assert float(together.optimizer.dynamic_scale) == float(alone.optimizer.dynamic_scale)
    keras.config.set_dtype_policy("mixed_float16")
    together, _ = train(hvd.DistributedOptimizer(SGD(0.1)), mine(inputs), mine(bad), BATCH // size)
    together.compile(optimizer=together.optimizer.inner_optimizer, loss="mse")  # another loss scale around it
    together.fit(mine(inputs), mine(labels), batch_size=BATCH // size, shuffle=False, verbose=0)
    keras.config.set_dtype_policy("float32")
    state = numpy.append(together.get_weights()[0], together.optimizer.dynamic_scale)  # compile() has made the loss scale
    every = hvd.allgather(state[None]).numpy()
    assert (every == every[0]).all() and numpy.isfinite(every).all(), every


def test_local_layers():
    """Their weights stay different, and get gradients of this rank alone."""
    model = new_model(rank)
    first, last = model.layers
    optimizer = hvd.PartialDistributedOptimizer(SGD(0.1), local_layers=first, scale_local_gradients=False)
    model.compile(optimizer=optimizer, loss="mse")
    before = first.get_weights()
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=first.weights)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(mine(inputs)) - mine(labels)) ** 2)
    gradients = tape.gradient(loss, first.trainable_weights)
    model.fit(mine(inputs), mine(labels), batch_size=len(mine(inputs)), verbose=0, callbacks=[callback])
    near(first.get_weights(), [weight - 0.1 * gradient for weight, gradient in zip(before, gradients)])
    every = hvd.allgather(last.get_weights()[0][None]).numpy()
    assert (every == every[0]).all(), every
    refused(ValueError, "has no weights yet", hvd.PartialDistributedOptimizer, SGD(0.1), local_layers=keras.layers.Dense(1))


def test_callbacks():
    rates = []
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.1 * size, warmup_epochs=2),
        hvd.callbacks.LearningRateScheduleCallback(0.1 * size, 0.5, start_epoch=2),
        keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: rates.append(float(model.optimizer.learning_rate))),
    ]
    model = new_model(rank)
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.1)), loss="mse")
    history = model.fit(mine(inputs), mine(labels), batch_size=BATCH // size, epochs=3, verbose=0, callbacks=callbacks).history
    for values in (*model.get_weights(), history["loss"], rates):  # all ranks have the same
        every = hvd.allgather(numpy.asarray(values)[None]).numpy()
        assert (every == every[0]).all(), every
    steps = numpy.minimum(numpy.arange(1, 3 * STEPS + 1), 2 * STEPS) / (2 * STEPS)
    expected = 0.1 * (1 + steps * (size - 1)) * numpy.where(numpy.arange(3 * STEPS) < 2 * STEPS, 1, 0.5)
    numpy.testing.assert_allclose(rates, expected, rtol=1e-6)
    return model


def test_saved(model):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        plain, again = keras.models.load_model(path), hvd.load_model(path)
        own, _ = train(hvd.DistributedOptimizer(Own()), mine(inputs), mine(labels), BATCH // size, is_eager=True)
        own.save(path)
        assert type(hvd.load_model(path).optimizer) is Own
    assert type(plain.optimizer) is keras.optimizers.Adam
    assert hasattr(again.optimizer, "register_local_var") and int(again.optimizer.iterations) == 3 * STEPS
    for each in (model, again):
        each.fit(mine(inputs), mine(labels), batch_size=BATCH // size, shuffle=False, verbose=0)
    near(again.get_weights(), model.get_weights())
    # The best model is that of the first epoch, as the rate is too high.
    with tempfile.TemporaryDirectory() as folder:
        best = hvd.callbacks.BestModelCheckpoint(monitor="loss", save_weights_only=True)
        refused(ValueError, "set its filepath", best.on_train_begin)
        best.filepath = os.path.join(folder, "{epoch}.weights.h5")
        train(SGD(9.0), inputs, labels, BATCH, is_eager=True, epochs=2, callbacks=[best])
        assert os.listdir(folder) == ["1.weights.h5"], os.listdir(folder)


def test_errors():
    refused(RuntimeError, "BroadcastGlobalVariablesCallback(0)", hvd.broadcast_global_variables, 0)
    refused(tutti.UnsupportedError, "int is no optimizer", hvd.DistributedOptimizer, 3)
    refused(tutti.UnsupportedError, "legacy", hvd.load_model, "a", legacy_opts=True)
    refused(ValueError, "Average or Sum", hvd.DistributedOptimizer, SGD(0.1), op=hvd.Max)
    refused(tutti.InvalidError, "do the same", hvd.DistributedOptimizer, SGD(0.1, gradient_accumulation_steps=2),
            backward_passes_per_step=2)
    optimizer = hvd.DistributedOptimizer(SGD(0.1))
    refused(tutti.InvalidError, "distributed already", hvd.DistributedOptimizer, optimizer)
    refused(tutti.InvalidError, "distributed already", hvd.DistributedOptimizer, scaled(optimizer))
    refused(tutti.InvalidError, "around all of them", scaled(MultiOptimizer(OptimizerMap(optimizer))).apply,
            [tf.zeros(1)], [keras.Variable([0.0])])
    used = SGD(0.1)
    used.build([])
    refused(tutti.InvalidError, "has been used already", hvd.DistributedOptimizer, used)


test_equals_one_process()
test_overflow()
test_local_layers()
test_saved(test_callbacks())
test_errors()
print("passed")
