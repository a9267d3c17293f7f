"""What makes a network more than its weights: kernels that only know the weights must not stand for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from smoothcert.models.cifar_resnet import CifarResNet
from smoothcert.models.lenet import LeNet
from smoothcert.models.normalise import Normalise


def unusual(model: nn.Module) -> str | None:
    """Why a network of a known class may not compute what its class does, or None."""
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


def same_layers(net: nn.Module, reference: nn.Module) -> bool:
    """Whether a network has exactly the layers of another: a subclass of a layer may compute anything."""
    found, expected = ([(name, type(m), m.extra_repr()) for name, m in n.named_modules()] for n in (net, reference))
    return found == expected


def not_cifar_resnet(model: nn.Module) -> str | None:
    """Why a model does not compute what this package's CIFAR ResNet with its weights does, or None."""
    return _stranger(
        model, CifarResNet, "CIFAR ResNet", lambda net: CifarResNet(6 * len(net.layer1) + 2, _outputs(net.fc))
    )


def not_lenet(model: nn.Module) -> str | None:
    """Why a model does not compute what this package's LeNet with its weights does, or None."""
    return _stranger(model, LeNet, "LeNet", lambda net: LeNet(_outputs(net.fc2)))


def not_float32(model: nn.Module) -> str | None:
    """Why kernels that train float32 parameters cannot take a model, or None."""
    others = any(parameter.dtype != torch.float32 for parameter in model.parameters())
    return "made for float32" if others else None


def _stranger(model: nn.Module, kind: type[nn.Module], name: str, twin: Callable[[Any], nn.Module]) -> str | None:
    """Why a model is not ``Sequential(normalisation, kind)`` with just the layers of such a twin, or None."""
    if not isinstance(model, nn.Sequential) or len(model) != 2 or type(model[1]) is not kind:
        return f"not a {name} of this package"
    if type(model[0]) not in (nn.Identity, Normalise):
        return "an unknown first layer"
    with torch.device("meta"):
        if not same_layers(model[1], twin(model[1])):
            return f"its layers are not those of a {name}"
    return unusual(model)


def _outputs(last: nn.Module) -> int:
    return max(getattr(last, "out_features", 0), 2)
