"""Why a smoothed classifier is (not) robust at an image: its unrestricted adversarial path, as in SmoothMix.

Jeong et al., SmoothMix: Training Confidence-calibrated Smoothed Classifiers (arXiv:2111.09277): gradient steps without
a norm limit lead from x to x~; along the line between them, the confidence of x's class falls and another's rises
(their figure 2). The smallest mixing ratio at which the answer changes is the equal-confidence mixing ratio (figure 5);
over-confident classifiers have small ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.attacks.ascent import ascend, smoothed_gradient
from smoothcert.attacks.constraints import Within
from smoothcert.attacks.objectives import frozen, noisy_logits
from smoothcert.errors import ConfigError
from smoothcert.keys import derive


@dataclass(frozen=True)
class AdversarialPath:
    """Mean softmax confidences on (1 - ratio) x + ratio x~, under the same noises at every ratio."""

    index: int
    label: int
    ratios: NDArray[np.float64]  # [K], from 0 to 1
    confidences: NDArray[np.float64]  # [K, classes]
    distance: float  # ||x~ - x||
    clean: NDArray[np.float32]  # [C, H, W]
    adversarial: NDArray[np.float32]  # [C, H, W]

    @property
    def target(self) -> int:
        """The class that the path leads to: the top one at x~, or the runner-up there if the answer never changes."""
        first, second = np.argsort(-self.confidences[-1], kind="stable")[:2]
        return int(first if first != self.answer else second)

    @property
    def answer(self) -> int:
        return int(self.confidences[0].argmax())

    @property
    def equal_confidence_ratio(self) -> float | None:
        """The smallest ratio of the grid at which the answer is no longer that at x; None if it never changes."""
        changed = np.flatnonzero(self.confidences.argmax(1) != self.answer)
        return float(self.ratios[changed[0]]) if len(changed) else None


def adversarial_path(
    model: nn.Module,
    image: Tensor,
    label: int,
    sigma: float,
    *,
    index: int = 0,
    alpha: float = 1.0,
    steps: int = 8,
    noises: int = 128,
    points: int = 51,
    seed: int = 0,
) -> AdversarialPath:
    """The path of one image [C, H, W] in [0,1]: `steps` unrestricted steps of length `alpha`, then `points` ratios."""
    if steps < 1 or noises < 1 or points < 2 or alpha <= 0:
        raise ConfigError(
            "a path needs steps >= 1, noises >= 1, points >= 2 and alpha > 0, "
            f"found {steps}, {noises}, {points} and {alpha}"
        )
    generator = torch.Generator(image.device).manual_seed(derive(seed, "explain", index))
    noise = sigma * torch.randn((noises, 1, *image.shape), generator=generator, device=image.device)
    start, labels = image[None], torch.tensor([label], device=image.device)
    with frozen(model):
        end = ascend(
            smoothed_gradient(model, labels, noise),
            start,
            steps=steps,
            step=alpha,
            constrain=Within(start, None, clamp="last"),
        )
        ratios = torch.linspace(0, 1, points, device=image.device)
        with (
            torch.inference_mode()
        ):  # one point at a time: memory for `noises` copies, whatever the number of points
            line = [
                noisy_logits(model, torch.lerp(start, end, ratio), noise).softmax(-1).mean(0)[0]
                for ratio in ratios
            ]
    return AdversarialPath(
        index,
        label,
        ratios.double().cpu().numpy(),
        torch.stack(line).double().cpu().numpy(),
        float((end - start).double().norm()),
        image.cpu().numpy(),
        end[0].cpu().numpy(),
    )
