"""What makes a network more than its weights: kernels that only know the weights must not stand for it."""

from __future__ import annotations

from torch import nn


def unusual(model: nn.Module) -> str | None:
    """Why a network of a known class may not compute what its class does, or None."""
    for name, module in model.named_modules():
        where = name or "the network"
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            return f"hooks on {where}"
        if hasattr(module, "parametrizations"):
            return f"a parametrisation of {where}"
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return f"{name} is not finite"
    return None


def same_layers(net: nn.Module, reference: nn.Module) -> bool:
    """Whether a network has exactly the layers of another: a subclass of a layer may compute anything."""
    found, expected = ([(name, type(m), m.extra_repr()) for name, m in n.named_modules()] for n in (net, reference))
    return found == expected
