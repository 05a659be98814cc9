#!/usr/bin/env python3
"""Boosted trees that read handwritten digits, grown by LightGBM on all ranks, over tutti:

    tuttirun -np 2 python3 examples/python/lightgbm_digits.py

LightGBM takes its collectives from outside as two functions of C. They are examples/lightgbm/network.cpp, which
the build makes liblightgbm_network.so; without a build:

    c++ -std=c++17 -O2 -shared -fPIC -o liblightgbm_network.so network.cpp $(pkg-config --cflags --libs tutti)
"""
import argparse
import contextlib
import ctypes
import os

import lightgbm
import numpy

import tutti

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "..", "digits", "data", "digits.csv")
NETWORK = os.environ.get("LIGHTGBM_NETWORK", os.path.join(HERE, "..", "..", "build", "lib", "liblightgbm_network.so"))

# With these the trees are those of one process with all rows, to the bit. On several ranks LightGBM estimates how many
# rows a leaf has from their Hessians, so it is the Hessians that limit the leaves; and in large trees of so little data
# splits that gain nothing, but for a rounding error, would compete.
PARAMETERS = {
    "objective": "multiclass", "num_class": 10, "learning_rate": 0.3, "num_leaves": 8, "min_data_in_leaf": 0,
    "min_sum_hessian_in_leaf": 1.0, "verbosity": -1,
}


@contextlib.contextmanager
def network(job, file=NETWORK):
    """In its block LightGBM's collectives, of this thread, are those of the job's ranks."""
    if not os.path.exists(file):
        raise FileNotFoundError(f"{file} is missing: build it, and set LIGHTGBM_NETWORK to where it is")
    functions, lib = ctypes.CDLL(file), lightgbm.basic._LIB
    functions.lightgbm_network_use(job.handle)
    lightgbm.basic._safe_call(lib.LGBM_NetworkInitWithFunctions(
        job.size, job.rank, functions.lightgbm_reduce_scatter, functions.lightgbm_allgather))
    try:
        yield
    finally:
        lib.LGBM_NetworkFree()


def bins_of(job, pixels, parameters, most=200000):
    """The bins of a sample of all ranks' rows, made by every rank alike.

    LightGBM's own way, in which each rank bins some of the features by its own rows, gives other bins for each
    number of ranks.
    """
    own = pixels[::max(1, len(pixels) * job.size // most)]
    return lightgbm.Dataset(job.allgather(own.copy(), name="lightgbm.bins"), params=parameters).construct()


def train(job, pixels, digits, parameters, rounds):
    """Grows the trees from the rows of all ranks, of which these are this rank's."""
    parameters = dict(parameters, tree_learner="data", num_machines=job.size)
    bins = bins_of(job, pixels, parameters)
    with network(job):
        rows = lightgbm.Dataset(pixels, digits, reference=bins, params=parameters)
        return lightgbm.train(parameters, rows, rounds)


def read(file):
    """Pictures of 8 x 8 pixels, and the digits they show."""
    numbers = numpy.loadtxt(file, delimiter=",", dtype=numpy.float32)
    return numbers[:, :64].copy(), numbers[:, 64]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data", default=FILE, help="CSV: 64 pixels and the digit in each line")
    options.add_argument("--rounds", type=int, default=20, help="each grows a tree for each digit")
    options = options.parse_args()

    with tutti.Context() as job:
        pixels, digits = read(options.data)
        parameters = dict(PARAMETERS, num_threads=max(1, (os.cpu_count() or 1) // job.local_size))
        mine = numpy.arange(job.rank, 1500, job.size)
        test = numpy.arange(1500 + job.rank, len(pixels), job.size)
        model = train(job, pixels[mine], digits[mine], parameters, options.rounds)
        right = model.predict(pixels[test]).argmax(axis=1) == digits[test]
        right, count = job.allreduce(numpy.array([right.sum(), right.size], float))
        if job.rank == 0:
            print(f"{model.num_trees()} trees, {100 * right / count:.1f} % of the test digits are read rightly")


if __name__ == "__main__":
    main()
