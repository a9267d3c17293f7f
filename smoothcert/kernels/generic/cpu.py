"""What a CPU likes: channels last, pooling by comparing neighbours, and batches that fit a cache, one a thread.

Measured on LeNet and ResNet-20 (benchmarks/certify.py --device cpu): in float32 the convolutions then run at the speed
of matrix products, which is all that the processor has. Weights packed for oneDNN, its own fused layers and compiled
networks add next to nothing to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor, fx, nn

from smoothcert.kernels.generic.folding import put, skip
from smoothcert.kernels.generic.fusing import fuse, max_pooling, relu_input

_POOL = {
    "kernel_size": 2,
    "stride": 2,
    "padding": 0,
    "dilation": 1,
    "ceil_mode": False,
    "return_indices": False,
}


def for_cpu(net: fx.GraphModule) -> fx.GraphModule:
    """The network of `fold`, changed in place. It computes without side effects, so threads may share it."""
    for node in list(net.graph.nodes):
        if not _halves(net, node):
            continue
        before = node.args[0]
        relu = before if len(before.users) == 1 and relu_input(net, before) is not None else None
        put(net, node, MaxOfFour(relu_after=relu is not None))
        node.args, node.kwargs = (before,), {}
        if relu is not None:
            skip(relu)
    _keep_memory()
    # weights in this layout make convolutions compute in it, whatever the layout of their input
    fuse(net).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net


class MaxOfFour(nn.Module):
    """Max-pooling of 2x2 by two comparisons: ``max_pool2d`` also notes where each maximum was, which takes longer.

    A ReLU before it may as well follow: both only compare, so the bits are the same, and a quarter as many.
    """

    def __init__(self, relu_after: bool) -> None:
        super().__init__()
        self.relu_after = relu_after

    def forward(self, x: Tensor) -> Tensor:
        height, width = (
            size - size % 2 for size in x.shape[-2:]
        )  # a last odd row or column is left out
        rows = torch.maximum(x[..., 0:height:2, :width], x[..., 1:height:2, :width])
        pooled = torch.maximum(rows[..., 0::2], rows[..., 1::2])
        return pooled.relu_() if self.relu_after else pooled


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """As many threads as PyTorch would use for one operation, each of which computes alone.

    Threads that share an operation wait for each other at its end. That costs a tenth on an idle machine, and most of
    the time on a busy one, where one of them is always late: LeNet was sampled several times slower then.
    """
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(
            cancel_futures=True
        )  # after an error or Ctrl-C, what has not begun is not begun
        torch.set_num_threads(threads)  # MKL keeps one number for all threads


def _keep_memory() -> None:
    """Let glibc keep up to 62 MiB of freed memory: it keeps twice the largest block below 32 MiB that was ever freed.

    Else some MiB of activations go back to the system after a batch, and come again page by page for the next one,
    which takes up to a tenth of the time. With another C library nothing happens.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def _halves(net: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node is max-pooling of 2x2 with stride 2 and nothing special."""
    return max_pooling(net, node) == _POOL
