"""OneShotDiffusion: one step of a diffusion model as a denoiser (Carlini et al. 2023, arXiv:2206.10550).

A diffusion model is trained to find the noise in x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) e. An image with noise of
standard deviation s, in the model's range, times sqrt(abar_t), is such an x_t where (1 - abar_t) / abar_t = s^2.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from smoothcert.config import check_choice
from smoothcert.errors import ConfigError

Schedule = Literal["linear", "scaled-linear", "cosine"]
Predicts = Literal["noise", "image", "velocity"]


def abar(schedule: Schedule, steps: int, beta: tuple[float, float] = (1e-4, 0.02)) -> list[float]:
    """Share of the image's variance that is left after t = 0, 1, ... steps: the product of 1 - beta up to t.

    "linear": betas rise evenly between the two of `beta`; "scaled-linear": their square roots do. "cosine" (Nichol and
    Dhariwal 2021): ratios of cos^2((u + 0.008) / 1.008 * pi / 2), each beta at most 0.999.
    """
    check_choice("schedule", schedule, Schedule)
    if steps < 2 or not 0 < beta[0] <= beta[1] < 1:
        raise ConfigError(
            f"a schedule has 2 steps or more and 0 < beta < 1, found {steps} steps and beta {beta}"
        )
    if schedule == "cosine":
        left = [
            math.cos((step / steps + 0.008) / 1.008 * math.pi / 2) ** 2 for step in range(steps + 1)
        ]
        betas = [min(1 - after / before, 0.999) for before, after in pairwise(left)]
    else:
        power = 1 if schedule == "linear" else 2
        low, high = (value ** (1 / power) for value in beta)
        betas = [(low + (high - low) * step / (steps - 1)) ** power for step in range(steps)]
    kept, product = [], 1.0
    for value in betas:
        product *= 1 - value
        kept.append(product)
    return kept


def step_of(noise: float, kept: list[float]) -> int:
    """The first t >= 1 at which a model expects at least that noise: sqrt((1 - abar_t) / abar_t) >= noise."""
    for t in range(1, len(kept)):
        if math.sqrt((1 - kept[t]) / kept[t]) >= noise:
            return t
    raise ConfigError(
        f"noise of standard deviation {noise:g} in the range of the diffusion model is more than it knows: its last "
        f"step has {math.sqrt((1 - kept[-1]) / kept[-1]):.3g}; give a smaller sigma"
    )


class OneShotDiffusion(nn.Module):
    """Images in [0, 1] with Gaussian noise of standard deviation `sigma` -> the images that the model sees in them.

    `unet(x_t, t)` is the network of a diffusion model for images in `image_range` (there the noise is sigma times its
    width: 2 sigma for [-1, 1]); t is a tensor [B] of floats. It returns as many channels as the image has, or more (the
    models of Nichol and Dhariwal have a learnt variance in the other half), and `predicts` says what the first of them
    are. With `rescale_time` it gets t * 1000 / steps, as those models for CIFAR-10 do. The answer is clamped to the
    range.

    It draws no noise of its own and knows nothing but the image: in front of a classifier (`Denoised`) it is a part
    of a base classifier. Another sigma than its own is sound too, but not what it was made for.
    """

    def __init__(
        self,
        unet: nn.Module,
        sigma: float,
        *,
        schedule: Schedule = "linear",
        steps: int = 1000,
        beta: tuple[float, float] = (1e-4, 0.02),
        predicts: Predicts = "noise",
        rescale_time: bool = False,
        image_range: tuple[float, float] = (-1.0, 1.0),
    ) -> None:
        super().__init__()
        check_choice("prediction of a diffusion model", predicts, Predicts)
        low, high = image_range
        if not (sigma > 0 and low < high):
            raise ConfigError(
                f"a denoiser needs sigma > 0 and a range low < high, found {sigma} and {image_range}"
            )
        kept = abar(schedule, steps, (float(beta[0]), float(beta[1])))
        self.unet, self.predicts, self.low, self.width = (
            unet,
            predicts,
            float(low),
            float(high - low),
        )
        self.t = step_of(self.width * sigma, kept)
        self.abar = kept[self.t]
        # as the network is told
        self.time = self.t * 1000 / steps if rescale_time else float(self.t)

    def forward(self, x: Tensor) -> Tensor:
        noisy = self.low + self.width * x
        kept, lost = math.sqrt(self.abar), math.sqrt(1 - self.abar)
        scaled = kept * noisy
        time = torch.full_like(
            x[:, 0, 0, 0], self.time, dtype=torch.float32
        )  # 16 bits do not have every step
        found = self.unet(scaled, time)[:, : x.shape[1]]
        match self.predicts:
            case "noise":
                image = noisy - lost / kept * found
            case "velocity":
                image = kept * scaled - lost * found
            case "image":
                image = found
        return torch.clamp((image - self.low) / self.width, 0, 1)

    def extra_repr(self) -> str:
        """What decides the answers beside the weights: it is part of the identity of what was certified."""
        about = f"t={self.t}, time={self.time!r}, abar={self.abar!r}, predicts={self.predicts}"
        return f"{about}, low={self.low!r}, width={self.width!r}"
