#!/usr/bin/env python3
"""Writes vectors.h: where PyTorch's optimizers take a parameter in 1, 10 and 100 steps.

    pip install torch; ./vectors.py > vectors.h; clang-format -i vectors.h

PyTorch has no LAMB: lamb() is written from the paper (You et al. 2020, algorithm 2, with the
identity for phi).
"""
import torch

ELEMENTS = 6
STEPS = (1, 10, 100)
START = [1.0, -0.5, 0.25, 0.125, -2.0, 0.75]


def gradient(values, step):
    """The same bits as gradient_at() of the test: one rounding."""
    noise = [((i * 29 + step * 17) % 41 - 20) / 16 for i in range(ELEMENTS)]
    return torch.tensor(noise, dtype=values.dtype) + 0.25 * values


def torch_run(make):
    def run(dtype):
        values = torch.tensor(START, dtype=dtype, requires_grad=True)
        optimizer = make([values])
        for step in range(1, STEPS[-1] + 1):
            values.grad = gradient(values.detach(), step)
            optimizer.step()
            yield values.detach().clone()
    return run


def lamb(rate, beta1, beta2, epsilon, decay):
    def run(dtype):
        x = torch.tensor(START, dtype=dtype)
        m = torch.zeros_like(x)
        v = torch.zeros_like(x)
        for t in range(1, STEPS[-1] + 1):
            g = gradient(x, t)
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            r = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + epsilon)
            u = r + decay * x
            x = x - rate * x.norm() / u.norm() * u
            yield x
    return run


CASES = [
    ("SGD", dict(learning_rate=0.05, weight_decay=0.01),
     torch_run(lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.01))),
    ("SGD", dict(learning_rate=0.05, momentum=0.9),
     torch_run(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))),
    ("SGD", dict(learning_rate=0.05, momentum=0.9, nesterov="true", weight_decay=0.01),
     torch_run(lambda p: torch.optim.SGD(
         p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01))),
    ("ADAM", dict(learning_rate=0.01),
     torch_run(lambda p: torch.optim.Adam(p, lr=0.01))),
    ("ADAM", dict(learning_rate=0.01, beta1=0.8, beta2=0.99, epsilon=1e-3, weight_decay=0.1),
     torch_run(lambda p: torch.optim.Adam(
         p, lr=0.01, betas=(0.8, 0.99), eps=1e-3, weight_decay=0.1))),
    ("ADAMW", dict(learning_rate=0.01, beta2=0.95, weight_decay=0.1),
     torch_run(lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1))),
    ("LAMB", dict(learning_rate=0.01, epsilon=1e-6, weight_decay=0.05),
     lamb(0.01, 0.9, 0.999, 1e-6, 0.05)),
]

print("/*\n * Written by vectors.py with PyTorch %s.\n */" % torch.__version__.split("+")[0])
print("static const double vector_start[%d] = {%s};" % (
    ELEMENTS, ",".join(repr(x) for x in START)))
print("static const int vector_steps[%d] = {%s};" % (
    len(STEPS), ",".join(str(s) for s in STEPS)))
print("static const struct vector vectors[] = {")
for kind, options, run in CASES:
    defaults = dict(beta1=0.9, beta2=0.999, epsilon=1e-8)
    fields = ", ".join(".%s = %s" % item for item in {**defaults, **options}.items())
    print("{ .options = { .kind = TUTTI_OPTIMIZER_%s, %s }," % (kind, fields))
    results = [values for step, values in enumerate(run(torch.float64), 1) if step in STEPS]
    print(".values = {%s}," % ",".join(
        "{" + ",".join("%.17g" % x for x in values.tolist()) + "}" for values in results))
    print("},")
print("};")
