"""Memory in flight is kept, wherever an interrupt comes: between any two instructions of the package, with what was
made before dropped or kept. Memory that was let go cannot be read or written any more: that would end the process."""

import ctypes
import gc
import mmap
import os
import sys
import weakref

import numpy as np

import tutti

with_torch = os.environ.get("MODULE") == "torch"
if with_torch:
    import torch

    from tutti import _horovod
    from tutti.torch import mpi_ops

PACKAGE, BYTES = tutti.__path__[0], mmap.PAGESIZE
_kept = []  # mappings, so that their addresses are used once
_protect = ctypes.CDLL(None).mprotect
_protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
sys.unraisablehook = lambda _: None  # an interrupt in a finalizer


class Watched(np.ndarray):
    """Arrays whose end can be seen."""


class OnlyDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.view(np.ndarray).__dlpack__()


def guarded(value):
    """A page of numbers that is gone when nothing refers to it."""
    pages = mmap.mmap(-1, BYTES)
    array = np.frombuffer(pages).view(Watched)
    array[:] = value
    _kept.append(pages)
    weakref.finalize(array, _protect, array.ctypes.data, BYTES, 0)
    return array


def interrupted_at(number, call):
    """Calls it with an interrupt before the instruction of the package that has this number; False: it has fewer."""
    left = number

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return left <= 0


# Each begins an operation, and returns its request and what makes an array of its result.

def in_place(job, name, members):
    x = guarded(1)
    return job.allreduce_async(x, x, name=name, process_set=members), lambda result: result


def with_output(job, name, members):
    return (job.allreduce_async(OnlyDLPack(guarded(1)), guarded(0), name=name, process_set=members),
            lambda result: result)


def owned(job, name, members):
    return job.allgather_async(guarded(1), name=name, process_set=members), lambda rows: rows.reshape(-1, BYTES // 8).sum(0)


def in_group(job, name, members):
    x = guarded(1)
    return job.grouped_allreduce_async([x], [x], name=name, process_set=members), lambda results: results[0]


def in_future(job, name, members):
    request, of_result = in_place(job, name, members)
    request.future()
    return request, of_result


def registered(job, name, members):
    x = guarded(1)
    made = job.register("allreduce", name, BYTES // 8, tutti.DTYPES["float64"], shape=(BYTES // 8,),
                        process_set=members.handle)
    return made.submit(x.ctypes.data, x.ctypes.data, keep=x), lambda _: x


def in_torch(job, name, members):
    of = _horovod.ProcessSet(members.ranks)
    of.process_set_id = members.handle
    x = torch.from_numpy(guarded(1))
    return mpi_ops.allreduce_async_(x, name=name, op=mpi_ops.Sum, process_set=of), lambda result: result.numpy()


def plain(job, begin, name, members):
    """Without anything special, as another rank submits it."""
    x = np.ones(BYTES // 8)
    if begin is owned:
        return job.allgather_async(x, name=name, process_set=members)
    if begin is in_group:
        return job.grouped_allreduce_async([x], name=name, process_set=members)
    return job.allreduce_async(x, name=name, process_set=members)


def attempt(job, begin, name, members, own, number):
    """Begins, polls and waits for it, with an interrupt. @return whether that came, and what there is then"""
    got = []

    def run():
        got.append(begin(job, name, members))
        got[0][0].done()
        try:
            got[0][0].wait(0)
        except tutti.WaitTimeoutError:
            pass
        with job.group():
            got[0][0].done()
        if number % 2:
            got.clear()
        job.barrier(process_set=own)  # lets go of what has ended

    came = interrupted_at(number, run)
    if number % 3 == 0:
        got.clear()
    gc.collect()
    return came, got


def check_result(got, value):
    """It is right, or an error says that it is not known."""
    for request, of_result in got:
        try:
            result = of_result(request.wait(300))
        except tutti.TuttiError as error:
            assert "interrupted" in error.text, error
        else:
            assert (result == value).all(), result


def check_alone(job, begin, own, number, stride):
    """Operations that end meanwhile."""
    came = True
    while came:
        came, got = attempt(job, begin, f"{begin.__name__} alone {number}", own, own, number)
        check_result(got, 1)
        number += stride


def check_together(job, begin, own, number, stride):
    """Rank 1 submits when rank 0 has been interrupted, and has submitted it again unless it is in flight."""
    came = True
    while came:
        name = f"{begin.__name__} {number}"
        if job.rank == 0:
            came, got = attempt(job, begin, name, job.world, own, number)
            try:
                plain(job, begin, name, job.world)
            except tutti.DuplicateError:
                pass
        came = bool(job.broadcast(np.array([came]), name="came")[0])
        if job.rank == 0:
            check_result(got, 2)
        else:
            plain(job, begin, name, job.world).wait()
        job.barrier(name="ended")
        number += stride


kinds = [in_torch] if with_torch else [in_place, with_output, owned, in_group, in_future, registered]
stride = int(os.environ.get("STRIDE", 101 if with_torch else 37))  # 1: every instruction, which takes minutes
with tutti.init() as job:
    own = [job.process_set([rank]) for rank in range(job.size)][job.rank]
    for i, kind in enumerate(kinds):
        check_alone(job, kind, own, 1 + i, stride)
        check_together(job, kind, own, 1 + i, stride)
    job.barrier()
    gc.collect()
    for _ in range(3):
        job.barrier()
    assert not job._dropped and len(job._lent) < 30, (job._dropped, job._lent)
