"""Gradients of an optimizer: reduced from hooks of the backward pass, waited for once.

In the first step each gradient travels by its name, from wherever torch has put it. Then those that are dense get a
place in one range of memory that the ranks of a node share, and a registered name. From the second step on the hook
of a parameter moves its gradient there, unless it is there already, makes it the parameter's `grad`, and submits it:
nothing else copies it, no string is handled, and one call waits for all.
"""
import ctypes
import functools
import warnings

import torch

from tutti import _c, errors, job
from tutti._horovod import Average, core_reduction
from tutti.tensor import dtype_of
from tutti.torch import mpi_ops
from tutti.torch.compression import Compression

_ALIGN = 64
_SLICE_NS = 100_000_000  # between waits of this length Python sees Ctrl-C

_submit = _c.lib.tutti_submit


class Slot:
    """A parameter, and where its gradient is."""

    __slots__ = ("param", "name", "left", "sent", "group", "place", "address", "handle", "number", "request", "hook",
                 "node")

    def __init__(self, param, name, passes):
        self.param, self.name = param, name
        self.left = passes  # backward passes until it is sent
        self.sent = False  # in this step
        self.group = None  # what is sent together with it, or None
        self.place = None  # a tensor in shared memory, or None
        self.address = self.handle = self.number = self.request = None  # of place; its registered name; its request
        self.hook = self.node = None  # what torch calls; before torch 2.1 on a node, which must be kept


class Group:
    """Gradients that are sent together, when the last one is ready."""

    def __init__(self, slots):
        self.slots, self.waiting = slots, len(slots)
        for slot in slots:
            slot.group = self


class Gradients:
    """Reduces the gradients of parameters; knows nothing of optimizers."""

    def __init__(self, named, compression, passes, op, predivide, sparse_as_dense, process_set):
        self.compression, self.passes, self.op = compression, passes, op
        self.sparse_as_dense, self.process_set = sparse_as_dense, process_set
        self._scales = {"prescale": 1 / predivide, "postscale": float(predivide)}
        self.slots = []
        self._by_name = {}  # slot: what travels by name: its request, and what decompresses the result
        self._memory = self._context = self._requests = None  # the shared range, and what it belongs to
        self.add(named)

    def add(self, named):
        """Reduces the gradients of these parameters, too: pairs of a name and a parameter."""
        for name, param in named:
            if not param.is_cpu:
                raise errors.UnsupportedError(f"the parameter {name} is on the device {param.device}; tutti.torch takes "
                                              "parameters in host memory")
            if param.requires_grad:
                self.slots.append(Slot(param, name, self.passes))
                self._add_hook(self.slots[-1])

    def make_groups(self, groups):
        """groups: how many, of about equal numbers of parameters, or lists of parameters."""
        if isinstance(groups, int):
            size, more = divmod(len(self.slots), groups)
            ends = [i * size + min(i, more) for i in range(groups + 1)]
            made = [self.slots[begin:end] for begin, end in zip(ends, ends[1:])]
        else:
            by_param = {id(slot.param): slot for slot in self.slots}
            made = [[by_param[id(param)] for param in group if id(param) in by_param] for group in groups]
        for slots in made:
            if slots:
                Group(slots)

    def _add_hook(self, slot):
        ready = functools.partial(self._ready, slot)
        if hasattr(slot.param, "register_post_accumulate_grad_hook"):
            slot.hook = slot.param.register_post_accumulate_grad_hook(ready)
        else:
            slot.node = slot.param.expand_as(slot.param).grad_fn.next_functions[0][0]
            slot.hook = slot.node.register_hook(ready)

    def set_passes(self, passes):
        self.passes = passes
        for slot in self.slots:
            slot.left = passes

    @property
    def pending(self):
        """True between the first hook of a step and the end of synchronize()."""
        return any(slot.left != self.passes or slot.sent for slot in self.slots)

    def _ready(self, slot, *_):
        if slot.left == 0:
            raise AssertionError(
                f"the gradient of {slot.name} was computed more than {self.passes} times before step(); give "
                "DistributedOptimizer more backward_passes_per_step to add up gradients of several passes")
        slot.left -= 1
        if slot.left > 0:
            return
        if slot.group is None:
            self._send(slot)
        else:
            slot.group.waiting -= 1
            if slot.group.waiting == 0:
                self._send_group(slot.group)

    def _send_group(self, group):
        with job.context().group():
            for slot in group.slots:
                self._send(slot)

    def _send(self, slot):
        slot.sent = True
        grad, place = slot.param.grad, slot.place
        if place is None or (grad is not None and grad.is_sparse):
            return self._send_by_name(slot)
        if self._requests[slot.number]:  # the wait of the last step was interrupted: place is in flight
            self._wait()
        if grad is not place:
            if grad is None:
                place.zero_()
            else:
                place.copy_(grad)
            slot.param.grad = place
        context = self._context._handle
        if context is None:  # tutti was shut down since, and has taken its memory back
            self._unsettle()
            return self._send_by_name(slot)
        if _submit(context, slot.handle, slot.address, slot.address, -1, None, None, slot.request):
            # Another optimizer may have used the name for something else since.
            slot.handle = self._register(slot)
            _c.check(_submit(context, slot.handle, slot.address, slot.address, -1, None, None, slot.request))

    def _send_by_name(self, slot):
        param = slot.param
        if param.grad is None:  # another rank may have one
            param.grad = torch.zeros_like(param)
        if param.grad.requires_grad:
            raise AssertionError(f"the gradient of {slot.name} requires a gradient: create_graph is not supported")
        name, sent = f"gradient.{slot.name}", param.grad
        if sent.is_sparse and not self.sparse_as_dense:
            if slot.group is not None:
                raise ValueError(f"the gradient of {slot.name} is sparse; groups are of dense gradients: give "
                                 "sparse_as_dense=True, or no groups")
            self._by_name[slot] = mpi_ops.sparse_allreduce_async(sent.coalesce(), name, self.op, self.process_set), None
            return
        packed, ctx = self.compression.compress(sent.to_dense() if sent.is_sparse else sent)
        packed = packed.contiguous()
        request = job.context().submit_raw(
            "allreduce", name, packed.data_ptr(), packed.data_ptr(), packed.numel(), dtype_of(packed.dtype),
            reduce_op=core_reduction(self.op), process_set=self.process_set.process_set_id, shape=tuple(packed.shape),
            keep=packed, result=packed, **self._scales)
        self._by_name[slot] = request, lambda reduced: self.compression.decompress(reduced, ctx)

    def synchronize(self):
        """Sends what has not been sent, with zeros for gradients that are missing, and waits for all."""
        try:
            for slot in self.slots:
                if not slot.sent:
                    self._send(slot) if slot.group is None else self._send_group(slot.group)
            self._wait()
            dense = [slot for slot in self._by_name if not slot.param.grad.is_sparse]
        except BaseException:
            for slot in self.slots:  # what is in flight is not to be zeroed or added to
                if slot.place is not None and slot.param.grad is slot.place and self._requests[slot.number]:
                    slot.param.grad = slot.place.clone()
            raise
        finally:
            self._by_name.clear()
            for slot in self.slots:
                slot.left, slot.sent = self.passes, False
                if slot.group is not None:
                    slot.group.waiting = len(slot.group.slots)
        if self._memory is None and dense and self.compression is Compression.none:
            self._settle(dense)

    def _wait(self):
        if self._requests is not None:
            status = _c.TIMEOUT
            while status == _c.TIMEOUT:
                status = _c.lib.tutti_wait_all(
                    self._context.handle, len(self._requests), self._requests, _SLICE_NS, None)
            _c.check(status)
        for slot, (request, decompress) in self._by_name.items():
            result, param = request.wait(), slot.param
            if decompress is None:
                param.grad = result
            elif param.grad.is_sparse:
                param.grad = decompress(result).to_sparse(param.grad.sparse_dim())
            elif result is not param.grad:
                param.grad.copy_(decompress(result))

    def _settle(self, slots):
        """Gives dense gradients their places, in the order in which they were sent, and registers their names."""
        sizes = [slot.param.grad.numel() * slot.param.grad.element_size() for slot in slots]
        sizes = [-(-size // _ALIGN) * _ALIGN for size in sizes]
        self._context, self._memory = job.context(), torch.zeros(sum(sizes), dtype=torch.uint8)
        self._requests = (ctypes.c_uint64 * len(slots))()
        self._context._lent[id(self._requests)] = self._requests, self._memory
        try:
            self._context.share(self._memory.data_ptr(), self._memory.numel(), keep=self._memory)
        except errors.TuttiError as error:
            warnings.warn(f"gradients are copied once more in each step, for their memory cannot be shared: {error}")
        offset = 0
        for number, (slot, size) in enumerate(zip(slots, sizes)):
            grad = slot.param.grad
            slot.place = _tensor_at(self._memory, offset, grad)
            slot.address = slot.place.data_ptr()
            slot.number, slot.request = number, ctypes.addressof(self._requests) + 8 * number
            slot.handle = self._register(slot)
            slot.place.copy_(grad)
            slot.param.grad = slot.place
            offset += size

    def _register(self, slot):
        return mpi_ops.names_of(self._context).handle(
            f"gradient.{slot.name}", slot.place, self.op, process_set=self.process_set.process_set_id, replace=True,
            **self._scales)

    def _unsettle(self):
        for slot in self.slots:
            slot.place = None
        context, memory, requests = self._context, self._memory, self._requests
        self._context = self._memory = self._requests = None
        if context is not None:
            context._drop(requests)
            context.give_back(memory.data_ptr())

    def close(self):
        """Removes the hooks and gives the memory back; the gradients stay what they are."""
        for slot in self.slots:
            slot.hook.remove()
        self._unsettle()


def _tensor_at(memory, offset, like):
    """A tensor in memory that is no view of it, so that torch lets anything be done to it."""
    typed = memory.view(like.dtype)
    return torch.empty(0, dtype=like.dtype).set_(
        typed.untyped_storage() if hasattr(typed, "untyped_storage") else typed.storage(),
        offset // like.element_size(), like.size())
