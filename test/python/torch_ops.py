"""The operations of tutti.torch: every result is compared by bits with one computed here of all ranks' inputs."""
import torch

import tutti.torch as hvd


def of(rank, *shape, dtype=torch.float32):
    """A tensor whose numbers are small, whole, and other ones on each rank, so that sums are exact."""
    return torch.arange(1, 1 + torch.Size(shape).numel()).mul(3 + rank).remainder(11).reshape(shape).to(dtype)


def all_of(*shape, dtype=torch.float32, ranks=None):
    return [of(rank, *shape, dtype=dtype) for rank in (range(hvd.size()) if ranks is None else ranks)]


def same(got, expected, what):
    assert got.dtype == expected.dtype and torch.equal(got, expected), \
        f"rank {hvd.rank()}: {what}: {got} is not {expected}"


def refused(kind, words, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert words in str(error), f"'{words}' is not in: {error}"
    else:
        raise AssertionError(f"{function.__name__} accepted {arguments} {options}")


def check_allreduce():
    r, n = hvd.rank(), hvd.size()
    for dtype in (torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
        stack = torch.stack(all_of(5, 3, dtype=dtype))
        mine = of(r, 5, 3, dtype=dtype)
        same(hvd.allreduce(mine, op=hvd.Sum), stack.sum(0).to(dtype), f"sum of {dtype}")
        same(hvd.allreduce(mine, op=hvd.Max), stack.amax(0), f"max of {dtype}")
        same(hvd.allreduce(mine, op=hvd.Min), stack.amin(0), f"min of {dtype}")
        if not dtype.is_floating_point:
            same(hvd.allreduce(mine), torch.div(stack.sum(0), n, rounding_mode="trunc").to(dtype), f"mean of {dtype}")
            scaled = (mine.double() * 1.5).to(dtype)
            total = torch.stack([(x.double() * 1.5).to(dtype) for x in all_of(5, 3, dtype=dtype)]).sum(0).to(dtype)
            same(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=1.5, postscale_factor=0.3),
                 (total.double() * 0.3).to(dtype), f"scaled sum of {dtype}, of {scaled}")
        same(mine, of(r, 5, 3, dtype=dtype), "the input")
    same(hvd.allreduce(of(r, 4), op=hvd.Product), torch.stack(all_of(4)).prod(0), "product")
    same(hvd.allreduce(of(r, 4), average=False, prescale_factor=0.5, postscale_factor=4.0),
         torch.stack(all_of(4)).sum(0) * 2, "scaled sum")
    same(hvd.allreduce(of(r, 6) * n), torch.stack(all_of(6)).sum(0), "mean")
    same(hvd.allreduce(torch.tensor(r + 1.0), op=hvd.Sum), torch.tensor(n * (n + 1) / 2), "a number")
    same(hvd.allreduce(torch.tensor([r == 0]), op=hvd.Max), torch.tensor([True]), "or")
    x = of(r, 7)
    assert hvd.allreduce_(x, op=hvd.Sum) is x
    same(x, torch.stack(all_of(7)).sum(0), "in place")
    exact = torch.stack(all_of(7)).sum(0).half().float()
    same(hvd.allreduce(of(r, 7), op=hvd.Sum, compression=hvd.Compression.fp16), exact, "compressed")


def check_handles():
    r, sums = hvd.rank(), [torch.stack(all_of(k)).sum(0) for k in range(1, 9)]
    handles = [hvd.allreduce_async(of(r, k), name=f"h{k}", op=hvd.Sum) for k in range(1, 9)]
    if r % 2:
        handles.reverse()
        sums.reverse()
    for handle, total in zip(handles, sums):
        while not hvd.poll(handle):
            pass
        same(hvd.synchronize(handle), total, "by handle")
    x = of(r, 3)
    assert hvd.synchronize(hvd.allreduce_async_(x, op=hvd.Sum)) is x
    same(x, sorted(sums, key=len)[2], "in place by handle")


def check_groups():
    r, shapes = hvd.rank(), ((3,), (2, 2), (5,))
    sums = [torch.stack(all_of(*shape)).sum(0) for shape in shapes]
    for got, total in zip(hvd.grouped_allreduce([of(r, *shape) for shape in shapes], op=hvd.Sum), sums):
        same(got, total, "grouped")
    tensors = [of(r, *shape, dtype=torch.int32) for shape in shapes]
    hvd.grouped_allreduce_(tensors, op=hvd.Sum, postscale_factor=0.5)
    for got, total in zip(tensors, sums):
        same(got, (total * 0.5).int(), "grouped in place, scaled")
    whole = [torch.cat(all_of(*shape)) for shape in shapes]
    for got, rows in zip(hvd.grouped_allgather([of(r, *shape) for shape in shapes]), whole):
        same(got, rows, "grouped allgather")
    parts = hvd.grouped_reducescatter([of(r, *shape) for shape in shapes], op=hvd.Sum)
    for got, total in zip(parts, sums):
        same(got, total.tensor_split(hvd.size())[r], "grouped reducescatter")
    refused(ValueError, "no tensors", hvd.grouped_allreduce_, [])


def check_rows():
    r, n = hvd.rank(), hvd.size()
    same(hvd.allgather(of(r, r + 1, 2)), torch.cat([of(k, k + 1, 2) for k in range(n)]), "ragged allgather")
    some = [of(k, 3 if k == 0 else 0, 2) for k in range(n)]
    same(hvd.allgather(some[r], name="empty"), some[0], "allgather of nothing but from rank 0")
    splits = [[(k + to) % 3 for to in range(n)] for k in range(n)]
    sent = [of(k, sum(splits[k]), 2).split(splits[k]) for k in range(n)]
    got, received = hvd.alltoall(torch.cat(sent[r]), splits=torch.tensor(splits[r]))
    same(got, torch.cat([sent[k][r] for k in range(n)]), "alltoall")
    same(received, torch.tensor([splits[k][r] for k in range(n)]), "received splits")
    got = hvd.alltoall(of(r, 2 * n))
    same(got, torch.cat([of(k, 2 * n)[2 * r:2 * r + 2] for k in range(n)]), "even alltoall")
    rows = 2 * n + 1
    total = torch.stack(all_of(rows, 3)).sum(0).tensor_split(n)[r]
    same(hvd.reducescatter(of(r, rows, 3), op=hvd.Sum, prescale_factor=2.0), total * 2, "reducescatter")
    same(hvd.reducescatter(of(r, rows, 3, dtype=torch.int64), op=hvd.Sum, postscale_factor=0.5),
         (total * 0.5).long(), "scaled reducescatter of integers")
    root = n - 1
    same(hvd.broadcast(of(r, 4), root), of(root, 4), "broadcast")
    x = of(r, 4, dtype=torch.int16)
    assert hvd.broadcast_(x, root, name="b") is x
    same(x, of(root, 4, dtype=torch.int16), "broadcast in place")
    if n > 1:
        refused(ValueError, "cannot be divided evenly", hvd.alltoall, of(r, n + 1))


def check_sparse():
    r, n = hvd.rank(), hvd.size()
    rows = [torch.sparse_coo_tensor([[k, n]], torch.stack([of(k, 2), of(k, 2)]), (n + 1, 2)) for k in range(n)]
    total = sum(row.to_dense() for row in rows)
    same(hvd.sparse_allreduce_async(rows[r], name="s", op=hvd.Sum)().to_dense(), total, "sparse sum")
    mean = hvd.synchronize(hvd.sparse_allreduce_async(rows[r], name="s", op=hvd.Average))
    assert torch.allclose(mean.to_dense(), total / n)


def check_refusals():
    r, n = hvd.rank(), hvd.size()
    refused(ValueError, "not contiguous", hvd.allreduce, of(r, 4, 2).t())
    refused(ValueError, "average", hvd.allreduce, of(r, 1), average=True, op=hvd.Sum)
    refused(NotImplementedError, "Adasum", hvd.allreduce, of(r, 1), op=hvd.Adasum)
    refused(ValueError, "must be Average", hvd.allreduce, of(r, 1), op=17)
    refused(ValueError, f"root_rank {n}", hvd.broadcast, of(r, 1), n)
    refused(ValueError, "complex", hvd.allreduce, torch.zeros(1, dtype=torch.complex64))
    if n > 1:
        refused(hvd.HorovodInternalError, "shape", hvd.allreduce, of(r, 2 + r % 2), name="differs")
        same(hvd.allreduce(of(r, 2), op=hvd.Sum), torch.stack(all_of(2)).sum(0), "after a mismatch")


def check_join():
    r, n = hvd.rank(), hvd.size()
    for step in range(n):
        if step <= r:
            left = range(step, n)
            same(hvd.allreduce(of(r, 3), name=f"uneven.{step}", op=hvd.Sum),
                 torch.stack(all_of(3, ranks=left)).sum(0), f"step {step} of ranks {left}")
            same(hvd.allreduce(of(r, 3), name=f"uneven mean.{step}"),
                 torch.stack(all_of(3, ranks=left)).sum(0) / n, f"mean of step {step} of ranks {left}")
    last = hvd.join()
    assert all(other == last for other in hvd.allgather(torch.tensor([last])).tolist())
    same(hvd.allreduce(of(r, 3), op=hvd.Sum), torch.stack(all_of(3)).sum(0), "after a join")


def check_process_sets():
    r, n = hvd.rank(), hvd.size()
    ends = hvd.add_process_set({0, n - 1})
    members = sorted({0, n - 1})
    assert ends.included() == (r in members) and ends.size() == len(members)
    if ends.included():
        assert ends.rank() == members.index(r)
        same(hvd.allreduce(of(r, 3), op=hvd.Sum, process_set=ends),
             torch.stack(all_of(3, ranks=members)).sum(0), "in a set")
        same(hvd.allreduce(of(r, 3, dtype=torch.int64), postscale_factor=2.0, process_set=ends),
             (torch.stack(all_of(3, ranks=members)).sum(0).double() * (2 / len(members))).long(), "scaled mean in a set")
        same(hvd.broadcast(of(r, 3), n - 1, process_set=ends), of(n - 1, 3), "broadcast in a set")
        assert hvd.allgather_object(r, process_set=ends) == members
        assert hvd.broadcast_object(r, n - 1, process_set=ends) == n - 1
    hvd.barrier()
    assert hvd.remove_process_set(ends) == (n > 2) and not hvd.remove_process_set(hvd.global_process_set)



def check_objects():
    r, n = hvd.rank(), hvd.size()
    assert hvd.allgather_object("x" * r) == ["x" * k for k in range(n)]
    assert hvd.broadcast_object({"rank": r, "of": [n]}, n - 1) == {"rank": n - 1, "of": [n]}


def gradient(function, x, weight):
    """The gradient of sum(function(x) * weight) with respect to x."""
    x = x.clone().requires_grad_()
    (function(x) * weight).sum().backward()
    return x.grad


def check_autograd():
    r, n = hvd.rank(), hvd.size()
    weights = torch.stack(all_of(4)).sum(0)
    same(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), of(r, 4), of(r, 4)), weights, "gradient of a sum")
    same(gradient(lambda x: hvd.allreduce(x, prescale_factor=2.0), of(r, 4), of(r, 4) * n), weights * 2,
         "gradient of a mean")
    both = gradient(lambda x: torch.cat(hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum)), of(r, 4), of(r, 8))
    eight = torch.stack(all_of(8)).sum(0)
    same(both, eight[:4] + 2 * eight[4:], "gradient of a group")
    total = n * (n + 1) // 2
    begin = r * (r + 1) // 2
    same(gradient(hvd.allgather, of(r, r + 1), of(r, total) * n),
         torch.stack(all_of(total)).sum(0)[begin:begin + r + 1], "gradient of allgather")
    same(gradient(lambda x: hvd.broadcast(x, 0), of(r, 4), of(r, 4) * n), weights if r == 0 else torch.zeros(4),
         "gradient of broadcast")
    splits = [[k + to for to in range(n)] for k in range(n)]  # symmetric: what is sent comes back
    parts = [of(k, sum(splits[k])).split([splits[to][k] for to in range(n)]) for k in range(n)]
    same(gradient(lambda x: hvd.alltoall(x, splits[r])[0], of(r, sum(splits[r])), of(r, sum(splits[r]))),
         torch.cat([parts[k][r] for k in range(n)]), "gradient of alltoall")
    same(gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum), of(r, n + 1), of(r, 2 if r == 0 else 1)),
         torch.cat([of(k, 2 if k == 0 else 1) for k in range(n)]) * n, "gradient of reducescatter")
    refused(NotImplementedError, "no gradient", gradient, lambda x: hvd.allreduce(x, op=hvd.Max), of(r, 4), 1)


def check_again():
    hvd.shutdown()
    assert not hvd.is_initialized()
    refused(hvd.HorovodInternalError, "init", hvd.rank)
    hvd.init()
    same(hvd.allreduce(of(hvd.rank(), 2), op=hvd.Sum), torch.stack(all_of(2)).sum(0), "after a second init")


def check_facts():
    assert hvd.local_size() == hvd.size() and hvd.local_rank() == hvd.rank() and hvd.cross_size() == 1
    assert hvd.is_homogeneous() and hvd.mpi_built() and hvd.mpi_threads_supported() in (True, False)
    assert not (hvd.gloo_built() or hvd.nccl_built() or hvd.cuda_built())


CHECKS = [check_facts, check_allreduce, check_handles, check_groups, check_rows, check_sparse, check_refusals, check_join,
          check_process_sets, check_objects, check_autograd, check_again]
