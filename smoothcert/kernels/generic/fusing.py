"""Convolution, addition of the shortcut and ReLU as one call, where the device has such a call.

cuDNN has it in half precision; elsewhere the addition and the ReLU at least work in the memory of the convolution.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from smoothcert.kernels.generic.folding import called, put, shape, skip, tidy

_RELU: set[object] = {F.relu, F.relu_, torch.relu, torch.relu_, "relu", "relu_"}
_ADD: set[object] = {operator.add, torch.add, "add"}
_ADD_IN_PLACE: set[object] = {operator.iadd, "add_"}
_POOL = {
    "kernel_size": None,
    "stride": None,
    "padding": 0,
    "dilation": 1,
    "ceil_mode": False,
    "return_indices": False,
}


class ConvReLU(nn.Module):
    """relu(conv(x))."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        conv, padding = self.conv, self.conv.padding
        if isinstance(padding, str) or not _cudnn_fuses(conv, x):
            y: Tensor = conv(x)
            return y.relu_()
        return torch.cudnn_convolution_relu(
            x, conv.weight, conv.bias, conv.stride, padding, conv.dilation, conv.groups
        )


class ConvAddReLU(nn.Module):
    """relu(conv(x) + z) for a z of the shape of conv(x)."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        conv, padding = self.conv, self.conv.padding
        if isinstance(padding, str) or not _cudnn_fuses(conv, x):
            y: Tensor = conv(x)
            return y.add_(z).relu_()
        return torch.cudnn_convolution_add_relu(
            x, conv.weight, z, 1.0, conv.bias, conv.stride, padding, conv.dilation, conv.groups
        )


def _cudnn_fuses(conv: nn.Conv2d, x: Tensor) -> bool:
    half = x.is_cuda and x.dtype in (torch.float16, torch.bfloat16)
    return (
        half and conv.padding_mode == "zeros" and x.is_contiguous(memory_format=torch.channels_last)
    )


def fuse(net: fx.GraphModule) -> fx.GraphModule:
    """The network of `fold`, changed in place."""
    for node in list(net.graph.nodes):
        before = relu_input(net, node)
        if before is None:
            continue
        if (conv := conv_of(net, before)) is not None:
            put(net, before, ConvReLU(conv))
            skip(node)
        elif (found := _added(net, before)) is not None:
            conv, start, other = found
            put(net, node, ConvAddReLU(_with_bias_of(net, other, conv)))
            node.args, node.kwargs = (start.args[0], other), {}
            net.graph.erase_node(before)
            net.graph.erase_node(start)
    return tidy(net)


def _with_bias_of(net: fx.GraphModule, other: fx.Node, conv: nn.Conv2d) -> nn.Conv2d:
    """`conv` with the bias of the convolution that it is added to, which then has none.

    cuDNN adds a bias before a ReLU at no cost, and one without a ReLU by a pass of its own over the whole answer.
    """
    shortcut = conv_of(net, other)
    if shortcut is None or shortcut.bias is None:
        return conv
    both, bare = deepcopy(conv), deepcopy(shortcut)
    total = shortcut.bias.detach().double() + (
        0.0 if conv.bias is None else conv.bias.detach().double()
    )
    both.bias, bare.bias = nn.Parameter(total.to(shortcut.bias.dtype), requires_grad=False), None
    put(net, other, bare)
    return both


def relu_input(net: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The input of a ReLU in any spelling, if nothing else uses it: then in place or not makes no difference."""
    if type(called(net, node)) is not nn.ReLU and (
        node.op == "call_module" or node.target not in _RELU
    ):
        return None
    before = node.args[0] if node.args else None
    return before if isinstance(before, fx.Node) and len(before.users) == 1 else None


def conv_of(net: fx.GraphModule, node: object) -> nn.Conv2d | None:
    """The convolution that a node calls on a batch, if its value is used once."""
    layer = called(net, node)
    once = isinstance(node, fx.Node) and len(node.users) == 1 and len(shape(node)) == 4
    # exact type: a subclass may compute anything
    return layer if isinstance(layer, nn.Conv2d) and type(layer) is nn.Conv2d and once else None


def summands(node: fx.Node) -> list[tuple[Any, Any]]:
    """What a node adds, in the orders in which the first may be thought of as the place where the sum is made."""
    if (
        node.op == "call_module"
        or node.target not in _ADD | _ADD_IN_PLACE
        or len(node.args) != 2
        or node.kwargs
    ):
        return []
    first, second = node.args
    # in place, the first argument changes for all who use it: it must be a layer's answer, which nobody else uses
    return [(first, second)] if node.target in _ADD_IN_PLACE else [(first, second), (second, first)]


def _added(net: fx.GraphModule, node: fx.Node) -> tuple[nn.Conv2d, fx.Node, fx.Node] | None:
    """(convolution, its node, the other node) of a node that adds these two."""
    for start, other in summands(node):
        conv = conv_of(net, start)
        if (
            conv is None
            or not isinstance(start, fx.Node)
            or not isinstance(other, fx.Node)
            or other is start
        ):
            continue
        # no broadcasting; and nothing may change the convolution's input before the place that it moves to
        if shape(other) == shape(start) and not any(changes(net, start, node)):
            return conv, start, other
    return None


def max_pooling(net: fx.GraphModule, node: fx.Node) -> dict[str, Any] | None:
    """The settings of a node that is max-pooling, 2 for (2, 2); None for all other nodes."""
    if not node.args or not isinstance(node.args[0], fx.Node):
        return None
    layer, settings = called(net, node), dict[str, Any](node.kwargs)
    if type(layer) is nn.MaxPool2d:
        settings = {name: getattr(layer, name) for name in _POOL}
    elif node.op == "call_function" and node.target in (F.max_pool2d, torch.max_pool2d):
        settings |= dict(zip(_POOL, node.args[1:], strict=False))
    else:
        return None
    settings["stride"] = settings.get("stride") or settings["kernel_size"]
    return {name: _single(value) for name, value in {**_POOL, **settings}.items()}


def _single(value: object) -> object:
    return value[0] if isinstance(value, tuple | list) and len(set(value)) == 1 else value


def changes(net: fx.GraphModule, start: fx.Node, end: fx.Node) -> Iterator[bool]:
    """For each node between two: whether it may change a value in place."""
    node = start.next
    while node is not end:
        name = str(getattr(node.target, "__name__", node.target))
        yield (
            bool(getattr(called(net, node), "inplace", False))
            or any(value is True for value in node.args)  # F.relu(x, True)
            or bool(
                {"inplace", "out"}
                & {name for name, value in node.kwargs.items() if value is not False}
            )
            or (node.op != "call_module" and name.endswith("_"))  # relu_
            or (
                getattr(node.target, "__module__", "") == "_operator"
                and name.startswith(("i", "set"))
            )  # iadd, setitem
        )
        node = node.next
