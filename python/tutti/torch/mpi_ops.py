"""Horovod's operations on torch tensors: blocking, with handles, in place, in groups, and differentiable."""
from ctypes import byref

import torch

from tutti import _c, errors, job
from tutti import _horovod as common
from tutti._horovod import (Adasum, Average, HorovodInternalError, Max, Min, ProcessSet, Product, Sum,  # noqa: F401
                            add_process_set, ccl_built, cuda_built, ddl_built, global_process_set, gloo_built,
                            gloo_enabled, init, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built,
                            remove_process_set, rocm_built, start_timeline, stop_timeline)
from tutti.job import (cross_rank, cross_size, is_homogeneous, is_initialized, local_rank, local_size,  # noqa: F401
                       rank, shutdown, size)
from tutti.request import Request
from tutti.tensor import dtype_of
from tutti.torch.compression import Compression

_submit = _c.lib.tutti_submit


class Handle:
    """A request whose output is not yet the result: for poll() and synchronize(), as requests are."""

    __slots__ = ("_request", "_finish", "_result")

    def __init__(self, request, finish):
        self._request, self._finish = request, finish

    def done(self):
        return self._request.done()

    def wait(self):
        if self._finish is not None:
            self._result, self._finish = self._finish(self._request.wait()), None
        return self._result


def _handle(request, finish):
    return request if finish is None else Handle(request, finish)


def poll(handle):
    """True if synchronize() would not wait."""
    return handle.done()


def synchronize(handle):
    """Waits for an operation and returns its result; raises HorovodInternalError if it failed."""
    return handle.wait()


def _each(function):
    """Makes a function of a tensor one of a list."""
    return lambda tensors: [function(tensor) for tensor in tensors]


def _scaled(tensor, factor):
    """Integers times a factor, in float64, without the fraction: as Horovod does it."""
    return tensor if factor == 1 else (tensor.double() * factor).to(tensor.dtype)


class _Reduction:
    """A reduction with its factors: the C library's, or for integers, which it does not scale, made here."""

    def __init__(self, tensor, op, prescale, postscale, process_set):
        self.options = {"op": common.core_reduction(op), "process_set": process_set.process_set_id}
        self._before = self._after = 1.0
        if prescale == 1 and postscale == 1:
            return
        if tensor.dtype.is_floating_point:
            self.options.update(prescale=prescale, postscale=postscale)
            return
        self._before, self._after = prescale, postscale
        if op == Average:
            self.options["op"] = common.core_reduction(Sum)
            self._after /= process_set.size()

    def input(self, tensor, output):
        """What to give instead of the tensor, whose result goes to output."""
        return output.copy_(_scaled(tensor, self._before)) if self._before != 1 else tensor

    @property
    def finish(self):
        """None, or what makes the result of the output."""
        return None if self._after == 1 else lambda output: output.copy_(_scaled(output, self._after))


_NAMES_MAX = 4096  # names that are new in each step would fill the memory


class _Names:
    """The names of allreduces that are registered with a context: submitted by handle, one costs a third."""

    def __init__(self, context):
        self._context = context
        self._known = {}  # what a name of a set means, its handle or None, and the registration

    def handle(self, name, tensor, op, prescale, postscale, process_set, replace=False):
        """The handle of a name that means this; None if it has meant something else before, or there are too many.
        With `replace` it means this from now on."""
        key, meaning = (name, process_set), (tensor.shape, tensor.dtype, op, prescale, postscale)
        entry = self._known.get(key)
        if entry is not None and entry[0] == meaning:
            return entry[1]
        if entry is not None and entry[2] is not None:
            entry[2].close()
            self._known[key] = None, None, None
        if not replace and (entry is not None or len(self._known) >= _NAMES_MAX):
            return None
        made = self._context.register(
            "allreduce", name, tensor.numel(), dtype_of(tensor.dtype), reduce_op=common.core_reduction(op),
            process_set=process_set, shape=tuple(tensor.shape), prescale=prescale, postscale=postscale)
        self._known[key] = meaning, made._handle, made
        return made._handle


_names_of = None, None  # a context, and its _Names


def names_of(context):
    """The registered names of a context."""
    global _names_of
    if _names_of[0] is not context:
        _names_of = context, _Names(context)
    return _names_of[1]


def _allreduce(tensor, output, name, op, prescale, postscale, process_set):
    if name is not None and tensor.is_cpu and tensor.is_contiguous() and (
            prescale == postscale == 1 or tensor.dtype.is_floating_point):
        context, number = job.context(), process_set.process_set_id
        handle = names_of(context).handle(name, tensor, op, prescale, postscale, number)
        if handle is not None:
            request = Request(context, (tensor, output), output)
            status = _submit(context.handle, handle, tensor.data_ptr(), output.data_ptr(), -1, None, None,
                             byref(request._id))
            if status:
                _c.check(status)
            return request
    kind = _Reduction(tensor, op, prescale, postscale, process_set)
    return _handle(job.context().allreduce_async(kind.input(tensor, output), output, name=name, **kind.options),
                   kind.finish)


def _grouped_allreduce(tensors, outputs, name, op, prescale, postscale, process_set):
    if len({tensor.dtype.is_floating_point for tensor in tensors}) > 1 and (prescale, postscale) != (1, 1):
        raise ValueError("a scaled group has integers and floating-point numbers; use a group for each")
    if not tensors:
        raise ValueError("grouped_allreduce: there are no tensors")
    kind = _Reduction(tensors[0], op, prescale, postscale, process_set)
    inputs = [kind.input(tensor, output) for tensor, output in zip(tensors, outputs)]
    return _handle(job.context().grouped_allreduce_async(inputs, outputs, name=name, **kind.options),
                   kind.finish and _each(kind.finish))


def _like(tensor):
    return torch.empty_like(tensor, requires_grad=False, memory_format=torch.contiguous_format)


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set):
    """Begins to reduce a tensor over the ranks into a new one; returns a handle. See allreduce()."""
    op = common.reduction(op, average)
    return _allreduce(tensor, _like(tensor), name, op, prescale_factor, postscale_factor, process_set)


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set):
    """allreduce_async() in place."""
    op = common.reduction(op, average)
    return _allreduce(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set):
    """allreduce() in place; not differentiable."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set):
    """Begins to reduce a list of tensors together: all or none; returns one handle."""
    op = common.reduction(op, average)
    return _grouped_allreduce(list(tensors), [_like(tensor) for tensor in tensors], name, op, prescale_factor,
                              postscale_factor, process_set)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=global_process_set):
    """grouped_allreduce_async() in place."""
    op = common.reduction(op, average)
    return _grouped_allreduce(list(tensors), list(tensors), name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set):
    """grouped_allreduce() in place; not differentiable."""
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor,
                                                process_set))


class SparseHandle:
    """A sparse allreduce in flight; called, it waits, as in Horovod."""

    def __init__(self, tensor, name, op, process_set):
        if op not in (Average, Sum):
            raise ValueError(f"a sparse tensor is reduced by Average or Sum, not by {common.reduction_name(op)}")
        self._tensor, self._average, self._set = tensor, op == Average, process_set
        base = None if name is None else f"{name}.indices"
        self._indices = allgather_async(tensor._indices().t().contiguous(), base, process_set)
        base = None if name is None else f"{name}.values"
        self._values = allgather_async(tensor._values().contiguous(), base, process_set)

    def done(self):
        return self._indices.done() and self._values.done()

    def wait(self):
        indices, values = self._indices.wait(), self._values.wait()
        if self._average:
            values = values / self._set.size()
        return torch.sparse_coo_tensor(indices.t(), values, self._tensor.size())

    __call__ = wait


def sparse_allreduce_async(tensor, name=None, op=Average, process_set=global_process_set):
    """Begins to add or average sparse tensors, by gathering their indices and values. The result is not coalesced."""
    return SparseHandle(tensor, name, common.reduction(op), process_set)


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Begins to gather the rows of all ranks; returns a handle."""
    return job.context().allgather_async(tensor, name=name, process_set=process_set.process_set_id)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Begins to gather the rows of several tensors together; returns one handle."""
    return job.context().grouped_allgather_async(list(tensors), name=name, process_set=process_set.process_set_id)


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """Begins to copy the root's tensor into that of every rank; root_rank is a rank of the job."""
    return job.context().broadcast_async(tensor, process_set._index(root_rank), name=name,
                                         process_set=process_set.process_set_id)


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """broadcast_async_() into a new tensor."""
    output = _like(tensor)
    if rank() == root_rank:
        output.copy_(tensor.detach())
    return broadcast_async_(output, root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """Copies the root's tensor into that of every rank; not differentiable."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Begins to send rows to every rank and to receive rows from every rank; the result of the handle is a pair: the
    rows received, and how many came from each rank."""
    ranks = process_set.size()
    if splits is None and (tensor.dim() == 0 or tensor.size(0) % ranks != 0):
        raise ValueError(f"alltoall: a tensor of shape {tuple(tensor.shape)} cannot be divided evenly among {ranks} "
                         "ranks; give splits")
    rows = [tensor.size(0) // ranks] * ranks if splits is None else [int(rows) for rows in splits]
    dtype = splits.dtype if torch.is_tensor(splits) else torch.int32
    request = job.context().alltoall_async(tensor, rows, name=name, process_set=process_set.process_set_id)
    return Handle(request, lambda pair: (pair[0], torch.tensor(pair[1], dtype=dtype)))


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """Begins to reduce a tensor and to give each rank its part of the rows; returns a handle."""
    return _reducescatter("reducescatter_async", tensor, tensor, name, op, process_set, prescale_factor,
                          postscale_factor)


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0):
    """reducescatter_async() of several tensors together; returns one handle."""
    return _reducescatter("grouped_reducescatter_async", list(tensors), tensors[0], name, op, process_set,
                          prescale_factor, postscale_factor)


def _reducescatter(method, tensors, first, name, op, process_set, prescale, postscale):
    kind = _Reduction(first, common.reduction(op), prescale, postscale, process_set)
    scale = lambda tensor: kind.input(tensor, _like(tensor))  # noqa: E731
    inputs = _each(scale)(tensors) if isinstance(tensors, list) else scale(tensors)
    request = getattr(job.context(), method)(inputs, name=name, **kind.options)
    return _handle(request, kind.finish and (_each(kind.finish) if isinstance(tensors, list) else kind.finish))


def join(device=-1):
    """Declares that this rank has no more data, and waits until all ranks have joined; meanwhile it counts as
    zeros in sums and averages. Returns the rank that joined last."""
    del device
    return job.join()


def barrier(process_set=global_process_set):
    """Waits for all ranks."""
    job.barrier(process_set=process_set.process_set_id)


# ------------------------------------------------------- differentiable forms
# Gradients are Horovod's: those of a mean are averaged, and so on.

def _refuse_gradient(op):
    if op not in (Average, Sum):
        raise errors.UnsupportedError(f"allreduce by {common.reduction_name(op)} has no gradient")


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, prescale, postscale, process_set, *tensors):
        ctx.arguments = op, prescale, postscale, process_set
        if len(tensors) == 1:
            return (synchronize(allreduce_async(tensors[0], None, name, op, prescale, postscale, process_set)),)
        return tuple(synchronize(grouped_allreduce_async(tensors, None, name, op, prescale, postscale, process_set)))

    @staticmethod
    def backward(ctx, *gradients):
        op, prescale, postscale, process_set = ctx.arguments
        _refuse_gradient(op)
        gradients = [gradient.contiguous() for gradient in gradients]
        return (None,) * 5 + _Allreduce.apply(None, op, prescale, postscale, process_set, *gradients)


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set):
    """allreduce() of a list of tensors together; returns a list."""
    op = common.reduction(op, average)
    packed, ctxs = zip(*[compression.compress(tensor) for tensor in tensors])
    reduced = _Allreduce.apply(name, op, prescale_factor, postscale_factor, process_set, *packed)
    return [compression.decompress(tensor, ctx) for tensor, ctx in zip(reduced, ctxs)]


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set):
    """Reduces a tensor over the ranks of a set: all get the result, a new tensor.

    name: equal on all ranks; None: numbered by the calls on the set. op: Average (default), Sum, Min, Max, Product.
    prescale_factor, postscale_factor: of each input and of the result. Differentiable for Average and Sum.
    """
    packed, ctx = compression.compress(tensor)
    op = common.reduction(op, average)
    if packed.requires_grad and torch.is_grad_enabled():
        reduced = _Allreduce.apply(name, op, prescale_factor, postscale_factor, process_set, packed)[0]
    else:
        reduced = _allreduce(packed, _like(packed), name, op, prescale_factor, postscale_factor, process_set).wait()
    return compression.decompress(reduced, ctx)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.rows = [tensor.size(0) if tensor.dim() > 0 else 1 for tensor in tensors]
        ctx.process_set = process_set
        if len(tensors) == 1:
            return (synchronize(allgather_async(tensors[0], name, process_set)),)
        return tuple(synchronize(grouped_allgather_async(tensors, name, process_set)))

    @staticmethod
    def backward(ctx, *gradients):
        process_set = ctx.process_set
        rows = synchronize(allgather_async(torch.tensor([ctx.rows]), None, process_set))
        means = grouped_allreduce([gradient.contiguous() for gradient in gradients], process_set=process_set)
        first = rows[:process_set.rank()].sum(0).tolist()
        return (None, None) + tuple(mean.narrow(0, start, count) for mean, start, count in zip(means, first, ctx.rows))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """allgather() of a list of tensors together; returns a list."""
    return list(_Allgather.apply(name, process_set, *tensors))


def allgather(tensor, name=None, process_set=global_process_set):
    """Returns the rows of all ranks, in order of rank. Ranks may have different numbers of rows. Differentiable."""
    return _Allgather.apply(name, process_set, tensor)[0]


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.arguments = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        root_rank, process_set = ctx.arguments
        mean = allreduce(gradient.contiguous(), process_set=process_set)
        return mean if rank() == root_rank else torch.zeros_like(mean), None, None, None


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """Returns the root's tensor on every rank; root_rank is a rank of the job. Differentiable."""
    return _Broadcast.apply(tensor, root_rank, name, process_set)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, received = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, _):
        return alltoall(gradient.contiguous(), ctx.received, None, ctx.process_set)[0], None, None, None


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Sends rows to every rank and returns the rows received, both in order of rank. Differentiable.

    splits: how many rows go to each rank; then how many came from each is returned, too. None: the same to each.
    """
    output, received = _Alltoall.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, process_set, prescale, postscale, *tensors):
        ctx.arguments = op, process_set, prescale * postscale
        if len(tensors) == 1:
            return (synchronize(reducescatter_async(tensors[0], name, op, process_set, prescale, postscale)),)
        return tuple(synchronize(grouped_reducescatter_async(tensors, name, op, process_set, prescale, postscale)))

    @staticmethod
    def backward(ctx, *gradients):
        op, process_set, factor = ctx.arguments
        _refuse_gradient(op)
        factor *= process_set.size() if op == Sum else 1
        scaled = [(gradient * factor).contiguous() for gradient in gradients]
        return (None,) * 5 + _Allgather.apply(None, process_set, *scaled)


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average,
                          process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """reducescatter() of a list of tensors together; returns a list."""
    packed, ctxs = zip(*[compression.compress(tensor) for tensor in tensors])
    parts = _Reducescatter.apply(name, op, process_set, prescale_factor, postscale_factor, *packed)
    return [compression.decompress(part, ctx) for part, ctx in zip(parts, ctxs)]


def reducescatter(tensor, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                  prescale_factor=1.0, postscale_factor=1.0):
    """Reduces a tensor over the ranks and returns this rank's part of the rows: of rows that do not divide evenly,
    one more for each of the first ranks. Differentiable for Average and Sum."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]
