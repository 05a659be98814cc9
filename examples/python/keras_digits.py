"""A script of Horovod for Keras, unchanged but for its data and model: it trains a small network on handwritten digits.

    tuttirun -np 2 --horovod python keras_digits.py digits.csv

digits.csv is examples/digits/data/digits.csv: a line an image, 64 numbers from 0 to 16 and the digit.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd

# Horovod: initialize, and pin the GPU of the local rank, if there is one.
hvd.init()
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

lines = np.loadtxt(sys.argv[1], delimiter=",", dtype=np.float32)
images, digits = lines[:, :64].reshape(-1, 8, 8, 1) / 16, lines[:, 64].astype(np.int64)
train, test = slice(0, 1440), slice(1440, None)

# Each rank takes every size-th image.
dataset = (
    tf.data.Dataset.from_tensor_slices((images[train], digits[train]))
    .shard(hvd.size(), hvd.rank()).shuffle(1440, seed=1).batch(30, drop_remainder=True))

tf.keras.utils.set_random_seed(1 + hvd.rank())
model = tf.keras.Sequential([
    tf.keras.Input((8, 8, 1)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(10, activation="softmax"),
])

# Horovod: scale the learning rate by the number of ranks, and wrap the optimizer.
learning_rate = 0.001 * hvd.size()
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(learning_rate))
model.compile(loss="sparse_categorical_crossentropy", optimizer=optimizer, metrics=["accuracy"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=learning_rate, warmup_epochs=2),
]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint("digits-{epoch}.keras"))

model.fit(dataset, epochs=8, callbacks=callbacks, verbose=2 if hvd.rank() == 0 else 0)
_, accuracy = model.evaluate(images[test], digits[test], verbose=0)
print(f"rank {hvd.rank()} of {hvd.size()}: accuracy {100 * accuracy:.1f} %")
