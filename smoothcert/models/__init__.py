"""Networks with the normalisation inside, their weights, and the checkpoints the field has published.

Names load on first use: `MODELS` is there without importing torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smoothcert.models.catalogue import MODELS

if TYPE_CHECKING:
    from smoothcert.models.build import build_model, check_shape
    from smoothcert.models.cifar_resnet import CifarResNet
    from smoothcert.models.lenet import LeNet
    from smoothcert.models.normalise import NORMALISATIONS, Normalise
    from smoothcert.models.published import load_published
    from smoothcert.models.resnet50 import ResNet50
    from smoothcert.models.weights import load_weights, save_weights, weights_hash

__all__ = [
    "MODELS",
    "NORMALISATIONS",
    "CifarResNet",
    "LeNet",
    "Normalise",
    "ResNet50",
    "build_model",
    "check_shape",
    "load_published",
    "load_weights",
    "save_weights",
    "weights_hash",
]

_HOME = {
    "NORMALISATIONS": "normalise",
    "CifarResNet": "cifar_resnet",
    "LeNet": "lenet",
    "Normalise": "normalise",
    "ResNet50": "resnet50",
    "build_model": "build",
    "check_shape": "build",
    "load_published": "published",
    "load_weights": "weights",
    "save_weights": "weights",
    "weights_hash": "weights",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
