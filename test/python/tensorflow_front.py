"""tutti.tensorflow: operations in eager and graph mode, their gradients, tapes and optimizers; on any number of ranks."""
import os
import sys
import tempfile
import warnings

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0", TF_CPP_MIN_LOG_LEVEL="3")
try:
    import numpy
    import tensorflow as tf
except ImportError as error:
    print(f"skipped: {error}; pip install tensorflow-cpu")
    sys.exit(77)

import tutti.tensorflow as hvd
from tutti.tensorflow import compiled

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
    same(hvd.allreduce(tf.constant(rank + 1 + (rank == 0))), (total + 1) // size)  # rounded
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


def weighted(outputs):
    """A loss that is another one on each rank."""
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return sum(
        tf.reduce_sum(output * tf.reshape(tf.cos(tf.range(tf.size(output), dtype=tf.float64) + rank + i), tf.shape(output)))
        for i, output in enumerate(outputs))


def check_gradient(function, shape, factor, process_set):
    """A factor times the derivative of the sum of the losses of all ranks, along a direction, by central differences."""
    value = tf.cos(tf.reshape(tf.range(numpy.prod(shape), dtype=tf.float64), shape) * (rank + 2))
    along = tf.sin(value * 99)

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = weighted(function(x))
        return tape.gradient(loss, x)

    change = weighted(function(value + along / 2)) - weighted(function(value - along / 2))
    for way in (gradient, tf.function(gradient))[:2 if process_set is hvd.global_process_set else 1]:
        both_ways = tf.stack([tf.reduce_sum(way(value) * along), factor * change])
        got, expected = hvd.allreduce(both_ways, op=hvd.Sum, process_set=process_set)
        numpy.testing.assert_allclose(got, expected, rtol=1e-9)


def test_gradients():
    """Horovod's: see the factors in tutti/tensorflow/ops.py."""
    ends = sorted({0, size - 1})
    for process_set in (hvd.global_process_set, hvd.add_process_set(ends)):
        if not process_set.included():
            continue
        ranks, its = process_set.size(), {"process_set": process_set}
        even, uneven = (ranks + 1, 2), (process_set.rank() + 1, 2)
        scale = {"prescale_factor": 0.5, "postscale_factor": 3.0}
        for options in ({"op": hvd.Sum, **scale}, {"op": hvd.Average}):
            check_gradient(lambda x: hvd.grouped_allreduce([x, x[:1] * 2], **options, **its), even, 1, process_set)
            check_gradient(lambda x: hvd.grouped_reducescatter([x, x * 2], **options, **its), even, ranks, process_set)
            check_gradient(lambda x: tf.convert_to_tensor(hvd.allreduce(tf.IndexedSlices(
                x, tf.range(ranks + 1), tf.constant([ranks + 1, 2])), **options, **its)), even, 1 / ranks, process_set)
        check_gradient(lambda x: hvd.grouped_allgather([x * 2, x[:1]], **its), uneven, 1 / ranks, process_set)
        check_gradient(lambda x: hvd.broadcast(x, size - 1, **its), even, 1 / ranks, process_set)
        check_gradient(lambda x: hvd.alltoall(x, [2] + [1] * (ranks - 1), **its)[0], even, 1, process_set)
        check_gradient(lambda x: hvd.alltoall(x[:ranks], **its), even, 1, process_set)
        check_gradient(lambda x: tf.gather(hvd.allreduce(x, **its), [1, 1]), even, 1, process_set)


def test_ranks_outside():
    """A tape with a process set leaves the gradients of the others alone."""
    only = hvd.add_process_set([0])
    variable = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        loss = variable * (rank + 1)
    same(hvd.DistributedGradientTape(tape, process_set=only).gradient(loss, [variable])[0], rank + 1)
    assert int(hvd.size_op(process_set_id=only.process_set_id)) == 1
    included = both(lambda: [hvd.process_set_included_op(only.process_set_id), hvd.process_set_included_op(99)])
    same(included, [int(rank == 0), -3])


def test_sparse():
    """Factors, compression and groups of IndexedSlices; the sum of what ranks give for a row."""
    def slices():
        return tf.IndexedSlices(tf.fill([1, 2], rank + 1.0), tf.constant([rank % 2]), tf.constant([2, 2]))

    sums = numpy.array([sum(range(1, size + 1, 2)), sum(range(2, size + 1, 2))], numpy.float32)[:, None] * [1, 1]
    half = hvd.Compression.fp16

    def reduced():
        dense, sparse = hvd.grouped_allreduce(
            [tf.ones([1]), slices()], op=hvd.Sum, prescale_factor=4.0, postscale_factor=0.5, compression=half)
        return dense, tf.convert_to_tensor(sparse)
    dense, sparse = both(reduced)
    same(dense, [2 * size])
    same(sparse, sums * 2)
    variable = tf.Variable(tf.zeros([2, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(variable, [rank % 2])) * (rank + 1)
    gradient = hvd.DistributedGradientTape(tape, gradient_predivide_factor=2.0).gradient(loss, variable)
    numpy.testing.assert_allclose(tf.convert_to_tensor(gradient), sums / size, rtol=1e-6)


def test_edges():
    """Rows without elements, integers with factors, in place."""
    for gathered in both(lambda x: hvd.grouped_allgather([x, x[:, :0]]), tf.ones([rank + 1, 3])):
        assert len(gathered) == total
    got, came = both(lambda x: hvd.alltoall(x, [1] * size), tf.ones([size, 0]))
    same(came, [1] * size)
    assert got.shape == [size, 0]
    parts = both(lambda x: hvd.reducescatter(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=2.0), tf.fill([size], 3))
    same(parts, [2 * size])
    variables = [tf.Variable(rank), tf.Variable([float(rank)])]
    same(hvd.broadcast_(variables, size - 1, name="in place")[1], [size - 1])
    same(variables[0], size - 1)
    one, odd = tf.TensorSpec(None), tf.ones([2 * size + 1])
    assert "no rows" in refused(hvd.allgather, tf.constant(1.0))
    assert "dimension" in refused(tf.function(hvd.allgather, input_signature=[one]), tf.constant(1.0))
    assert f"rows is {2 * size + 1}, but" in refused(hvd.alltoall, odd, [1] * size)
    assert f"rows is {2 * size + 1}, but" in refused(tf.function(hvd.alltoall), odd, tf.constant([1] * size))
    assert f"for each of {size} ranks" in refused(hvd.alltoall, odd, [odd.shape[0]] + [0] * (2 * size - 1))


def refused(call, *arguments):
    try:
        call(*arguments)
    except (hvd.HorovodInternalError, tf.errors.OpError) as error:
        return str(error)
    raise AssertionError("it was not refused")


def test_graph_of_version_1():
    """Independent collectives of one run, which ranks begin in opposite order, with one thread; one that fails alone."""
    kinds = [
        lambda x, name: hvd.allreduce(x, op=hvd.Sum, name=name), lambda x, name: hvd.allgather(x[:rank + 1], name=name),
        lambda x, name: hvd.broadcast(x, 0, name=name), lambda x, name: hvd.alltoall(x[:size], name=name),
        lambda x, name: hvd.reducescatter(x, op=hvd.Sum, name=name)]
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        order = list(range(20)) if rank % 2 == 0 else list(reversed(range(20)))
        outputs = {i: kinds[i % 5](tf.fill([size * 2], float(rank + 1)) + i, f"of {i}") for i in order}
        for _ in range(5):
            results = session.run(outputs)
            same(results[0], numpy.full(2 * size, total, numpy.float32))
            same(results[1], numpy.repeat(numpy.arange(size) + 2.0, numpy.arange(size) + 1).astype(numpy.float32))
            same(results[2], numpy.full(2 * size, 3, numpy.float32))
            same(results[3], numpy.arange(size, dtype=numpy.float32) + 4)
            same(results[4], numpy.full(2, total + 4 * size, numpy.float32))

        uneven, late = hvd.allreduce(tf.ones([rank + 1]), name="uneven"), hvd.allreduce(tf.fill([9], rank + 1.0), name="late")
        if size > 1:
            words = refused(session.run, [uneven, late] if rank == 0 else uneven)
            assert "uneven" in words, words
            hvd.barrier()  # rank 0 has left the step that submitted `late`
            if rank > 0:
                same(session.run(late), numpy.full(9, total / size, numpy.float32))


def test_names():
    """Ranks that count differently: a function that one rank traces again, and calls before an uneven join."""
    step = tf.function(lambda x: hvd.allreduce(tf.reduce_mean(x) + hvd.allreduce(tf.reduce_sum(x) * 0)))
    for length in (4, 4, 2 if rank == 0 else 4):
        same(step(tf.ones([length])), 1.0)  # retraced by rank 0 alone
    for _ in range(3 + rank):
        hvd.allreduce(tf.ones(1))
    hvd.join()
    same(hvd.allreduce(tf.ones(1)), [1.0])


def test_without_compiler():
    """Functions run as before; graphs of TensorFlow 1 are refused."""
    compiled.library.cache_clear()
    kept = {name: os.environ.get(name) for name in ("CXX", "XDG_CACHE_HOME")}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        os.environ.update(CXX="no-compiler", XDG_CACHE_HOME=folder)
        both(lambda x: hvd.grouped_allgather([x, x[:, :0]]), tf.ones([rank + 1, 3]))
        same(both(lambda x: hvd.reducescatter(x, op=hvd.Sum), tf.ones([size])), [size])
        with tf.Graph().as_default():
            assert "needs a C++ compiler" in refused(hvd.allreduce, tf.ones(1))
    assert ["cannot compile" in str(each.message) for each in caught] == [True], caught
    os.environ.update({name: value for name, value in kept.items() if value is not None})
    os.environ.pop("CXX") if kept["CXX"] is None else None
    compiled.library.cache_clear()


def test_another_context():
    """A function that was traced belongs to no context."""
    function = tf.function(lambda: hvd.allreduce(tf.ones([3]), op=hvd.Sum))
    same(function(), [size] * 3)
    hvd.shutdown()
    assert "not initialised" in refused(function)
    hvd.init()
    same(function(), [size] * 3)


def test_training():
    variables = [tf.Variable(tf.fill([3], float(rank + 5))), tf.Variable(float(rank)), tf.Variable(1.0)]
    hvd.broadcast_variables(variables, root_rank=0)
    same(variables[0], [5.0] * 3)

    class Layer:  # has what a layer of Keras has
        trainable_weights = [variables[1]]

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variables[0]) * (rank + 1) + variables[1] * 8
        return hvd.PartialDistributedGradientTape(tape, op=hvd.Average, local_layers=Layer).gradient(loss, variables)

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
    assert "call it outside" in refused(tf.function(hvd.join, autograph=False))
    assert "Adasum" in refused(lambda: hvd.allreduce(tf.ones([1]), op=hvd.Adasum))


for test in (
        test_operations, test_gradients, test_ranks_outside, test_sparse, test_edges, test_training, test_graph_of_version_1,
        test_names, test_errors, test_without_compiler, test_another_context):
    test()
print("passed")
