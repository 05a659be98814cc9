"""LightGBM over tutti (examples/python/lightgbm_digits.py): the trees are those of one process with all rows."""

import os
import sys

import lightgbm
import numpy
from check import refused, same

import tutti

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
import lightgbm_digits as example


def trees_of(model):
    """Their splits and leaves; not what LightGBM estimates on several ranks: how many rows there were."""
    parts = ("split_feature=", "threshold=", "left_child=", "right_child=", "leaf_value=")
    return [line for line in model.model_to_string().split("\n") if line.startswith(parts)]


def check_trees(job, rounds=8):
    pixels, digits = example.read(example.FILE)
    parameters = dict(example.PARAMETERS, num_threads=1)
    mine = numpy.arange(len(pixels)) % (2 * job.size - 1) // 2 == job.rank  # the last rank has half as many
    model = example.train(job, pixels[mine], digits[mine], parameters, rounds)
    alone = lightgbm.train(parameters, lightgbm.Dataset(pixels, digits), rounds)
    assert model.num_trees() == 10 * rounds and trees_of(model) == trees_of(alone)
    same(model.predict(pixels), alone.predict(pixels))


def check_failure(job):
    """Errors of tutti are LightGBM's errors."""
    pixels, digits = example.read(example.FILE)
    with example.network(job):
        if job.rank == job.size - 1:
            job.abort("the axe is blunt")
        refused(lightgbm.basic.LightGBMError, "the axe is blunt", lightgbm.Dataset(pixels, digits).construct)
    refused(tutti.ContextFailedError, "the axe is blunt", job.close)


with tutti.Context() as job:
    check_trees(job)
if job.size > 1:
    check_failure(tutti.Context())
