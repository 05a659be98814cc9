"""tutti.tensorflow: operations in eager and graph mode, their gradients, tapes and optimizers; on any number of ranks."""
import os
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
try:
    import numpy
    import tensorflow as tf
except ImportError as error:
    print(f"skipped: {error}; pip install tensorflow-cpu")
    sys.exit(77)

import tutti.tensorflow as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
total = size * (size + 1) // 2  # of the numbers 1 to size


def same(got, expected):
    got = got.numpy() if hasattr(got, "numpy") else numpy.asarray(got)
    expected = numpy.asarray(expected, got.dtype)
    assert got.shape == expected.shape and got.tobytes() == expected.tobytes(), (got, expected)


def both(function, *arguments):
    """Its result, which is the same eagerly and in a graph that runs twice."""
    eager, graph = function(*arguments), tf.function(function)
    for result in (graph(*arguments), graph(*arguments)):
        tf.nest.map_structure(same, result, eager)
    return eager


def test_operations():
    mine = tf.range(6, dtype=tf.float32) * (rank + 1)
    same(both(lambda x: hvd.allreduce(x, op=hvd.Sum), mine), numpy.arange(6) * total)
    same(hvd.allreduce(mine), numpy.arange(6) * total / size)
    same(hvd.allreduce(tf.constant(rank + 1)), total // size)
    same(hvd.allreduce(tf.constant([3]), op=hvd.Sum, prescale_factor=0.5), [size])
    same(hvd.allreduce(tf.cast(mine, tf.bfloat16), op=hvd.Max), tf.cast(tf.range(6) * size, tf.bfloat16))
    same(hvd.allreduce(mine, op=hvd.Sum, compression=hvd.Compression.fp16), numpy.arange(6) * total)
    rows = both(lambda x: hvd.allgather(x), tf.fill([rank + 1, 2], rank))
    same(rows, numpy.repeat(numpy.arange(size), numpy.arange(size) + 1)[:, None] * [1, 1])
    same(both(lambda x: hvd.broadcast(x, size - 1), mine), numpy.arange(6) * size)
    got, came = both(lambda x: hvd.alltoall(x, tf.fill([size], rank + 1)), tf.fill([size * (rank + 1)], rank))
    same(got, numpy.repeat(numpy.arange(size), numpy.arange(size) + 1))
    same(came, numpy.arange(size) + 1)
    same(hvd.reducescatter(tf.range(size * 2) * (rank + 1), op=hvd.Sum), numpy.arange(2 * rank, 2 * rank + 2) * total)
    outputs = both(lambda x: hvd.grouped_allreduce([x, x[:1] + 1], op=hvd.Sum), mine)
    same(outputs[1], [size])
    slices = hvd.allreduce(tf.IndexedSlices(mine[None], tf.constant([rank]), tf.constant([size, 6])), op=hvd.Sum)
    same(tf.convert_to_tensor(slices), numpy.arange(6) * (numpy.arange(size)[:, None] + 1))
    assert int(hvd.size_op()) == size
    assert hvd.allgather_object({"rank": rank}) == [{"rank": each} for each in range(size)]
    assert hvd.broadcast_object("of 0" if rank == 0 else None) == "of 0"


def test_gradients():
    def gradient(function, value):
        with tf.GradientTape() as tape:
            tape.watch(value)
            loss = tf.reduce_sum(function(value)) * (rank + 1)
        return tape.gradient(loss, value)

    mine = tf.ones([2 * size])
    same(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), mine), [total] * 2 * size)
    same(gradient(hvd.allgather, tf.ones([rank + 1])), [total] * (rank + 1))
    same(gradient(lambda x: hvd.broadcast(x, 0), mine), [total if rank == 0 else 0] * 2 * size)
    same(gradient(hvd.alltoall, mine), numpy.repeat(numpy.arange(size) + 1, 2))
    same(gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum), mine), numpy.repeat(numpy.arange(size) + 1, 2))


def test_training():
    variables = [tf.Variable(tf.fill([3], float(rank + 5))), tf.Variable(float(rank)), tf.Variable(1.0)]
    hvd.broadcast_variables(variables, root_rank=0)
    same(variables[0], [5.0] * 3)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variables[0]) * (rank + 1) + variables[1] * 8
        tape = hvd.DistributedGradientTape(tape, op=hvd.Average)
        tape.register_local_var(variables[1])
        return tape.gradient(loss, variables)

    for gradients in (step(), tf.function(step)()):
        same(gradients[0], numpy.full(3, total / size, numpy.float32))
        same(gradients[1], 8 / size)
        assert gradients[2] is None

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # as in TensorFlow 1
        weight = tf.compat.v1.get_variable("weight", initializer=float(rank), use_resource=True)
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
        train = optimizer.minimize(weight * (rank + 1))
        send = hvd.broadcast_global_variables(0)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(send)
        session.run(train)
        same(session.run(weight), numpy.float32(-total / size))


def test_errors():
    try:
        hvd.allreduce(tf.ones([rank + 1]), name="uneven")
        assert size == 1
    except tf.errors.FailedPreconditionError as error:
        assert "uneven" in str(error), error
    try:
        hvd.allreduce(tf.ones([1]), op=hvd.Adasum)
        raise AssertionError("Adasum was taken")
    except hvd.HorovodInternalError as error:
        assert "Adasum" in str(error), error


test_operations()
test_gradients()
test_training()
test_errors()
print("passed")
