"""tutti.keras: training equals that of one process with all batches; callbacks, saved models; on any number of ranks."""
import os
import sys
import tempfile

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
try:
    import keras
    import numpy
except ImportError as error:
    print(f"skipped: {error}; pip install tensorflow-cpu")
    sys.exit(77)

import tutti.keras as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
BATCH, STEPS = 6, 4
inputs = numpy.random.default_rng(1).normal(size=(BATCH * STEPS, 4)).astype("float32")
labels = (inputs.sum(axis=1, keepdims=True) > 0).astype("float32")


def new_model(seed):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])


def train(optimizer, x, y, batch, seed=7, **options):
    model = new_model(seed)
    model.compile(optimizer=optimizer, loss="mse")
    history = model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, **options)
    return model, history.history


def mine(array):
    """This rank's part of every batch."""
    return array.reshape(STEPS, size, BATCH // size, -1)[:, rank].reshape(STEPS * BATCH // size, -1)


def near(ours, theirs):
    for a, b in zip(ours, theirs):
        numpy.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


def test_equals_one_process():
    for options in ({}, {"clipnorm": 0.05}):
        alone, _ = train(keras.optimizers.SGD(0.1, momentum=0.5, **options), inputs, labels, BATCH, epochs=2)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5, **options))
        assert type(optimizer).__name__ == "SGD"
        together, _ = train(optimizer, mine(inputs), mine(labels), BATCH // size, epochs=2)
        near(together.get_weights(), alone.get_weights())
    # two batches added up: twice the average of both
    alone, _ = train(keras.optimizers.SGD(0.2), inputs, labels, 2 * BATCH)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2)
    together, _ = train(optimizer, mine(inputs), mine(labels), BATCH // size)
    near(together.get_weights(), alone.get_weights())


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
        every = hvd.allgather(numpy.asarray(values)[None])
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
    assert type(plain.optimizer) is keras.optimizers.Adam
    assert hasattr(again.optimizer, "register_local_var") and int(again.optimizer.iterations) == 3 * STEPS
    for each in (model, again):
        each.fit(mine(inputs), mine(labels), batch_size=BATCH // size, shuffle=False, verbose=0)
    near(again.get_weights(), model.get_weights())


def test_errors():
    try:
        hvd.broadcast_global_variables(0)
        raise AssertionError("there are no global variables")
    except RuntimeError as error:
        assert "BroadcastGlobalVariablesCallback(0)" in str(error)


test_equals_one_process()
test_saved(test_callbacks())
test_errors()
print("passed")
