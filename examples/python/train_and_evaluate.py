"""Instead of tf.estimator.train_and_evaluate(), and of a loop of one's own with strategy.run(): trains on handwritten digits,
writes checkpoints and TensorBoard's events, evaluates, and goes on from the last checkpoint when it is started again.

    tuttirun -np 2 python train_and_evaluate.py digits.csv FOLDER 120
    tensorboard --logdir FOLDER

digits.csv is examples/digits/data/digits.csv; 120 is the number of steps in all. Only rank 0 reads and writes FOLDER. The
number of ranks may be another when it goes on: it must divide the batch.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
import tutti.tensorflow as hvd

GLOBAL_BATCH = 60  # images of a step, over all ranks
EVALUATE_EVERY = 40  # steps; then there is a checkpoint, too

hvd.init()
data, folder, max_steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
if GLOBAL_BATCH % hvd.size():
    sys.exit(f"the batch of {GLOBAL_BATCH} images cannot be divided among {hvd.size()} ranks")

lines = np.loadtxt(data, delimiter=",", dtype=np.float32)
images, digits = lines[:, :64] / 16, lines[:, 64].astype(np.int64)


def train_input(first_step):
    """Of step first_step and all later ones: this rank's images, in an order that is the same in every run."""
    return (
        tf.data.Dataset.from_tensor_slices((images[:1440], digits[:1440])).shuffle(1440, seed=1).repeat()
        .skip(first_step * GLOBAL_BATCH).shard(hvd.size(), hvd.rank()).batch(GLOBAL_BATCH // hvd.size()))


# Ranks may have different numbers of images here.
test = tf.data.Dataset.from_tensor_slices((images[1440:], digits[1440:])).shard(hvd.size(), hvd.rank()).batch(100)

tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
optimizer = tf.keras.optimizers.Adam(0.003)
optimizer.build(model.trainable_variables)
step = tf.Variable(0, dtype=tf.int64)
losses = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


@tf.function
def train_step(x, y):
    """One step; returns the loss of this rank's images."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(losses(y, model(x, training=True)))
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


def evaluate():
    """Loss and accuracy over the test images of all ranks: sums of each rank are added up, and then divided."""
    sums = np.zeros(3)
    for x, y in test:
        outputs = model(x)
        sums += [tf.reduce_sum(losses(y, outputs)), np.sum(np.argmax(outputs, 1) == y), len(y)]
    loss, right, count = hvd.allreduce(sums, op=hvd.Sum, name="evaluate").numpy()
    return {"loss": loss / count, "accuracy": right / count}


checkpoints = writer = None
if hvd.rank() == 0:
    checkpoints = tf.train.CheckpointManager(tf.train.Checkpoint(model=model, optimizer=optimizer, step=step), folder, 3)
    checkpoints.restore_or_initialize()
    writer = tf.summary.create_file_writer(folder)
hvd.broadcast_variables([step, *model.variables, *optimizer.variables], 0)
if hvd.rank() == 0 and step > 0:
    print(f"goes on from step {int(step)}")

for x, y in train_input(int(step)).take(max(0, max_steps - int(step))):
    loss = train_step(x, y)
    now = int(step.assign_add(1))
    if now % EVALUATE_EVERY and now != max_steps:
        continue
    train_loss, result = hvd.allreduce(loss, name="loss"), evaluate()  # all ranks take part
    if hvd.rank() == 0:
        checkpoints.save(now)
        with writer.as_default(now):
            tf.summary.scalar("loss", train_loss)
            tf.summary.scalar("eval/loss", result["loss"])
            tf.summary.scalar("eval/accuracy", result["accuracy"])
        writer.flush()
        print(f"step {now}: loss {train_loss:.5f}, test loss {result['loss']:.5f}, accuracy {100 * result['accuracy']:.1f} %")
