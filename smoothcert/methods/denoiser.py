"""Training of a denoiser, which makes a classifier that knows no noise ready for smoothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.errors import ConfigError
from smoothcert.methods.base import Batch, Losses, Method, Progress, check_domain, noisy_copies


@dataclass(frozen=True)
class Denoiser(Method):
    """Salman et al.: Denoised Smoothing, a Provable Defense for Pretrained Classifiers (arXiv:2003.01908), section 3.

    L = mse * mean((D(x + delta) - x)^2) over all pixels, the paper's MSE. With a `classifier`, the run folder of a
    trained F that stays as it is, also stab * CE(F(D(x + delta)), argmax F(x)), the paper's STAB: F should answer to
    the denoised image as to the image itself. mse 0 is STAB alone. No label is read.
    """

    mse: float = 1.0
    stab: float = 1.0
    classifier: str | None = None

    def __post_init__(self) -> None:
        check_domain(self, weights=["mse", "stab"])
        if self.mse == 0 and (self.classifier is None or self.stab == 0):
            raise ConfigError(
                "Denoiser with mse 0 has no loss left: give a classifier, and stab above 0"
            )

    @property
    def denoises(self) -> bool:
        return True

    def equipped(self, load: Callable[[str], nn.Module]) -> Method:
        return (
            self
            if self.classifier is None or self.stab == 0
            else _Stable(self, load(self.classifier))
        )

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        error = _error(model(noisy_copies(batch, sigma, 1)), batch.images)
        return Losses(self.mse * error, {"mse": error})


@dataclass(frozen=True)
class _Stable(Method):
    """A Denoiser beside the classifier that its loss asks."""

    settings: Denoiser
    classifier: nn.Module

    @property
    def denoises(self) -> bool:
        return True

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        denoised = model(noisy_copies(batch, sigma, 1))
        with torch.no_grad():
            answers = self.classifier(batch.images).argmax(1)
        error = _error(denoised, batch.images)
        stability = F.cross_entropy(self.classifier(denoised), answers)
        total = self.settings.mse * error + self.settings.stab * stability
        return Losses(total, {"mse": error, "stability": stability})


def _error(denoised: Tensor, images: Tensor) -> Tensor:
    return F.mse_loss(
        denoised, images.to(denoised.dtype)
    )  # PyTorch 2.11 has no gradient of two types
