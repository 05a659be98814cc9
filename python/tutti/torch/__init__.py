"""Horovod's API for PyTorch, over tutti: `import tutti.torch as hvd`. Tensors are in host memory."""
from tutti.torch import elastic  # noqa: F401
from tutti._horovod import HostsUpdatedInterrupt  # noqa: F401
from tutti.torch.compression import Compression, Compressor  # noqa: F401
from tutti.torch.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,  # noqa: F401
                                   broadcast_parameters)
from tutti.torch.mpi_ops import *  # noqa: F401,F403
from tutti.torch.optimizer import DistributedOptimizer  # noqa: F401
from tutti.torch.sampler import ElasticSampler  # noqa: F401
from tutti.torch.sync_batch_norm import SyncBatchNorm  # noqa: F401
