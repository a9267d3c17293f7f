"""Batch normalisation folded into the convolution or linear layer before it: the same network with fewer layers.

In eval mode a BatchNorm is a fixed scale and shift of every channel, which its predecessor's weights can take over:

    gamma (W x + b - mean) / sqrt(var + eps) + beta  =  (s W) x + (b - mean) s + beta,   s = gamma / sqrt(var + eps)

The products are made in float64 and rounded once, so the folded network differs from the plain one in last bits only.
"""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import torch
from torch import Tensor, fx, nn

from smoothcert.errors import ModelError
from smoothcert.models.build import can_be_compared
from smoothcert.models.normalise import Normalise, Resize

# What each kind of BatchNorm may follow, and how many dimensions its input then has: in three dimensions, what
# BatchNorm1d scales is not what a linear layer puts out. Exact types: a subclass may compute anything.
_FOLDED_INTO: dict[type, dict[type, int]] = {
    nn.BatchNorm1d: {nn.Conv1d: 3, nn.Linear: 2},
    nn.BatchNorm2d: {nn.Conv2d: 4},
    nn.BatchNorm3d: {nn.Conv3d: 5},
}
_IDLE = {
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
}


class CannotFold(ModelError):
    """The network cannot be taken apart: the message says why. It has to be used as it is."""


def fold(model: nn.Module, example: Tensor) -> fx.GraphModule:
    """A new network, in eval mode, that computes what `model` does; `model` itself stays as it is.

    `example` is a small batch of images like those that the network will see, on its device: shapes are taken from it,
    and the answers to it compared. Raises `CannotFold` for a network that cannot be traced, e.g. where values decide
    which layers run. What cannot be folded is left alone, such as a BatchNorm without running statistics.
    """
    if named := [
        name or "the network" for name, module in model.named_modules() if _has_hooks(module)
    ]:
        raise CannotFold(
            f"hooks are registered on {', '.join(named)}, and could see other values or never run"
        )
    try:
        plain = deepcopy(model).eval()
        if any(module.training for module in plain.modules()):
            raise CannotFold("a layer stays in training mode")
        net = _trace(plain)
        with torch.inference_mode():
            expected = plain(example)
            _Shapes(net).run(example)
    except CannotFold:
        raise
    except Exception as error:  # a network of the user's may fail in any way
        raise CannotFold(
            f"the network cannot be traced ({type(error).__name__}): {error}"
        ) from error
    for node in list(net.graph.nodes):
        layer = called(net, node)
        if type(layer) in _IDLE:
            skip(node)
        elif (before := _foldable(net, node)) is not None:
            put(net, before, _merged(called(net, before), cast(nn.BatchNorm2d, layer)))
            skip(node)
    net = tidy(net)
    with torch.inference_mode():
        _check_answers(expected, net(example))
    return net


def called(net: fx.GraphModule, node: object) -> nn.Module | None:
    """The module that a node calls on one value and nothing else; None for all other nodes."""
    if (
        not isinstance(node, fx.Node)
        or node.op != "call_module"
        or len(node.args) != 1
        or node.kwargs
    ):
        return None
    return net.get_submodule(str(node.target))


def put(net: fx.GraphModule, node: fx.Node, module: nn.Module) -> None:
    """Let a node call `module` instead. Always a new module, since the old one may be called elsewhere too."""
    name = f"{node.name}_{type(module).__name__.lower()}"
    while hasattr(net, name):
        name += "_"
    net.add_submodule(name, module)
    node.op, node.target = "call_module", name


def skip(node: fx.Node) -> None:
    """Take out a node: those that use its value get its first argument instead."""
    before = cast(fx.Node, node.args[0])
    node.replace_all_uses_with(before)
    node.graph.erase_node(node)


def tidy(net: fx.GraphModule) -> fx.GraphModule:
    """After changes to the graph: check it, drop what it no longer calls, and make its forward anew."""
    net.graph.lint()
    net.delete_all_unused_submodules()
    net.recompile()
    return net.eval()


def shape(node: object) -> tuple[int, ...]:
    """Of the tensor that a node returned for the example; empty for anything else."""
    return node.meta.get("example shape", ()) if isinstance(node, fx.Node) else ()


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        # its check of the number of channels needs a shape, which a traced value does not have
        return isinstance(m, Normalise | Resize) or super().is_leaf_module(m, module_qualified_name)


def _trace(model: nn.Module) -> fx.GraphModule:
    before = set(vars(model))
    net = fx.GraphModule(model, _Tracer().trace(model))
    if (
        made := set(vars(model)) - before
    ):  # perhaps drawn at random; the trace would keep this one for ever
        raise CannotFold(f"its forward makes {len(made)} tensors of its own")
    return net


class _Shapes(fx.Interpreter):
    def run_node(self, n: fx.Node) -> object:
        value = super().run_node(n)
        if isinstance(value, Tensor):
            n.meta["example shape"] = tuple(value.shape)
        return value


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def _foldable(net: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The node before a BatchNorm `node` whose layer can take it over."""
    norm, before = called(net, node), node.args[0] if node.args else None
    dimensions = _FOLDED_INTO.get(type(norm), {}).get(type(called(net, before)))
    if (
        norm is None
        or not isinstance(before, fx.Node)
        or len(before.users) > 1
        or len(shape(before)) != dimensions
    ):
        return None
    # without running statistics it normalises by those of the batch, in eval mode too
    return before if norm.running_mean is not None and norm.running_var is not None else None


def affine(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Scale and shift of each channel that a BatchNorm is in eval mode, in float64."""
    mean, variance = (
        cast(Tensor, value).double() for value in (norm.running_mean, norm.running_var)
    )
    scale = (variance + norm.eps).rsqrt() * (
        1.0 if norm.weight is None else norm.weight.detach().double()
    )
    return scale, (0.0 if norm.bias is None else norm.bias.detach().double()) - mean * scale


def _merged(layer: nn.Module | None, norm: nn.BatchNorm2d) -> nn.Module:
    """A copy of the layer with the scale and shift of the BatchNorm in its weights."""
    merged, (scale, shift) = cast(nn.Conv2d, deepcopy(layer)), affine(norm)
    weight, bias = (
        merged.weight.detach(),
        0.0 if merged.bias is None else merged.bias.detach().double(),
    )
    scaled = weight.double() * scale.view(-1, *[1] * (weight.ndim - 1))
    merged.weight = nn.Parameter(scaled.to(weight.dtype), requires_grad=False)
    merged.bias = nn.Parameter((bias * scale + shift).to(weight.dtype), requires_grad=False)
    return merged


def _check_answers(expected: object, found: object) -> None:
    """Last bits may differ. More than that, and the trace missed something, such as chance in the forward."""
    if (
        not isinstance(expected, Tensor)
        or not isinstance(found, Tensor)
        or expected.shape != found.shape
        or not can_be_compared(expected)
    ):
        raise CannotFold("the network does not return one tensor of numbers")
    error = float(
        (expected.double() - found.double()).abs().max()
        / expected.double().abs().max().clamp_min(1e-30)
    )
    # votes may be counted in integers
    kind = expected.dtype if expected.is_floating_point() else torch.float32
    if not error <= torch.finfo(kind).eps ** 0.5:
        raise CannotFold(f"the folded network gives other answers, by {error:.1g} of the largest")
