"""Contexts begin and end; process sets, joins, and errors that leave the job usable."""

import numpy as np
from check import refused, same

import tutti


def check_default():
    refused(tutti.FinalizedError, "call tutti.init() first", tutti.rank)
    for generation in range(3):  # MPI cannot begin twice, contexts can
        job = tutti.init(stall_warning_s=30 + generation)
        assert tutti.init() is job and tutti.is_initialized()
        assert 0 <= tutti.rank() < tutti.size() == tutti.local_size() == job.size
        assert tutti.local_rank() == tutti.rank() and tutti.cross_size() == 1
        assert tutti.is_homogeneous()
        same(tutti.allreduce(np.array([tutti.rank(), generation])),
             np.array([sum(range(job.size)), generation * job.size]))
        request = tutti.allreduce_async(np.ones(1))
        tutti.shutdown()
        tutti.shutdown()
        assert not tutti.is_initialized() and job.closed
        refused(tutti.FinalizedError, "context is closed", request.wait)
        refused(tutti.FinalizedError, "context is closed", job.barrier)


def check_parameters():
    error = refused(tutti.ConfigError, "stall_warning_s", tutti.Context, stall_warning=1)
    assert error.status == -10 and error.name == "TUTTI_ERR_CONFIG"
    refused(tutti.ConfigError, "maybe", tutti.Context, background_thread="maybe")
    with tutti.Context(background_thread=False, process_sets="0") as job:
        assert [known.ranks for known in job.process_sets()] == [list(range(job.size)), [0]]
        assert not job.has_background
        request = job.allreduce_async(np.ones(2))
        request.future()  # the watcher makes progress as well
        same(request.wait(), np.full(2, float(job.size)))


def check_sets(job):
    last = job.process_set([job.size - 1])
    back = job.process_set(range(job.size - 1, -1, -1))
    assert job.process_sets() == [job.world, last, back] and back.rank == job.size - 1 - job.rank
    assert last.included == (job.rank == job.size - 1) and last.size == 1
    same(job.allgather(np.array([job.rank]), process_set=back), np.arange(job.size)[::-1])
    same(job.broadcast(np.array([job.rank]), 0, process_set=back), np.array([job.size - 1]))
    same(job.reducescatter(np.arange(job.size), process_set=back),
         np.array([back.rank * job.size]))
    if last.included:
        same(job.allreduce(np.array([5.0]), process_set=last), np.array([5.0]))
        assert last.rank == 0
    else:
        refused(tutti.InvalidError, "", job.allreduce, np.ones(1), process_set=last)
    last.close()
    refused(tutti.InvalidError, f"process set {last.handle}", job.allgather, np.ones(1), process_set=last)
    assert job.process_sets() == [job.world, back]


def check_join(job):
    """Ranks have different numbers of batches, and rank 0 tries what is refused; automatic names agree afterwards, which
    begin anew with the join, not when its end has been seen."""
    gate = job.process_set(range(job.size))
    same(job.allreduce(np.array([0.0]), op=tutti.AVERAGE), np.array([0.0]))
    join = job.join_async() if job.rank == 0 else None
    for call, data in ((job.allreduce, np.ones(1)), (job.grouped_allreduce, [np.ones(1)])):
        if job.rank == 0 and job.size > 1:
            refused(tutti.InvalidError, "wait for the join first", call, data)
    job.barrier(process_set=gate)
    for batch in range(1, job.rank + 1):
        mean = job.allreduce(np.array([float(batch)]), op=tutti.AVERAGE)
        same(mean, np.array([float(batch)]))
    join = join or job.join_async()
    if job.rank == job.size - 1:
        assert join.wait() == job.size - 1
    job.barrier(process_set=gate)  # the last has seen the end, and so has the engine of each rank
    for total in (job.allreduce(np.array([job.rank])), job.grouped_allreduce([np.array([job.rank])])[0]):
        same(total, np.array([sum(range(job.size))]))
    assert join.wait() == job.size - 1
    gate.close()
    if job.rank == 0:  # what it has not submitted took no numbers
        try:
            with job.group():
                job.allreduce_async(np.ones(1))
                raise ArithmeticError
        except ArithmeticError:
            pass
    same(job.allreduce(np.array([job.rank])), np.array([sum(range(job.size))]))


def check_errors(job):
    if job.size > 1:
        error = refused(tutti.MismatchError, "shape differs", job.allreduce,
                        np.ones(1 + job.rank), name="shape")
        assert error.status == -4 and 'allreduce "shape"' in error.text
        refused(tutti.MismatchError, "dtype", job.allreduce,
                np.ones(2, "f8" if job.rank else "f4"), name="type")
        refused(tutti.MismatchError, "", job.broadcast, np.ones(2), job.rank, name="root")
    # A member of a group is refused: nothing is submitted, and the names are free again.
    refused(tutti.InvalidError, "not contiguous", job.grouped_allreduce,
            [np.ones(4), np.ones((4, 4))[:, 1]], name="group")
    refused(tutti.UnsupportedError, "bool", job.grouped_allreduce,
            [np.ones(4), np.ones(4, bool)], name="group")
    same(job.grouped_allreduce([np.ones(4)], name="group")[0], np.full(4, float(job.size)))


def check_abort():
    job = tutti.Context()
    if job.rank == job.size - 1:
        job.abort("the disk is full")
    error = refused(tutti.ContextFailedError, "the disk is full", wait_for_ever, job)
    assert f"rank {job.size - 1}" in error.text, error.text
    refused(tutti.ContextFailedError, "the disk is full", job.close)
    assert job.closed


def wait_for_ever(job):
    while True:
        job.allreduce(np.ones(1))


check_default()
check_parameters()
with tutti.Context() as job:
    among = list(range(job.size - 1, 0, -1))  # rank 0 takes no part
    if job.rank > 0:
        with tutti.Context(ranks=among) as part:
            same(part.allgather(np.array([job.rank])), np.array(among))
    refused(tutti.InvalidError, "not listed" if job.size > 1 else "1 to 1", tutti.Context,
            ranks=[rank for rank in range(job.size) if rank != job.rank])

with tutti.Context() as first, tutti.Context() as second:  # two at a time
    assert first.size == second.size
    for job in (first, second):
        check_sets(job)
        check_join(job)
        check_errors(job)
tutti.init()  # left open: closed at the end of the process
tutti.barrier()
left = tutti.Context()
check_abort()
