"""What makes a network more than its weights: kernels that only know the weights must not stand for it.

Each function returns why a network does not fit, in words that follow "no kernels: ", or None where it does.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import torch
from torch import nn

from smoothcert.models.normalise import Normalise


def why_not_built_as(
    model: nn.Module, kind: type[nn.Module], name: str, twin: Callable[[Any], nn.Module]
) -> str | None:
    """Whether a model computes what ``Sequential(normalisation, kind)`` with its weights does.

    `twin` makes, for such a network, one with the layers that it should have.
    """
    if not isinstance(model, nn.Sequential) or len(model) != 2 or type(model[1]) is not kind:
        return f"not a {name} of this package"
    if type(model[0]) not in (nn.Identity, Normalise):
        return "an unknown first layer"
    with torch.device("meta"):
        changed = first_other_layer(model[1], twin(model[1]))
    if changed is not None:
        return f"its layers are not those of a {name}: {changed} differs"
    return why_unusual(model)


def why_unusual(model: nn.Module) -> str | None:
    """Whether a network of a known class may compute something else than its class does."""
    for name, module in model.named_modules():
        where = name or "the network"
        hooks = module._forward_hooks or module._forward_pre_hooks
        hooks = hooks or module._backward_hooks or module._backward_pre_hooks
        if hooks or "forward" in vars(module):
            return f"hooks on {where}"
        if hasattr(module, "parametrizations"):
            return f"a parametrisation of {where}"
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return f"{name} is not finite"
    return None


def first_other_layer(net: nn.Module, reference: nn.Module) -> str | None:
    """The name of the first layer that is not exactly the reference's: a subclass of a layer may compute anything."""
    found, expected = (
        [(name, type(m), m.extra_repr()) for name, m in n.named_modules()] for n in (net, reference)
    )
    differing = (one or other for one, other in zip_longest(found, expected) if one != other)
    return next((layer[0] for layer in differing if layer is not None), None)


def why_not_float32(model: nn.Module) -> str | None:
    """Kernels for training know parameters of one type."""
    others = any(parameter.dtype != torch.float32 for parameter in model.parameters())
    return "made for float32" if others else None


def outputs(last: nn.Module) -> int:
    """Of a last layer that may be anything; at least two."""
    return max(getattr(last, "out_features", 0), 2)
