"""Values of all collectives, from arrays of all kinds, compared by bits."""

import array
import ctypes

import numpy as np
from check import same

import tutti
from tutti import tensor

TYPES = ("uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split())


class OnlyDLPack:
    """What JAX arrays of bfloat16 are like: no buffer, no array interface."""

    def __init__(self, of):
        self.of = of

    def __dlpack__(self, **_options):
        return self.of.__dlpack__()


class LikeTorch:
    """What is asked of torch tensors."""

    class device:
        type = "cpu"

    def __init__(self, bits):
        self.bits, self.shape, self.dtype = bits, bits.shape, "torch.bfloat16"

    def is_contiguous(self):
        return True

    def data_ptr(self):
        return self.bits.ctypes.data

    def new_empty(self, shape):
        return LikeTorch(np.empty(shape, np.uint16))


def mine(rank, dtype, shape=(3, 2)):
    """Inputs that differ on each rank and in each element, and are small enough for uint8."""
    return (np.arange(np.prod(shape)).reshape(shape) % 7 + 3 * rank + 1).astype(dtype)


def check_types(job):
    ranks = range(job.size)
    for dtype in TYPES:
        x = mine(job.rank, dtype)
        every = np.stack([mine(r, dtype) for r in ranks])
        kept = x.copy()
        same(job.allreduce(x), every.sum(0, dtype=dtype), dtype)
        same(x, kept)  # the input stays
        same(job.allreduce(x, op=tutti.MAX), every.max(0), dtype)
        same(job.allreduce(x, op=tutti.MIN), every.min(0), dtype)
        same(job.allreduce(x, op=tutti.PRODUCT), every.prod(0, dtype=dtype), dtype)
        same(job.allreduce(x, x), every.sum(0, dtype=dtype), dtype)  # in place
        same(job.allgather(kept), every.reshape(-1, 2), dtype)
    same(job.allreduce(np.array([job.rank > 0, True]), op=tutti.MAX),
         np.array([job.size > 1, True]))
    whole = np.full(4, 7 * (job.rank + 1))
    same(job.allreduce(whole, op=tutti.AVERAGE), np.full(4, 7 * sum(r + 1 for r in ranks) // job.size))
    same(job.allreduce(np.float32(2) * np.ones((), np.float32), prescale=0.5, postscale=4),
         np.array(4 * job.size, np.float32))


def check_bfloat16(job):
    bits = np.array([0x3F80, 0x4000, 0xC040 + job.rank], np.uint16)  # 1, 2, -3 and a little
    wide = [np.array([0x3F800000, 0x40000000, (0xC040 + r) << 16], np.uint32).view(np.float32)
            for r in range(job.size)]
    total = sum(wide[1:], wide[0]).view(np.uint32)
    expected = ((total + 0x7FFF + ((total >> 16) & 1)) >> 16).astype(np.uint16)
    given = tutti.as_tensor(bits, dtype="bfloat16")
    same(job.allreduce(given), expected)
    same(job.allreduce(given, given).owner, expected)  # in place
    other = LikeTorch(np.array([0x3F80, 0x4000, 0xC040 + job.rank], np.uint16))
    same(job.allreduce(other).bits, expected)
    same(job.allgather(other).bits[:3], np.array([0x3F80, 0x4000, 0xC040], np.uint16))


def check_kinds(job):
    total = sum(range(job.size))
    numbers = array.array("i", [job.rank, 1])
    same(job.allreduce(numbers), np.array([total, job.size], np.int32))
    same(job.allreduce(memoryview(numbers).toreadonly(), numbers),
         np.array([total, job.size], np.int32))
    buffer = (ctypes.c_double * 2)(job.rank, 0.5)
    same(job.allreduce(buffer, buffer), np.array([total, 0.5 * job.size]))
    same(job.allreduce(OnlyDLPack(np.array([job.rank, 2.5]))), np.array([total, 2.5 * job.size]))
    same(job.allgather(bytes([job.rank] * 2)),
         np.repeat(np.arange(job.size, dtype=np.uint8), 2))
    column = np.zeros((4, 1), np.float32, order="F") + job.rank  # dense in both orders
    same(job.allreduce(column), np.full((4, 1), total, np.float32))
    with_numpy, tensor.numpy = tensor.numpy, None
    try:
        found = job.allreduce(array.array("f", [1.5, 2]))
        assert type(found) is memoryview and found.format == "f", found
        assert found.tolist() == [1.5 * job.size, 2 * job.size], found.tolist()
        rows = job.allgather(memoryview(bytes(6)).cast("B", (3, 2)))
        assert rows.shape == (3 * job.size, 2), rows.shape
    finally:
        tensor.numpy = with_numpy


def check_rows(job):
    rank, size = job.rank, job.size
    ragged = [np.full((r, 2), r, np.int16) for r in range(size)]  # rank 0 gives none
    same(job.allgather(ragged[rank]), np.concatenate(ragged))
    target = np.empty((2 * size, 3))
    same(job.allgather(mine(rank, "f8", (2, 3)), target),
         np.concatenate([mine(r, "f8", (2, 3)) for r in range(size)]))
    # Rank r sends r + 1 + d rows to rank d.
    splits = [rank + 1 + d for d in range(size)]
    sent = np.repeat(np.arange(size), splits) + 100 * rank
    got, came = job.alltoall(sent, splits)
    assert came == [s + 1 + rank for s in range(size)], came
    same(got, np.concatenate([np.full(s + 1 + rank, rank + 100 * s) for s in range(size)]))
    same(job.alltoall(np.arange(size) + 10 * rank), np.arange(size) * 10 + rank)
    rows = np.arange(2 * (size + 1)).reshape(size + 1, 2) * (rank + 1)
    part = np.array_split(rows // (rank + 1) * sum(r + 1 for r in range(size)), size)[rank]
    same(job.reducescatter(rows), part)
    for root in range(size):
        same(job.broadcast(mine(rank, "f4"), root), mine(root, "f4"))


def check_messages(job):
    if job.size == 1:
        return
    following, before = (job.rank + 1) % job.size, (job.rank - 1) % job.size
    for dtype in TYPES:
        sent = job.send_async(mine(job.rank, dtype), following, name=dtype)
        same(job.recv(np.empty((3, 2), dtype), before, name=dtype), mine(before, dtype))
        sent.wait()


def check_groups(job):
    inputs = [mine(job.rank, "f4"), mine(job.rank, "f8", (5,)), mine(job.rank, "i4", (1,))]
    sums = [sum(mine(r, x.dtype, x.shape) for r in range(job.size)).astype(x.dtype) for x in inputs]
    for got, expected in zip(job.grouped_allreduce(inputs), sums):
        same(got, expected)
    request = job.grouped_allreduce_async(inputs, inputs, name="in place")
    assert request.wait()[1] is inputs[1]
    same(inputs[1], sums[1])
    for got, expected in zip(job.grouped_reducescatter(inputs, op=tutti.MAX), inputs):
        same(got, np.array_split(expected, job.size)[job.rank])
    assert [len(g) for g in job.grouped_allgather([np.ones(2), np.ones(job.rank)])] == [
        2 * job.size, sum(range(job.size))]
    assert job.grouped_allreduce([]) == []


with tutti.Context() as job:
    for check in (check_types, check_bfloat16, check_kinds, check_rows, check_messages, check_groups):
        check(job)
