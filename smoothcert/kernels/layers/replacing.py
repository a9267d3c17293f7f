"""Where a traced network has layers that layer_kernels.py has too: its nodes call these instead."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from smoothcert.kernels.generic.folding import called, put, shape, skip, tidy
from smoothcert.kernels.generic.fusing import ConvReLU, changes, max_pooling, relu_input, summands
from smoothcert.kernels.layers.modules import (
    ChannelNorm,
    LinearGelu,
    MaxPool,
    NarrowConv,
    NormedSum,
    Patches,
    TokenNorm,
)
from smoothcert.models.normalise import Normalise

# channels of an image, of a narrow convolution, and of its answer, at most
_IMAGE, _FEW, _MANY = 4, 64, 128
_WINDOW = 256  # values of a window of a narrow convolution, at most
_WIDEST = 4096  # a token


def with_layer_kernels(net: fx.GraphModule) -> int:
    """How many layers of the network of `fuse`, which is changed in place, are kernels now."""
    rules = (_convolution, _normalisation, _channel_norm, _token_norm, _max_pool, _gelu)
    found = sum(
        rule(net, node) for rule in rules for node in list(net.graph.nodes) if not node._erased
    )
    tidy(net)
    return found


def _convolution(net: fx.GraphModule, node: fx.Node) -> bool:
    """A convolution of few channels, with the normalisation of images before it: of images, or of every other pixel.

    For others the libraries have good kernels, and for every other of 64 channels one that is four times slower.
    """
    layer = called(net, node)
    relu, conv = isinstance(layer, ConvReLU), layer.conv if isinstance(layer, ConvReLU) else layer
    if (
        type(conv) is not nn.Conv2d
        or not _plain(conv)
        or conv.in_channels > _FEW
        or len(shape(node)) != 4
    ):
        return False
    if conv.in_channels > _IMAGE and (conv.kernel_size != (1, 1) or conv.stride == (1, 1)):
        return False
    before: Any = node.args[0]
    norm = called(net, before)
    norm = norm if isinstance(norm, Normalise) and len(norm.mean) in (1, conv.in_channels) else None
    start = before if norm is None else before.args[0]
    if conv.in_channels <= _IMAGE and not relu and _tiled(conv):
        put(net, node, Patches(conv, norm))
    elif conv.out_channels <= _MANY and conv.weight[0].numel() <= _WINDOW:
        put(net, node, NarrowConv(conv, norm, relu))
    else:
        return False
    node.args = (start,)
    if before is not start and not before.users:
        net.graph.erase_node(before)
    return True


def _tiled(conv: nn.Conv2d) -> bool:
    """Whether windows lie side by side."""
    return conv.stride == conv.kernel_size and conv.padding == (0, 0)


def _plain(conv: nn.Conv2d) -> bool:
    """Square windows, zeros around the image, all channels together."""
    pairs: tuple[object, ...] = (conv.kernel_size, conv.stride, conv.padding)
    square = all(isinstance(pair, tuple) and len(set(pair)) == 1 for pair in pairs)
    return square and conv.dilation == (1, 1) and conv.groups == 1 and conv.padding_mode == "zeros"


def _normalisation(net: fx.GraphModule, node: fx.Node) -> bool:
    """That of images, where no first layer has taken it over: one pass instead of two."""
    norm = called(net, node)
    if not isinstance(norm, Normalise) or len(shape(node)) != 4:
        return False
    put(net, node, ChannelNorm(norm, relu=False, keep=False))
    return True


def _channel_norm(net: fx.GraphModule, node: fx.Node) -> bool:
    """A BatchNorm that could not be folded, with the sum before and the ReLU after it."""
    norm = called(net, node)
    if (
        not isinstance(norm, nn.BatchNorm2d)
        or type(norm) is not nn.BatchNorm2d
        or len(shape(node)) != 4
    ):
        return False
    if norm.running_mean is None or norm.running_var is None:
        return False
    users = list(node.users)
    relu = users[0] if len(users) == 1 and relu_input(net, users[0]) is node else None
    _put_norm(net, node, lambda keep: ChannelNorm(norm, relu is not None, keep))
    if relu is not None:
        skip(relu)
    return True


def _token_norm(net: fx.GraphModule, node: fx.Node) -> bool:
    """LayerNorm, with the sum before it."""
    norm = called(net, node)
    if (
        not isinstance(norm, nn.LayerNorm)
        or type(norm) is not nn.LayerNorm
        or len(norm.normalized_shape) != 1
    ):
        return False
    if norm.normalized_shape[0] > _WIDEST:
        return False
    _put_norm(net, node, lambda keep: TokenNorm(norm, keep))
    return True


def _put_norm(net: fx.GraphModule, node: fx.Node, make: Callable[[bool], NormedSum]) -> None:
    """Let a node, or the sum before it, call a norm; `make` is told whether the sum must be kept for others."""
    total: Any = node.args[0]
    terms = _terms(net, total, node)
    if terms is None:
        put(net, node, make(False))
        return
    others = [user for user in total.users if user is not node]
    put(net, total, make(bool(others)))  # where the sum is made, which may be long before
    total.args, total.kwargs = terms, {}
    normed = total
    if others:
        with net.graph.inserting_after(total):
            kept, normed = (
                net.graph.call_function(operator.getitem, (total, place)) for place in (0, 1)
            )
        kept.meta, normed.meta = dict(total.meta), dict(node.meta)
        for user in others:
            user.replace_input_with(total, kept)
    node.replace_all_uses_with(normed)
    net.graph.erase_node(node)


def _terms(net: fx.GraphModule, total: fx.Node, node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """What is added up in `total`, if a norm `node` of it may be computed where it is made."""
    for first, second in summands(total):
        nodes = isinstance(first, fx.Node) and isinstance(second, fx.Node)
        if not nodes or not shape(total) or not shape(first) == shape(second) == shape(total):
            continue
        fresh = type(called(net, first)) in (nn.Linear, nn.Conv2d) and len(first.users) == 1
        if (fresh or len(summands(total)) == 2) and not any(changes(net, total, node)):
            return first, second
    return None


def _max_pool(net: fx.GraphModule, node: fx.Node) -> bool:
    pool = max_pooling(net, node)
    if pool is None or len(shape(node)) != 4 or _special(pool):
        return False
    window = [pool[name] for name in ("kernel_size", "stride", "padding")]
    if not all(isinstance(value, int) for value in window):
        return False
    put(net, node, MaxPool(*window))
    node.args, node.kwargs = node.args[:1], {}
    return True


def _special(pool: dict[str, Any]) -> bool:
    return (pool["dilation"], pool["ceil_mode"], pool["return_indices"]) != (1, False, False)


def _gelu(net: fx.GraphModule, node: fx.Node) -> bool:
    """GELU of a linear layer."""
    plain = node.op == "call_function" and node.target is F.gelu and len(node.args) == 1
    if type(called(net, node)) is not nn.GELU and not plain:
        return False
    before: Any = node.args[0]
    linear = called(net, before)
    if not isinstance(linear, nn.Linear) or type(linear) is not nn.Linear or linear.bias is None:
        return False
    if len(before.users) > 1 or not hasattr(torch, "_addmm_activation"):
        return False
    put(net, before, LinearGelu(linear))
    skip(node)
    return True
