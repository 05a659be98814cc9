"""The backend of torch.distributed on this rank of a job. Exits with 77 when torch is missing."""
import datetime
import os
import re
import socket
import sys

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("skipped: torch is missing; script/setup ci installs python3-torch")
    sys.exit(77)

from check import refused

import tutti.torch.distributed

torch.set_num_threads(1)
torch.set_num_interop_threads(1)  # callbacks must not wait for one another in torch's pool
FAILED = getattr(dist, "DistBackendError", RuntimeError)
with socket.socket() as other:  # MASTER_PORT is held for rank 0
    refused(OSError, "in use", other.bind, ("", int(os.environ["MASTER_PORT"])))
with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "python-torch-distributed.md")) as page:
    exec(re.search(r"^```python\n(.*?)^```$", page.read(), re.M | re.S)[1], {})
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.FileStore(f"/tmp/tutti-torch.{os.environ['MASTER_PORT']}", size)
dist.init_process_group("tutti", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=300))
sum_of_ranks = size * (size - 1) // 2


def equal(got, expected):
    expected = torch.as_tensor(expected, dtype=got.dtype)
    assert got.shape == expected.shape and torch.equal(got, expected), (got, expected)


def both(call):
    """The operation, waited for by itself and by its work; twenty at a time, more than may have one name each."""
    call(lambda function, *arguments, **options: function(*arguments, **options))
    works = []
    checks = [call(lambda function, *arguments, **options: works.append(
        function(*arguments, **options, async_op=True)), later=True) for _ in range(20)]
    for work in works:
        work.wait()
        assert work.is_completed()
    for check in checks:
        check()


def operation(make):
    """Makes of a function that begins an operation and returns its check one for both()."""
    def call(issue, later=False):
        check = make(issue)
        return check if later else check()
    return lambda: both(call)


@operation
def allreduce(issue):
    tensors = [(torch.arange(1000) % 7 + rank).to(kind) for kind in (torch.float32, torch.int64, torch.bfloat16)]
    strided = torch.full((4, 6), float(rank)).t()
    largest = torch.tensor([rank, -rank])
    some, every = torch.tensor([rank == 0]), torch.tensor([rank == 0])
    bits = torch.tensor([1 << rank, 7])
    for tensor in [*tensors, strided]:
        issue(dist.all_reduce, tensor)
    issue(dist.all_reduce, largest, op=dist.ReduceOp.MAX)
    issue(dist.all_reduce, some, op=dist.ReduceOp.SUM)
    issue(dist.all_reduce, every, op=dist.ReduceOp.PRODUCT)
    issue(dist.all_reduce, bits, op=dist.ReduceOp.BXOR)

    def check():
        for tensor in tensors:
            equal(tensor, (torch.arange(1000) % 7) * size + sum_of_ranks)
        equal(strided, torch.full((6, 4), float(sum_of_ranks)))
        equal(largest, [size - 1, 0])
        equal(some, [True])
        equal(every, [size == 1])
        equal(bits, [(1 << size) - 1, 7 if size % 2 else 0])
    return check


@operation
def broadcast_and_reduce(issue):
    root = size - 1
    sent, reduced = torch.full((3, 5), rank), torch.tensor([rank + 1.5])
    strided = torch.full((3, 5), rank).t()
    issue(dist.broadcast, sent, root)
    issue(dist.broadcast, strided, root)
    issue(dist.reduce, reduced, root)

    def check():
        equal(sent, torch.full((3, 5), root))
        equal(strided, torch.full((5, 3), root))
        if rank == root:
            equal(reduced, [sum_of_ranks + 1.5 * size])
    return check


@operation
def gathers(issue):
    outputs, uneven = [torch.zeros(2, 3) for _ in range(size)], [torch.zeros(r) for r in range(size)]
    flat, row = torch.zeros(size * 4, dtype=torch.complex64), torch.full((4,), complex(rank, 1))
    at_root = [torch.zeros(2, dtype=torch.int32) for _ in range(size)] if rank == 0 else None
    issue(dist.all_gather, outputs, torch.full((3, 2), float(rank)).t())
    issue(dist.all_gather, uneven, torch.full((rank,), float(rank)))
    issue(getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base, flat, row)
    issue(dist.gather, torch.full((2,), rank, dtype=torch.int32), at_root, 0)

    def check():
        for r in range(size):
            equal(outputs[r], torch.full((2, 3), float(r)))
            equal(uneven[r], torch.full((r,), float(r)))
            equal(flat[4 * r:4 * r + 4], torch.full((4,), complex(r, 1)))
            if rank == 0:
                equal(at_root[r], [r, r])
    return check


@operation
def scatters(issue):
    part, of_root = torch.zeros(3), [torch.full((3,), 10.0 * r) for r in range(size)] if rank == 0 else None
    uneven = torch.zeros(rank + 1)
    even = torch.zeros(2)
    issue(dist.scatter, part, of_root, 0)
    issue(dist.reduce_scatter, uneven, [torch.full((r + 1,), float(r + rank)) for r in range(size)])
    issue(getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base, even,
          torch.arange(2.0 * size) + rank)

    def check():
        equal(part, torch.full((3,), 10.0 * rank))
        equal(uneven, torch.full((rank + 1,), float(rank * size + sum_of_ranks)))
        equal(even, (torch.arange(2.0) + 2 * rank) * size + sum_of_ranks)
    return check


@operation
def exchanges(issue):
    even, ragged = torch.zeros(size, dtype=torch.int64), torch.zeros(sum(range(size)) + size, 2)
    listed = [torch.zeros(r + 1) for r in range(size)]
    issue(dist.all_to_all_single, even, torch.arange(size) + 10 * rank)
    issue(dist.all_to_all_single, ragged, torch.full((size * (rank + 1), 2), float(rank)),
          output_split_sizes=[r + 1 for r in range(size)], input_split_sizes=[rank + 1] * size)
    issue(dist.all_to_all, listed, [torch.full((rank + 1,), float(rank * size + r)) for r in range(size)])

    def check():
        equal(even, [10 * r + rank for r in range(size)])
        equal(ragged[:, 1], [r for r in range(size) for _ in range(r + 1)])
        for r in range(size):
            equal(listed[r], torch.full((r + 1,), float(r * size + rank)))
    return check


def objects_and_barrier():
    gathered, sent = [None] * size, [{"rank": rank}, "x" * (rank * 1000)]
    dist.all_gather_object(gathered, "y" * (rank * 100))
    assert gathered == ["y" * (r * 100) for r in range(size)]
    dist.broadcast_object_list(sent, src=size - 1)
    assert sent == [{"rank": size - 1}, "x" * ((size - 1) * 1000)]
    dist.barrier()


def sparse():
    """Row 0 has a value of every rank, row 1 + rank one of this rank; a rank without values takes part."""
    indices, values = ([[0, rank + 1]], [[1.0, 2.0], [3.0, 4.0]]) if rank != 1 else ([[]], torch.empty(0, 2))
    tensor = torch.sparse_coo_tensor(torch.tensor(indices, dtype=torch.int64), torch.as_tensor(values), (size + 1, 2))
    expected = torch.zeros(size + 1, 2)
    for r in range(size):
        if r != 1:
            expected[0] += torch.tensor([1.0, 2.0])
            expected[r + 1] = torch.tensor([3.0, 4.0])
    dist.all_reduce(tensor)
    equal(tensor.to_dense(), expected)
    empty = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.empty(2, 0), (size + 1, 0))
    dist.all_reduce(empty)  # rows without elements
    assert empty.shape == (size + 1, 0)


def groups():
    """Overlapping groups of neighbours; groups of the same ranks share a context, not names."""
    for _ in range(2):
        for first in range(size - 1):
            pair = dist.new_group([first, first + 1])
            if rank in (first, first + 1):
                value, world = torch.tensor([rank]), torch.tensor([1])
                of_pair = dist.all_reduce(value, group=pair, async_op=True)
                of_world = dist.all_reduce(world, async_op=True)
                of_pair.wait()
                equal(value, [2 * first + 1])
            else:
                of_world = dist.all_reduce(torch.tensor([1]), async_op=True)
            of_world.wait()
    pairs = [ranks for ranks in tutti.torch.distributed._contexts if len(ranks) == 2]
    assert len(pairs) == (rank > 0) + (rank < size - 1)


def futures():
    """What follows an operation may wait for further ones, which have their place in the order of the program."""
    def again(future):
        second = future.value()[0] * 2
        return dist.all_reduce(second, async_op=True).get_future().wait()[0]
    chains = [dist.all_reduce(torch.tensor([rank + i]), async_op=True).get_future().then(again).then(
        lambda future: again(torch.futures.collect_all([future]).then(lambda all: [one.value() for one in all.value()])))
        for i in range(3)]
    for i, chain in enumerate(chains):
        equal(chain.wait(), [4 * (sum_of_ranks + i * size) * size * size])


def model():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).double()


def trained(net, x):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def data_parallel():
    """DDP and FSDP train as one process with the whole batch."""
    torch.manual_seed(7)
    x = torch.randn(4 * size, 8, dtype=torch.float64)
    alone = model()
    expected = trained(alone, x)
    kinds = [lambda net: torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0001)]
    if hasattr(torch.distributed, "device_mesh"):  # before, FSDP wants a GPU
        from torch.distributed.fsdp import FullyShardedDataParallel
        kinds.append(lambda net: FullyShardedDataParallel(net, device_id=torch.device("cpu")))
    for wrap in kinds:
        net = wrap(model())
        losses = torch.tensor(trained(net, x[rank::size]), dtype=torch.float64)
        dist.all_reduce(losses)
        torch.testing.assert_close(losses / size, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def refusals():
    refused(FAILED, "only from a rank that is named", tutti.torch.distributed._backend.group(0, 0, 1, "none", 1.0).recv_anysource,
            [torch.ones(1)], 0)
    refused(RuntimeError, f"for each of {size} ranks, not {size + 1}", dist.all_gather,
            [torch.zeros(2)] * (size + 1), torch.zeros(2))
    refused(RuntimeError, "split sizes with the sum", dist.all_to_all_single, torch.zeros(size + 1), torch.zeros(size),
            output_split_sizes=[1] * size, input_split_sizes=[1] * size)
    if size > 1:
        late = dist.all_reduce(torch.zeros(1), async_op=True) if rank == 0 else None
        if rank == 0:
            refused(FAILED, "not all ranks have issued it", late.wait, datetime.timedelta(milliseconds=50))
            store.set("refused", "yes")
        else:
            store.wait(["refused"])
            late = dist.all_reduce(torch.zeros(1), async_op=True)
        late.wait()


def messages():
    """Each rank to each: twenty of a tag, before any is received; then of other tags, in another order, and in a batch."""
    others = [peer for peer in range(size) if peer != rank]

    def value(sender, receiver, number):
        return torch.arange(5) + 100 * sender + 10 * receiver + 1000 * number

    works = [dist.isend(value(rank, peer, i), peer) for peer in others for i in range(20)]
    got = {(peer, i): torch.zeros(5, dtype=torch.int64) for peer in others for i in range(20)}
    works += [dist.irecv(got[peer, i], peer) for peer, i in got]
    for work in works:
        work.wait()
    for peer, i in got:
        equal(got[peer, i], value(peer, rank, i))
    column = torch.zeros(5, 2, dtype=torch.int64)
    for peer in others:
        works = [dist.isend(value(rank, peer, tag).repeat(2, 1).t()[:, 0], peer, tag=tag) for tag in (7, 8)]
        assert [dist.recv(column[:, tag - 7], peer, tag=tag) for tag in (8, 7)] == [peer, peer]
        for work in works:
            work.wait()
        equal(column, torch.stack([value(peer, rank, 7), value(peer, rank, 8)], 1))
    if size > 1:
        following, before = (rank + 1) % size, (rank - 1) % size
        both = [dist.P2POp(dist.isend, value(rank, following, 3), following), dist.P2POp(dist.irecv, column[:, 0], before)]
        for work in dist.batch_isend_irecv(both):
            work.wait()
        equal(column[:, 0], value(before, rank, 3))


def monitored_barrier():
    """Passes with all ranks. Rank 0 names those that do not come; another one says that it did."""
    def group():
        made = dist.new_group()
        return made._get_backend(torch.device("cpu")) if hasattr(made, "_get_backend") else made

    soon = datetime.timedelta(milliseconds=50)
    group().monitored_barrier(datetime.timedelta(seconds=300), True)
    alone = [group() for _ in range(3)]  # which are not used after they have failed
    if rank == 0 and size > 1:
        refused(FAILED, "Rank 1 failed to pass monitoredBarrier", alone[0].monitored_barrier, soon)
        refused(FAILED, "Rank 0 timed out", alone[2].monitored_barrier, datetime.timedelta(0))
    if rank == 0 and size > 2:
        refused(FAILED, f"Ranks {', '.join(map(str, range(1, size)))} failed", alone[1].monitored_barrier, soon, True)
    if rank == 1:
        refused(FAILED, "Rank 1 successfully reached monitoredBarrier", alone[2].monitored_barrier, soon)


def again():
    """A new default group after the old one was destroyed."""
    dist.destroy_process_group()
    dist.init_process_group("tutti", store=dist.PrefixStore("again", store), rank=rank, world_size=size)
    value = torch.tensor([rank])
    dist.all_reduce(value)
    equal(value, [sum_of_ranks])


class Slow:
    """A store that rank 0 reads before the others."""

    def set(self, key, value):
        store.set("slow/" + key, value)

    def get(self, key):
        if rank > 0:
            store.wait(["rank 0 has read"])
        value = store.get("slow/" + key)
        if key == f"tutti/{size - 1}":
            store.set("rank 0 has read", "yes")
            store.add("readers", 1)
        return value


def slow_readers():
    """No rank has a group before all have read the store, which one of them may take along; nor do counts of groups
    that were made in vain part them."""
    counts = tutti.torch.distributed._group_counts
    counts[tuple(range(size))] += rank
    made = tutti.torch.distributed._create(Slow(), rank, size, datetime.timedelta(seconds=300))
    assert store.add("readers", 0) == size
    assert len(set(tutti.torch.distributed._all().allgather(torch.tensor(list(counts.values())[:1])).tolist())) == 1
    made.barrier().wait()


CHECKS = [allreduce, broadcast_and_reduce, gathers, scatters, exchanges, objects_and_barrier, sparse, groups, futures,
          messages, monitored_barrier, data_parallel, refusals, again, slow_readers]
for check in CHECKS:
    try:
        check()
    except Exception:
        print(f"rank {rank}: {getattr(check, '__name__', check)}", file=sys.stderr)
        raise
    dist.barrier()
if rank == 0:
    print(f"{len(CHECKS)} checks, {size} ranks, torch {torch.__version__}")
