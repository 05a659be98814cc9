"""Instead of MirroredStrategy and MultiWorkerMirroredStrategy: Keras trains on handwritten digits, a rank for each replica.

    tuttirun -np 2 python keras_multi_worker.py digits.csv          the replicas of one host (MirroredStrategy)
    tuttirun -H a:4,b:4 python keras_multi_worker.py digits.csv     those of two hosts (MultiWorkerMirroredStrategy)
    TF_CONFIG='{"cluster": {"worker": ["a:1", "b:1"]}}' tuttirun python keras_multi_worker.py digits.csv

digits.csv is examples/digits/data/digits.csv. Any number of ranks that divides the batch gives the same losses.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
import tutti.keras as hvd

GLOBAL_BATCH = 60  # images of a step, over all ranks

hvd.init()  # was: strategy = tf.distribute.MirroredStrategy()
if GLOBAL_BATCH % hvd.size():
    sys.exit(f"the batch of {GLOBAL_BATCH} images cannot be divided among {hvd.size()} ranks")
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

lines = np.loadtxt(sys.argv[1], delimiter=",", dtype=np.float32)
images, digits = lines[:, :64] / 16, lines[:, 64].astype(np.int64)
train, test = slice(0, 1440), slice(1440, None)

# was: experimental_distribute_dataset(), AutoShardPolicy.DATA. All ranks shuffle alike, and each takes every size-th image:
# those of a step are the same on any number of ranks.
dataset = (
    tf.data.Dataset.from_tensor_slices((images[train], digits[train])).shuffle(1440, seed=1)
    .shard(hvd.size(), hvd.rank()).batch(GLOBAL_BATCH // hvd.size(), drop_remainder=True))

# was: with strategy.scope():
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([
    tf.keras.Input((64,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10, activation="softmax"),
])
model.compile(
    loss="sparse_categorical_crossentropy", optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.003)),
    metrics=["accuracy"], jit_compile=False)
hvd.broadcast_variables(model.variables, 0)  # was: mirrored variables

# Losses and metrics are those of all ranks; the average comes before what reads it.
history = model.fit(dataset, epochs=5, shuffle=False, callbacks=[hvd.callbacks.MetricAverageCallback()], verbose=0).history
_, accuracy = model.evaluate(images[test], digits[test], verbose=0)
if hvd.rank() == 0:
    print(f"{hvd.size()} ranks: loss {history['loss'][-1]:.5f}, accuracy {100 * accuracy:.1f} %")
