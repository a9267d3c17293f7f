"""What a CPU likes: channels last, pooling by comparing neighbours, ReLU after pooling, and memory that stays mapped.

Measured on LeNet and ResNet-20 (benchmarks/certify_cpu.py): in float32 the convolutions then run at the speed of matrix
products, which is all that the processor has. Weights packed for oneDNN and its own fused layers add nothing to that.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from smoothcert.fast.folding import called, put, skip, tidy
from smoothcert.fast.fusing import fuse, relu_input

_PAIRS = {"kernel_size": 2, "stride": 2, "padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}


def for_cpu(net: fx.GraphModule) -> fx.GraphModule:
    """The network of `fold` for a CPU, changed in place; in float32 or bfloat16, as its weights are."""
    for node in list(net.graph.nodes):
        if not _pools_pairs(net, node):
            continue
        before = node.args[0]
        relu = before if isinstance(before, fx.Node) and len(before.users) == 1 else None
        after = relu is not None and relu_input(net, relu) is not None
        put(net, node, MaxOfFour(relu_after=after))
        node.args, node.kwargs = (before,), {}
        if relu is not None and after:
            skip(relu)
    keep_memory()
    net = fuse(tidy(net))
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net


class MaxOfFour(nn.Module):
    """Max-pooling of 2x2 by two comparisons: ``max_pool2d`` also notes where each maximum was, which costs more.

    ReLU may follow instead of going before: both only compare, so the bits are the same, of a quarter of the values.
    """

    def __init__(self, relu_after: bool) -> None:
        super().__init__()
        self.relu_after = relu_after

    def forward(self, x: Tensor) -> Tensor:
        height, width = (size - size % 2 for size in x.shape[-2:])  # a last odd row or column is left out
        rows = torch.maximum(x[..., 0:height:2, :width], x[..., 1:height:2, :width])
        pooled = torch.maximum(rows[..., 0::2], rows[..., 1::2])
        return pooled.relu_() if self.relu_after else pooled


def keep_memory() -> None:
    """Let glibc keep freed memory: activations of some MiB are given back after each batch else, and every page of them
    is fetched and cleared anew for the next one, which can double the time. Its threshold follows the largest block
    that was freed, up to 32 MiB; elsewhere this does nothing.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def _pools_pairs(net: fx.GraphModule, node: fx.Node) -> bool:
    layer = called(net, node)
    given: dict[str, Any] = dict(node.kwargs)
    if type(layer) is nn.MaxPool2d:
        given = {name: getattr(layer, name) for name in _PAIRS}
    elif node.op == "call_function" and node.target in (F.max_pool2d, torch.max_pool2d):
        given |= dict(zip(_PAIRS, node.args[1:], strict=False))
    else:
        return False
    stride = given.get("stride") or given.get("kernel_size")
    given = {name: _square(value) for name, value in {**_PAIRS, **given, "stride": stride}.items()}
    return given == _PAIRS


def _square(value: object) -> object:
    """(2, 2) as 2."""
    return value[0] if isinstance(value, tuple | list) and len(set(value)) == 1 else value
