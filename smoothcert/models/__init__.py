"""Networks with the normalisation inside, their weights on disk, and the checkpoints the field has published.

A network does not know what it is trained on, by which method, or who samples it. Names load on first use, so that
listing `MODELS` does not import PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcert.imports import lazy
from smoothcert.models.catalogue import MODELS

if TYPE_CHECKING:
    from smoothcert.models.build import build_model, check_shape
    from smoothcert.models.checkpoints import load_published
    from smoothcert.models.cifar_resnet import CifarResNet
    from smoothcert.models.denoised import Denoised
    from smoothcert.models.diffusion import OneShotDiffusion
    from smoothcert.models.dncnn import DnCNN
    from smoothcert.models.ensemble import Ensemble
    from smoothcert.models.lenet import LeNet
    from smoothcert.models.normalise import NORMALISATIONS, Normalise
    from smoothcert.models.resnet50 import ResNet50
    from smoothcert.models.weights import load_weights, save_weights, weights_hash

__all__ = [
    "MODELS",
    "NORMALISATIONS",
    "CifarResNet",
    "Denoised",
    "DnCNN",
    "Ensemble",
    "LeNet",
    "Normalise",
    "OneShotDiffusion",
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
    "Denoised": "denoised",
    "DnCNN": "dncnn",
    "Ensemble": "ensemble",
    "LeNet": "lenet",
    "Normalise": "normalise",
    "OneShotDiffusion": "diffusion",
    "ResNet50": "resnet50",
    "build_model": "build",
    "check_shape": "build",
    "load_published": "checkpoints",
    "load_weights": "weights",
    "save_weights": "weights",
    "weights_hash": "weights",
}

__getattr__, __dir__ = lazy(__name__, _HOME)
