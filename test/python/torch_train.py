"""Training with tutti.torch: parameters are compared by bits with those of a training made by hand in this process, where
the gradients of all ranks are computed, and added in the order of the ranks."""
import copy
import gc
import os
import signal
import threading
import warnings

import torch
from torch_ops import of, refused, same

import tutti.torch as hvd
from tutti import job

STEPS = 4


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Tanh(),
                               torch.nn.Linear(8, 2))


def batch(rank, step):
    return of(rank + 7 * step, 4, 6) / 8


def loss_of(model, x):
    return model(x).pow(2).sum()


def by_hand(optimizer_class, settings, sent=lambda g: g, passes=1, clip=None, loss=loss_of, scale=1.0):
    """A model after STEPS steps of ordinary training with the gradients of all ranks."""
    model = network()
    optimizer = optimizer_class(model.parameters(), **settings)
    for step in range(STEPS):
        sums = None
        for rank in range(hvd.size()):
            model.zero_grad()
            for k in range(passes):
                loss(model, batch(rank, step * passes + k)).backward()
            mine = [sent((p.grad if p.grad is not None else torch.zeros_like(p)).clone()) for p in model.parameters()]
            sums = mine if sums is None else [a + b for a, b in zip(sums, mine)]
        for p, total in zip(model.parameters(), sums):
            p.grad = sent(total) * scale
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model


def train(optimizer_class, settings, passes=1, clip=None, loss=loss_of, keep_memory=False, model=None, **options):
    model = model or network()
    optimizer = hvd.DistributedOptimizer(optimizer_class(model.parameters(), **settings), model.named_parameters(),
                                         backward_passes_per_step=passes, **options)
    for step in range(STEPS):
        model.zero_grad(set_to_none=not keep_memory)
        for k in range(passes):
            loss(model, batch(hvd.rank(), step * passes + k)).backward()
        if clip is not None:
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
    return model, optimizer


def equal(model, expected, what):
    for (name, got), wanted in zip(model.named_parameters(), expected.parameters()):
        same(got, wanted, f"{what}: {name}")


SGD = torch.optim.SGD, {"lr": 0.125, "momentum": 0.5}


def check_sum():
    model, optimizer = train(*SGD, op=hvd.Sum)
    equal(model, by_hand(*SGD), "sums")
    assert hvd.size() == 1 or all(slot.place is slot.param.grad for slot in optimizer._gradients.slots)
    equal(train(*SGD, op=hvd.Sum, keep_memory=True)[0], by_hand(*SGD), "sums in the same memory")
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"


def check_mean():
    # A division by a power of two is exact, whoever makes it.
    scale = 1 / hvd.size()
    settings = torch.optim.Adam, {"lr": 0.125}
    model, expected = train(*settings)[0], by_hand(*settings, scale=scale)
    if hvd.size() & (hvd.size() - 1):
        assert all(torch.allclose(a, b) for a, b in zip(model.parameters(), expected.parameters()))
    else:
        equal(model, expected, "means")
    equal(train(*SGD, gradient_predivide_factor=2.0)[0], train(*SGD)[0], "divided before and after")


def check_passes_and_clipping():
    equal(train(*SGD, passes=3, op=hvd.Sum)[0], by_hand(*SGD, passes=3), "three passes")
    equal(train(*SGD, clip=0.5, op=hvd.Sum)[0], by_hand(*SGD, clip=0.5), "clipped")


def check_groups():
    expected = by_hand(*SGD)
    equal(train(*SGD, op=hvd.Sum, groups=2)[0], expected, "two groups")
    model = network()
    pairs = [[model[0].weight, model[4].bias], [model[2].weight]]
    equal(train(*SGD, op=hvd.Sum, model=model, groups=pairs)[0], expected, "listed groups")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        equal(train(*SGD, op=hvd.Sum, num_groups=3)[0], expected, "groups by the old name")
    assert any("num_groups" in str(warning.message) for warning in seen)


def check_compression():
    """Sums of float16 are made in float32 and rounded once."""
    if hvd.size() > 1:
        expected = by_hand(*SGD, sent=lambda g: g.half().float())
        equal(train(*SGD, op=hvd.Sum, compression=hvd.Compression.fp16)[0], expected, "compressed")


def check_unused():
    """A layer that some ranks leave out in some steps counts as zero there."""
    def loss(model, x):
        used = model if x[0, 0].mul(8).long() % 2 else model[:4]
        return used(x).pow(2).sum()

    if hvd.size() == 1:
        return  # torch leaves them as they are
    equal(train(*SGD, op=hvd.Sum, loss=loss)[0], by_hand(*SGD, loss=loss), "unused layers")
    equal(train(*SGD, op=hvd.Sum, loss=loss, groups=1)[0], by_hand(*SGD, loss=loss), "unused layers in a group")


def check_sparse():
    r, n = hvd.rank(), hvd.size()
    for dense in (False, True):
        model = torch.nn.Embedding(n + 1, 2, sparse=True)
        torch.nn.init.zeros_(model.weight)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(),
                                             op=hvd.Sum, sparse_as_dense=dense)
        expected = torch.zeros(n + 1, 2)
        for step in range(STEPS):
            optimizer.zero_grad()
            (model(torch.tensor([r, n])) * of(r, 2, 2)).sum().backward()
            optimizer.step()
            for rank in range(n):
                expected[[rank, n]] -= of(rank, 2, 2)
            assert model.weight.grad.is_sparse
        same(model.weight.detach(), expected, f"sparse gradients, as dense ones: {dense}")


def check_mistakes():
    model = network()
    plain = torch.optim.SGD(model.parameters(), lr=0.125)
    named = list(model.named_parameters())
    refused(ValueError, "pairs", hvd.DistributedOptimizer, plain, [p for _, p in named])
    refused(ValueError, "0.bias", hvd.DistributedOptimizer, plain, named + [("0.bias", named[0][1])])
    refused(ValueError, "not 1 of", hvd.DistributedOptimizer, plain, named[1:])
    refused(ValueError, "more than once", hvd.DistributedOptimizer, plain, named, groups=[[named[0][1], named[0][1]]])
    refused(ValueError, "needs op=Average", hvd.DistributedOptimizer, plain, named, op=hvd.Sum,
            gradient_predivide_factor=2.0)
    refused(ValueError, "backward_passes_per_step", hvd.DistributedOptimizer, plain, named, backward_passes_per_step=0)
    if hvd.size() > 1:
        away = torch.nn.Linear(2, 2, device="meta")
        refused(NotImplementedError, "the device meta", hvd.DistributedOptimizer,
                torch.optim.SGD(away.parameters(), lr=1.0), away.named_parameters())
        optimizer = hvd.DistributedOptimizer(plain, named)
        loss_of(model, batch(0, 0)).backward()
        refused(AssertionError, "zero_grad() was called", optimizer.zero_grad)
        refused(AssertionError, "more than 1 times", loss_of(model, batch(0, 0)).backward)
        optimizer.synchronize()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            optimizer.step()
        assert any("skip_synchronize" in str(warning.message) for warning in seen)


def check_two_optimizers():
    """Of one name each, in turns; and one in which torch's own things are used: a closure, a scheduler, hooks."""
    models = [network(), torch.nn.Linear(6, 1)]
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.125, momentum=0.5), op=hvd.Sum)
                  for model in models]
    schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 100) for optimizer in optimizers]
    losses = []
    for step in range(STEPS):
        for model, optimizer, scheduler in zip(models, optimizers, schedulers):
            def closure():
                optimizer.zero_grad()
                loss = loss_of(model, batch(hvd.rank(), step))
                loss.backward()
                return loss

            losses.append(optimizer.step(closure))
            scheduler.step()
    equal(models[0], by_hand(*SGD), "with closures, and another optimizer")
    assert len(losses) == 2 * STEPS and all(loss is not None for loss in losses)


def check_second_life():
    """The same optimizer after shutdown() and init(); the gradients stay readable in between."""
    model, optimizer = train(*SGD, op=hvd.Sum)
    before = [p.grad.clone() for p in model.parameters()]
    hvd.shutdown()
    hvd.init()
    for p, grad in zip(model.parameters(), before):
        same(p.grad, grad, "a gradient after shutdown")
    plain = copy.deepcopy(model)
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, batch(hvd.rank(), step)).backward()
        optimizer.step()
        sums = 0
        for rank in range(hvd.size()):
            plain.zero_grad()
            loss_of(plain, batch(rank, step)).backward()
            sums = sums + torch.cat([p.grad.flatten() for p in plain.parameters()])
        with torch.no_grad():
            same(torch.cat([p.grad.flatten() for p in model.parameters()]), sums, "gradients of a second life")
        plain.load_state_dict(model.state_dict())


def check_dropped():
    """Model and optimizer go between backward() and step(): their memory stays as long as gradients are in flight."""
    context, r = job.context(), hvd.rank()
    barrier = torch.zeros(1)
    for settled in (0, 1):
        model = torch.nn.Linear(2000, 1, bias=False)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), [("dropped", model.weight)])
        for _ in range(settled):
            optimizer.zero_grad()
            model(torch.ones(1, 2000)).sum().backward()
            optimizer.step()
        if r == 0:
            hvd.allreduce_(barrier, name="the others have dropped theirs")
        optimizer.zero_grad()
        model(torch.ones(1, 2000)).sum().backward()
        shared = list(context._shared)
        model = optimizer = None
        gc.collect()
        mine = [torch.zeros(size) for size in (2000, 2016) for _ in range(200)]
        if r != 0:
            hvd.allreduce_(barrier, name="the others have dropped theirs")
        hvd.barrier()
        assert not any(t.any() for t in mine), f"somebody else's memory was written, {settled}"
        hvd.barrier()
        while context._unwanted or context._dropped:  # a gradient may end after the barrier
            context._reap()
        assert not set(shared) & set(context._shared)


def check_interrupted_step():
    """Ctrl-C in step(): the next step waits for what is in flight before it writes there."""
    model, gradient = torch.nn.Linear(4, 1, bias=False), torch.arange(1.0, 5.0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.0), [("interrupted", model.weight)],
                                         op=hvd.Sum)
    for step in range(4 if hvd.size() > 1 else 0):
        optimizer.zero_grad()
        if hvd.rank() != 0 and step == 2:
            hvd.barrier()
        (model.weight * gradient * (step + 1)).sum().backward()
        if hvd.rank() != 0 or step != 2:
            optimizer.step()
            same(model.weight.grad, (step + 1.0) * hvd.size() * gradient.reshape(1, 4), f"step {step}")
            continue
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            optimizer.step()  # the others have not come
            raise AssertionError("the step was not interrupted")
        except KeyboardInterrupt:
            timer.join()
        hvd.barrier()


def check_added_parameters():
    model, expected = network(), by_hand(*SGD)
    layers = [{"params": list(layer.parameters())} for layer in (model[0], model[2], model[4])]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layers[:1], **SGD[1]), op=hvd.Sum)
    for step in range(STEPS):
        if step == 0:
            optimizer.add_param_group(layers[1])
            optimizer.add_param_group(layers[2])
        optimizer.zero_grad()
        loss_of(model, batch(hvd.rank(), step)).backward()
        optimizer.step()
    equal(model, expected, "added parameters")


def check_scheduler(model, plain, optimizer, scheduler):
    """One that was made of the optimizer before it was wrapped still sets the rates, whatever has been loaded since."""
    state = hvd.elastic.TorchState(optimizer=plain, step=0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for load in (lambda: optimizer.load_state_dict(optimizer.state_dict()), state.sync, lambda: None):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
            load()
            scheduler.step()
    state.close()
    assert optimizer.param_groups[0]["lr"] == 0.5 / 8 and optimizer.state is plain.state
    assert not [warning for warning in seen if "scheduler" in str(warning.message)], seen


def check_states():
    r = hvd.rank()
    torch.manual_seed(r)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5 if r == 0 else 0.125)
    if r == 0:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    plain, scheduler = optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer if r % 2 else plain, 0)
    assert optimizer.param_groups[0]["lr"] == 0.5 and len(optimizer.state_dict()["state"]) == 2
    everywhere = hvd.allgather_object((model.state_dict(), optimizer.state_dict()))
    assert all(str(one) == str(everywhere[0]) for one in everywhere)
    if hvd.size() > 1:
        assert optimizer.state_dict()["state"][0]["exp_avg"].abs().sum() > 0
    check_scheduler(model, plain, optimizer, scheduler)
    refused(ValueError, "params is of type", hvd.broadcast_parameters, model.weight, 0)


def check_sync_batch_norm():
    r, n = hvd.rank(), hvd.size()
    inputs = [of(k, k + 2, 3, 4, dtype=torch.float64).requires_grad_() for k in range(n)]
    weights = [of(k + 3, k + 2, 3, 4, dtype=torch.float64) for k in range(n)]
    whole, mine = torch.nn.BatchNorm1d(3).double(), hvd.SyncBatchNorm(3).double()
    out = whole(torch.cat(inputs)).split([k + 2 for k in range(n)])
    got = mine(inputs[r].detach().requires_grad_())
    assert torch.allclose(got, out[r], atol=1e-12)
    sum((o * w).sum() for o, w in zip(out, weights)).backward()
    x = inputs[r].detach().requires_grad_()
    hvd.SyncBatchNorm(3).double()(x).mul(weights[r]).sum().backward()
    assert torch.allclose(x.grad, inputs[r].grad, atol=1e-12)
    for name in ("running_mean", "running_var"):
        assert torch.allclose(getattr(mine, name), getattr(whole, name), atol=1e-12), name
    assert mine.num_batches_tracked == 1
    tracked = mine.running_mean.clone(), mine.running_var.clone()
    refused(ValueError, "Expected more than 1 value per channel", mine, inputs[0][:n == 1 or r == 0, :, :1].detach())
    nothing = inputs[r][:0].detach().requires_grad_()
    if n > 1:
        mine(nothing).sum().backward()
    assert torch.equal(mine.running_mean, tracked[0]) and torch.equal(mine.running_var, tracked[1])
    mine.eval()
    assert torch.equal(mine(inputs[r]), torch.nn.functional.batch_norm(
        inputs[r], mine.running_mean, mine.running_var, mine.weight, mine.bias))


def check_sampler():
    sampler = hvd.ElasticSampler(range(10), shuffle=True, seed=3)
    parts = hvd.allgather_object(list(sampler))
    assert {index for part in parts for index in part} == set(range(10)) and len({len(part) for part in parts}) == 1
    sampler.record_batch(0, 2)
    first = {index for part in parts for index in part[:2]}
    sampler.reset()
    rest = {index for part in hvd.allgather_object(list(sampler)) for index in part}
    assert rest == set(range(10)) - first and len(sampler) == len(list(sampler))
    sampler.set_epoch(1)
    assert hvd.allgather_object(list(sampler)) != parts and len(sampler) == -(-10 // hvd.size())


CHECKS = [check_sum, check_mean, check_passes_and_clipping, check_groups, check_compression, check_unused, check_sparse,
          check_mistakes, check_two_optimizers, check_second_life, check_dropped,
          check_interrupted_step, check_added_parameters, check_states,
          check_sync_batch_norm, check_sampler]
