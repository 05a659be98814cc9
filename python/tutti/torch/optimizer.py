"""DistributedOptimizer: averages gradients over the ranks while the backward pass computes the next ones."""
import warnings
import weakref
from contextlib import contextmanager

import torch

from tutti import _horovod as common
from tutti.torch.compression import Compression
from tutti.torch.functions import load_in_place
from tutti.torch.gradients import Gradients
from tutti.torch.mpi_ops import Average, global_process_set, size


class _Distributed:
    """In front of the class of an optimizer; its gradients are those of all ranks when it steps."""

    def synchronize(self):
        """Waits until the gradients are reduced, for example to clip them before step()."""
        if self._gradients is not None:
            self._gradients.synchronize()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self):
        """In this block step() takes the gradients as they are, after synchronize()."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None):
        """Reduces the gradients, and updates the parameters. A closure's gradients are reduced after each call."""
        if self._should_synchronize and closure is None:
            if self._synchronized:
                warnings.warn("step() reduces again what synchronize() has reduced; call it in a block "
                              "`with optimizer.skip_synchronize():`")
            self.synchronize()
        elif self._should_synchronize:
            closure = self._reduced(closure)
        self._synchronized = False
        result = super().step(closure)
        # Where a scheduler that was made before looks whether there was a step, in torch before 2.4 and since.
        self._given._step_count, self._given._opt_called = getattr(self._given, "_step_count", 0) + 1, True
        return result

    step.hooked = True  # torch wraps step() of the class below to call its hooks: once is enough

    def _reduced(self, closure):
        def call():
            loss = closure()
            with torch.no_grad():
                self.synchronize()
            return loss

        return call

    def zero_grad(self, *arguments, **options):
        """As the optimizer's own; not between backward() and step(), where gradients are on their way."""
        if self._gradients is not None and self._gradients.pending:
            raise AssertionError("zero_grad() was called between backward() and step() or synchronize(), while "
                                 "gradients are being reduced; call it after step()")
        return super().zero_grad(*arguments, **options)

    def load_state_dict(self, state_dict):
        """As the optimizer's own, in place."""
        load_in_place(self, state_dict, super().load_state_dict)

    def add_param_group(self, param_group):
        """As the optimizer's own; the new gradients are reduced, too."""
        super().add_param_group(param_group)
        if self._gradients is not None:
            group = len(self.param_groups) - 1
            self._gradients.add((f"noname.{group}.{j}", param)
                                for j, param in enumerate(self.param_groups[group]["params"]))

    @property
    def backward_passes_per_step(self):
        """How many backward passes add to the gradients before they are reduced."""
        return self._passes

    def set_backward_passes_per_step(self, passes):
        """Changes it, between steps."""
        self._passes = _positive(passes)
        if self._gradients is not None:
            self._gradients.set_passes(passes)


def _positive(passes):
    if passes <= 0:
        raise ValueError(f"backward_passes_per_step is {passes}; it must be 1 or more")
    return passes


def _named(optimizer, named_parameters):
    """The parameters of an optimizer with their names; refuses names that are not theirs."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    if named_parameters is None:
        return [(f"noname.{i}.{j}", param) for i, group in enumerate(optimizer.param_groups)
                for j, param in enumerate(group["params"])]
    named = list(named_parameters)
    if any(not isinstance(item, tuple) for item in named):
        raise ValueError("named_parameters must be pairs of a name and a parameter, as model.named_parameters() gives")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError("named_parameters has several parameters of one name: " + ", ".join(twice))
    by_id = {id(param): name for name, param in named}
    unnamed = sum(id(param) not in by_id for param in params)
    if unnamed:
        raise ValueError(f"named_parameters names {len(names)} parameters, but not {unnamed} of the optimizer's "
                         f"{len(params)}; give model.named_parameters() of the whole model")
    return [(by_id[id(param)], param) for param in params]


def _check_groups(groups, num_groups):
    if num_groups and groups is None:
        warnings.warn("num_groups is the old name of groups", DeprecationWarning)
        groups = num_groups
    if groups is None or isinstance(groups, int) and not isinstance(groups, bool):
        if groups is not None and groups <= 0:
            raise ValueError(f"groups is {groups}; it must be 1 or more, or a list of lists of parameters")
        return groups
    if not isinstance(groups, list):
        raise ValueError(f"groups is a {type(groups).__name__}; it must be a number, or a list of lists of parameters")
    seen = set()
    for param in (param for group in groups for param in group):
        if not isinstance(param, torch.Tensor):
            raise ValueError(f"groups has a {type(param).__name__}; it must have lists of parameters")
        if id(param) in seen:
            raise ValueError("a parameter is in groups more than once")
        seen.add(id(param))
    return groups


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1,
                         op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set):
    """Returns the optimizer as one whose step() uses the gradients of all ranks.

    It keeps the class, settings and state of the optimizer, which is not to be used any more. Gradients are reduced
    from the moment they are computed; step() waits for them. A parameter without a gradient counts as zero.

    named_parameters: model.named_parameters(); the names appear in messages. compression: Compression.none or fp16.
    backward_passes_per_step: backward passes that add to the gradients before they are reduced.
    op: Average or Sum; Min, Max and Product, too. gradient_predivide_factor: divides gradients by it before they are
    added, and multiplies the mean by it. groups: reduces gradients in so many groups, or in these lists of
    parameters, each all or nothing. sparse_as_dense: sparse gradients travel as dense ones.
    process_set: the ranks that train together; on others the optimizer is an ordinary one.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    op, groups = common.reduction(op), _check_groups(groups, num_groups)
    named = _named(optimizer, named_parameters)
    wrapper = type(optimizer.__class__.__name__, (_Distributed, optimizer.__class__), {"__module__": __name__})
    wrapped = wrapper.__new__(wrapper)
    # A scheduler made before has put a step() into the object.
    wrapped.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    wrapped._given = optimizer
    wrapped._passes = _positive(backward_passes_per_step)
    wrapped._should_synchronize, wrapped._synchronized, wrapped._gradients = True, False, None
    if size() > 1 and process_set.included():
        wrapped._gradients = Gradients(named, compression, backward_passes_per_step, op, gradient_predivide_factor,
                                       sparse_as_dense, process_set)
        if groups is not None:
            wrapped._gradients.make_groups(groups)
        weakref.finalize(wrapped, wrapped._gradients.close).atexit = False
    return wrapped
