"""XGBoost beside tutti (examples/python/xgboost_digits.py): the model is that of one process with all rows."""

import os
import sys

import numpy
import xgboost

import tutti

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
import xgboost_digits as example

with tutti.Context() as job:
    pixels, digits = example.read(example.FILE)
    parameters = dict(example.PARAMETERS, nthread=1)
    mine = numpy.arange(len(pixels)) % (2 * job.size - 1) // 2 == job.rank  # the last rank has half as many
    model = example.train(job, pixels[mine], digits[mine], parameters, 8)
    alone = xgboost.train(parameters, xgboost.DMatrix(pixels, digits, nthread=1), 8)
    assert model.num_boosted_rounds() == 8 and model.save_raw() == alone.save_raw()
    with example.communicator(job):  # the next one
        assert (xgboost.collective.get_rank(), xgboost.collective.get_world_size()) == (job.rank, job.size)
