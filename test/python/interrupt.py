"""Ctrl-C ends a wait that would last for ever; the operation goes on."""

import os
import signal
import threading

import numpy as np
from check import same

import tutti

with tutti.Context() as job:
    if job.rank == 0:
        request = job.allreduce_async(np.ones(2), name="interrupted")
        for waits in (request.wait, lambda: (request.future(), request.wait())):
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                waits()
                raise AssertionError("the wait was not interrupted")
            except KeyboardInterrupt:
                timer.join()
    job.barrier()
    if job.rank == 1:
        request = job.allreduce_async(np.ones(2), name="interrupted")
    same(request.wait(), np.full(2, 2.0))
