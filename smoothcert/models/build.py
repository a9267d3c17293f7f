"""From a name to a network, and the check on what a network returns."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.errors import ConfigError, ModelError, SmoothcertError, unknown_name
from smoothcert.models.catalogue import MODELS
from smoothcert.models.cifar_resnet import CifarResNet
from smoothcert.models.dncnn import DnCNN
from smoothcert.models.external import (
    SOURCES,
    Factory,
    accepted,
    first_line,
    own_network,
    timm_network,
    torchvision_network,
)
from smoothcert.models.lenet import LeNet
from smoothcert.models.normalise import normalisation_layer
from smoothcert.models.parts import PARTS, composed
from smoothcert.models.resnet50 import ResNet50

_BUILT_IN: dict[str, Factory] = {"lenet": LeNet, "resnet50": ResNet50, "dncnn": DnCNN}


def build_model(
    arch: str,
    classes: int = 10,
    normalisation: str = "none",
    *,
    seed: int | None = None,
    **options: Any,
) -> nn.Module:
    """``Sequential(normalisation, network)`` on the CPU: images in [0, 1] in, logits [B, classes] out.

    `arch` is one of the names in `MODELS`; ``resnet<6n+2>`` is a CIFAR network of that depth, except
    ``resnet50``, which is ImageNet's. `options` go to the network. The state-dict keys are ``1.*``, as in the
    published files. A denoiser, which gives an image back, has 0 classes.

    With a `seed` the initial weights depend on nothing else, and the caller's generators stay as they were.

    >>> import torch
    >>> from smoothcert import build_model
    >>> build_model("resnet20", 10, "cifar10", seed=0)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    if classes < 2 and classes != 0:
        raise ConfigError(f"a classifier has at least 2 classes, not {classes} (and a denoiser 0)")
    first, network = normalisation_layer(normalisation), factory_of(arch)
    arguments = accepted(network, classes, options)
    try:
        inspect.signature(network).bind(**arguments)
    except (TypeError, ValueError) as error:  # ValueError: written in C
        named = ", ".join(options or arguments) or "none"
        raise ConfigError(f"model '{arch}' does not take the arguments {named}: {error}") from error
    with torch.random.fork_rng(devices=[], enabled=seed is not None), torch.device("cpu"):
        if seed is not None:
            # Not torch.manual_seed: it would reseed the caller's CUDA generators too, which are not forked.
            torch.default_generator.manual_seed(seed)
        try:
            net = network(**arguments)
        except SmoothcertError:
            raise
        except Exception as error:  # code and options may be anyone's
            raise ModelError(f"model '{arch}' cannot be built: {first_line(error)}") from error
    if not isinstance(net, nn.Module):
        raise ModelError(f"model '{arch}': expected a torch.nn.Module, got {_describe(net)}")
    return nn.Sequential(first, net)


def is_built_in(arch: str) -> bool:
    """Whether the name is that of a network of this package, so that building it imports no foreign code."""
    return arch in _BUILT_IN or arch in PARTS or re.fullmatch(r"resnet\d+", arch) is not None


def is_code(arch: str) -> bool:
    """Whether the name points to code, which building the network imports and runs.

    That is ``package.module.Name``, ``package.module:Name`` or ``path/to/file.py:Name``.
    """
    place, colon, name = arch.rpartition(":")
    if colon and place not in SOURCES:
        return name.isidentifier() and (place.endswith(".py") or _dotted(place))
    return "." in arch and _dotted(arch)


def _dotted(path: str) -> bool:
    return all(part.isidentifier() for part in path.split("."))


def factory_of(arch: str) -> Factory:
    """What makes the networks of that name."""
    if arch in _BUILT_IN:
        return _BUILT_IN[arch]
    if arch in PARTS:
        return composed(arch, build_model)
    if is_built_in(arch):
        return partial(CifarResNet, int(arch.removeprefix("resnet")))
    source, colon, name = arch.partition(":")
    if colon and source in SOURCES:
        return {"timm": timm_network, "torchvision": torchvision_network, "hf": _hf}[source](name)
    if is_code(arch):
        return own_network(arch)
    raise unknown_name("model", arch, MODELS)


def _hf(name: str) -> Factory:
    from smoothcert.models.hf import (
        hf_network,
    )  # knows transformers, and is read only for its models

    return hf_network


def check_shape(logits: object, batch: int, classes: int) -> Tensor:
    """The logits, if they are a tensor [batch, classes]. Looks at no value, so never waits for the device."""
    if not isinstance(logits, Tensor) or logits.shape != (batch, classes):
        raise ModelError(
            f"expected the model to return logits [{batch}, {classes}] (batch, classes) but it returned "
            f"{_describe(logits)}: build it with the number of classes of the data (`certify` and `doctor` take a "
            "larger number of classes), or wrap it so that it returns its logits alone"
        )
    if not can_be_compared(logits):
        raise ModelError(
            f"expected logits that are numbers to compare, found {logits.dtype} ({logits.layout}): return dense floats"
        )
    return logits


def can_be_compared(logits: Tensor) -> bool:
    return not (logits.is_complex() or logits.dtype == torch.bool or logits.layout != torch.strided)


def check_network(model: nn.Module, image: Tensor, classes: int) -> None:
    """A clear error if the network does not fit the data, of which this is an image [C, H, W], uint8 or floats."""
    if next(model.parameters(), None) is None:
        raise ModelError("the model has no parameters: there is nothing to train")
    check_shape(_try_out(model, image), 2, classes)


def check_denoiser(model: nn.Module, image: Tensor) -> None:
    """A clear error if the network does not give back an image of the shape of this one, [C, H, W]."""
    found = _try_out(model, image)
    if not isinstance(found, Tensor) or found.shape != (2, *image.shape):
        raise ModelError(
            f"expected a denoiser to return images like those that it is given, {[2, *image.shape]} (batch, channel, "
            f"height, width), but it returned {_describe(found)}"
        )


def count_classes(model: nn.Module, image: Tensor, expected: int | None = None) -> int:
    """How many classes a network tells apart in images like this one; as many as `expected`, if that is known."""
    logits = _try_out(model, image)
    known = (
        expected
        if expected is not None
        else logits.shape[-1]
        if isinstance(logits, Tensor) and logits.ndim
        else 2
    )
    found = check_shape(logits, 2, max(known, 2))
    if bool(found.isnan().any()):
        raise ModelError(
            "the model returns NaN for an image of the data: check its weights and the normalisation"
        )
    return found.shape[1]


def _try_out(model: nn.Module, image: Tensor) -> object:
    batch = image.expand(2, *image.shape).float() / (255 if image.dtype == torch.uint8 else 1)
    try:
        with (
            torch.no_grad()
        ):  # not inference mode, in which a lazy layer would get weights that cannot be trained
            return logits_of(model.eval()(batch))
    except Exception as error:  # a network of the user's may fail in any way
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ModelError(
            f"the model cannot take the data's images, of shape {list(image.shape)}, two at a time in float32 "
            f"({said}): give images of the size and the channels that it was made for, as "
            "folder:PATH,size=32,colour does, or another model"
        ) from error


def logits_of(answer: object) -> object:
    """What a network returned, or the logits in it, as models of transformers have them."""
    inner = getattr(answer, "logits", None)
    return inner if isinstance(inner, Tensor) and not isinstance(answer, Tensor) else answer


def initialise(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Eval mode, and weights for the layers of a lazy network, whose shapes follow from that of an image."""
    try:
        model.eval()
    except NotImplementedError as error:  # an exported program has no modes
        raise ModelError(
            f"the model cannot be put into eval mode ({str(error).splitlines()[0]}): wrap it in a torch.nn.Module that "
            "calls it"
        ) from error
    lazy = [
        tensor for tensor in (*model.parameters(), *model.buffers()) if nn.parameter.is_lazy(tensor)
    ]
    if lazy:
        try:
            with torch.no_grad():  # not inference mode, whose tensors cannot be trained later
                model(torch.zeros((1, *shape), device=lazy[0].device))
        except Exception as error:  # a network of the user's may fail in any way
            raise ModelError(
                f"the lazy layers of the model cannot be made for images of shape {list(shape)}: {error}"
            ) from error


def _describe(found: object) -> str:
    if isinstance(found, Tensor):
        return f"a tensor {list(found.shape)}"
    return f"a {type(found).__name__}" + (
        f" of {len(found)}" if isinstance(found, tuple | list | dict) else ""
    )
