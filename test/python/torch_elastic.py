"""An elastic job: a rank kills itself in the first start of the job; the second goes on from what was committed."""
import os
import signal
import sys

try:
    import torch
except ImportError:
    print("skipped: torch is missing; script/setup ci installs python3-torch")
    sys.exit(77)

import tutti.torch as hvd

STEPS, DEATH = 6, 4
torch.set_num_threads(1)
hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(3, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.25), model.named_parameters(), op=hvd.Sum)
sampler = hvd.ElasticSampler(range(4 * hvd.size()), shuffle=False)
state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, step=0, history=[])
resets = []
state.register_reset_callbacks([lambda: resets.append(state.step)])


def step_of(model, optimizer, ranks):
    optimizer.zero_grad()
    for rank in ranks:
        model(torch.full((1, 3), 1.0 + rank)).sum().backward()
    optimizer.step()


@hvd.elastic.run
def train(state):
    while state.step < STEPS:
        if state.generation == 1 and state.step == DEATH and hvd.rank() == hvd.size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        step_of(state.model, state.optimizer, [hvd.rank()])
        if state.step == 0:
            state.sampler.record_batch(0, 1)
        state.history = state.history + [state.generation]
        state.step += 1
        state.commit()
    return "done"


torch.manual_seed(0)
expected = torch.nn.Linear(3, 2)
plain = torch.optim.Adam(expected.parameters(), lr=0.25)
for _ in range(STEPS):
    step_of(expected, plain, range(hvd.size()))
with torch.no_grad():
    first = [p.clone() for p in model.parameters()]
    for p in model.parameters():
        p.zero_()
state.history = ["lost"]
state.restore()  # what there was at first, or has been committed in an earlier start
assert state.history == ([] if state.generation == 1 else [1] * DEATH), state.history
assert state.generation > 1 or all(torch.equal(got, wanted) for got, wanted in zip(model.parameters(), first))
assert train(state) == "done"
assert state.history == [1] * DEATH + [2] * (STEPS - DEATH), state.history
state.step = 99
state.restore()
assert state.step == STEPS
assert resets == [DEATH] and len(sampler) == 3
for got, wanted in zip(model.parameters(), expected.parameters()):
    assert torch.equal(got, wanted), (got, wanted)
state.close()
hvd.shutdown()
