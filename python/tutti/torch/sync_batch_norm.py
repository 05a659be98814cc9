"""Batch normalization over the batches of all ranks."""
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from tutti.torch.mpi_ops import Sum, allreduce, rank, size


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm1d, 2d or 3d whose mean and variance in training are those of all ranks' batches together.

    Takes any tensor of two or more dimensions, the second of which are the channels. Ranks may have batches of
    different sizes. Differentiable: the gradients are those of the sum of the losses of all ranks.
    """

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm: the input has {input.dim()} dimensions; it needs 2 or more")

    def forward(self, input):
        self._check_input_dim(input)
        if not (self.training or not self.track_running_stats) or size() == 1:
            return super().forward(input)
        dims = [d for d in range(input.dim()) if d != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        wide = input.double() if input.dtype == torch.float64 else input.float()
        count = wide.new_full((1,), input.numel() / input.size(1))
        sums = allreduce(torch.cat([wide.sum(dims), count]), op=Sum)
        total = sums[-1].detach()
        if total == 1:  # it has no variance; all ranks see it
            raise ValueError(f"Expected more than 1 value per channel when training, got 1 on all ranks together; rank {rank()} "
                             f"gave an input of size {tuple(input.size())}")
        is_tracked = self.training and self.track_running_stats and total > 0
        total = total.clamp(min=1)
        mean = sums[:-1] / total
        centred = wide - mean.view(shape)
        variance = allreduce((centred * centred).sum(dims), op=Sum) / total
        if is_tracked:
            self._track(mean.detach(), variance.detach() * (total / (total - 1)))
        out = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(input.dtype)

    def _track(self, mean, variance):
        self.num_batches_tracked.add_(1)
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(variance.to(self.running_var.dtype), momentum)
