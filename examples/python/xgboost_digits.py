#!/usr/bin/env python3
"""Boosted trees that read handwritten digits, grown by XGBoost on all ranks that tuttirun has started:

    tuttirun -np 2 python3 examples/python/xgboost_digits.py

XGBoost has no way to take collectives from outside: its histograms travel over its own, from rank to rank by TCP.
Tutti numbers the ranks, tells them where XGBoost's tracker is, and adds up what the ranks have found.
"""
import argparse
import contextlib
import json
import os

import numpy
import xgboost
from xgboost.tracker import RabitTracker

import tutti

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "digits", "data", "digits.csv")
PARAMETERS = {"objective": "multi:softprob", "num_class": 10, "tree_method": "hist", "max_depth": 4}


@contextlib.contextmanager
def communicator(job):
    """In its block XGBoost's collectives are among the job's ranks, which have the same numbers there."""
    tracker, address = None, b""
    if job.rank == 0:
        # Of several hosts, XGBoost finds the address of this one by which it is reached.
        host = "127.0.0.1" if job.cross_size == 1 else None
        tracker = RabitTracker(job.size, host, sortby="task")
        tracker.start()
        address = json.dumps(tracker.worker_args()).encode()
    arguments = json.loads(bytes(job.allgather(bytearray(address), name="xgboost.tracker")))
    with xgboost.collective.CommunicatorContext(**arguments, dmlc_task_id=f"{job.rank:06}"):
        yield
    if tracker is not None:
        tracker.wait_for()


def train(job, pixels, digits, parameters, rounds):
    """Grows the trees from the rows of all ranks, of which these are this rank's."""
    with communicator(job):
        rows = xgboost.DMatrix(pixels, digits, nthread=parameters["nthread"])
        return xgboost.train(parameters, rows, rounds)


def read(file):
    """Pictures of 8 x 8 pixels, and the digits they show."""
    numbers = numpy.loadtxt(file, delimiter=",", dtype=numpy.float32)
    return numbers[:, :64], numbers[:, 64]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data", default=FILE, help="CSV: 64 pixels and the digit in each line")
    options.add_argument("--rounds", type=int, default=20, help="each grows a tree for each digit")
    options = options.parse_args()

    with tutti.Context() as job:
        pixels, digits = read(options.data)
        parameters = dict(PARAMETERS, nthread=max(1, (os.cpu_count() or 1) // job.local_size))
        mine = numpy.arange(job.rank, 1500, job.size)
        test = numpy.arange(1500 + job.rank, len(pixels), job.size)
        model = train(job, pixels[mine], digits[mine], parameters, options.rounds)
        right = model.predict(xgboost.DMatrix(pixels[test])).argmax(axis=1) == digits[test]
        right, count = job.allreduce(numpy.array([right.sum(), right.size], float))
        if job.rank == 0:
            print(f"{10 * model.num_boosted_rounds()} trees, "
                  f"{100 * right / count:.1f} % of the test digits are read rightly")


if __name__ == "__main__":
    main()
