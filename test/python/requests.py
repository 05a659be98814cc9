"""Requests: polled, awaited, with callbacks and timeouts, dropped, and by registered name."""

import asyncio
import gc
import threading
import weakref

import numpy as np
from check import refused, same

import tutti


def check_late(job):
    """What one rank submits late is not done before."""
    x = np.full(1000, float(job.rank))
    if job.rank != 0:
        job.barrier(name="begin")
    request = job.allreduce_async(x, name="late")
    if job.rank == 0:
        assert job.size == 1 or not request.done()
        job.barrier(name="begin")
    same(request.wait(), np.full(1000, float(sum(range(job.size)))))
    assert request.done() and request.wait() is request.result() and request.exception() is None


def check_timeout(job):
    if job.size == 1:
        return
    if job.rank == 0:
        request = job.allreduce_async(np.ones(3), name="timeout")
        error = refused(tutti.WaitTimeoutError, "", request.wait, 0.05)
        assert error.status == -6 and isinstance(error, TimeoutError) and not request.done()
        watched = request.future()
        assert not watched.done() and not request.done()
        refused(tutti.WaitTimeoutError, "has not finished after 0.05 s", request.wait, 0.05)
        assert isinstance(refused(tutti.DuplicateError, "timeout", job.allreduce, np.ones(3), name="timeout"), ValueError)
    job.barrier(name="rank 0 has timed out")
    if job.rank != 0:
        request = job.allreduce_async(np.ones(3), name="timeout")
    same(request.wait(300), np.full(3, float(job.size)))


def check_callbacks(job):
    heard, all_heard = [], threading.Event()
    request = job.allreduce_async(np.full(2, job.rank + 1.0))
    request.add_done_callback(lambda r: (heard.append(r), all_heard.set()))
    assert all_heard.wait(300) and heard == [request] and request.done()
    request.add_done_callback(heard.append)  # finished: called at once
    assert heard == [request, request]

    # By the C library's own thread; the error of a mismatch comes the same way.
    x, ended = np.ones(1 + job.rank), threading.Event()
    given = tutti.as_tensor(x)
    assert job.submit_raw("allreduce", "raw", given.address, given.address, given.count,
                          given.dtype, keep=x,
                          callback=lambda e: (heard.append(e), ended.set())) is None
    assert ended.wait(300)
    if job.size == 1:
        assert heard[-1] is None
    else:
        assert type(heard[-1]) is tutti.MismatchError and 'allreduce "raw"' in heard[-1].text


def check_asyncio(job):
    async def reduce(i):
        # Each rank begins in another order: what is awaited first may be ended last.
        await asyncio.sleep(0.001 * ((i + job.rank) % 3))
        return await job.allreduce_async(np.full(4, i + job.rank), name=f"task {i}")

    async def main():
        results = await asyncio.gather(*[reduce(i) for i in range(12)])
        grouped = await job.grouped_allreduce_async([np.ones(1), np.ones(2)])
        try:
            await job.allreduce_async(np.ones(2 + job.rank), name="differs")
        except tutti.MismatchError as error:
            return results, grouped, error.text
        return results, grouped, None

    results, grouped, text = asyncio.run(main())
    for i, result in enumerate(results):
        same(result, np.full(4, i * job.size + sum(range(job.size))))
    same(grouped[1], np.full(2, float(job.size)))
    assert (text is None) == (job.size == 1)


def check_dropped(job):
    """Nobody waits: arrays live as long as the C library uses them, and no longer."""
    class Watched(np.ndarray):
        pass

    x = np.ones(4).view(Watched)
    gone = weakref.ref(x)
    if job.rank != 0:
        job.barrier(name="dropped first")
    job.allreduce_async(x, x, name="dropped")
    del x
    gc.collect()
    assert job.size == 1 or job.rank != 0 or gone() is not None
    if job.rank == 0:
        job.barrier(name="dropped first")
    job.barrier()
    for _ in range(100):  # each submission lets go of what has finished; all ranks make as many
        job.barrier()
    gc.collect()
    assert gone() is None


def check_registered(job):
    x = np.empty(3, np.float32)
    address = tutti.as_tensor(x).address
    name = job.register("allreduce", "weights", 3, tutti.DTYPES["float32"], reduce_op=tutti.MAX,
                        prescale=0.5)
    for step in range(5):
        x[:] = job.rank + step
        name.submit(address, address, keep=x).wait()
        same(x, np.full(3, 0.5 * (job.size - 1 + step), np.float32))
    name.close()
    refused(tutti.InvalidError, "", name.submit, address, address)


def check_cancel(job):
    """With one rank, where it ends at once: cancelled if it was not agreed on before."""
    if job.size == 1:
        request = job.allreduce_async(np.ones(2))
        request.cancel()
        assert type(request.exception()) in (type(None), tutti.CancelledError)


with tutti.Context() as job:
    for check in (check_late, check_timeout, check_callbacks, check_asyncio, check_dropped,
                  check_registered, check_cancel):
        check(job)
