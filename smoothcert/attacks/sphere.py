"""Worst-case noise of unchanged length: the attack of Sun et al. (ICML 2025, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from smoothcert.attacks.ascent import ascend, input_gradient
from smoothcert.attacks.constraints import norms
from smoothcert.attacks.objectives import frozen, noisy_logits, smoothed_nll


@dataclass(frozen=True)
class OnSphere:
    """The sphere around 0 that each noise lies on."""

    noise: Tensor

    def __call__(self, point: Tensor) -> Tensor:
        return point * (norms(self.noise) / norms(point).clamp(min=1e-30))


def sphere_attack(
    model: nn.Module, images: Tensor, labels: Tensor, noise: Tensor, *, epsilon: float, steps: int
) -> Tensor:
    """Each of the noises [m, B, C, H, W] moved by itself until its copy is misclassified, for `steps` steps at most.

    A step of length epsilon goes up the cross-entropy, and then back to the length that the noise began with. A noise
    that is misclassified from the beginning is left as it is. Sums of image and noise are not clamped.
    """
    flat, repeated = noise.flatten(0, 1), labels.repeat(len(noise))

    def objective(point: Tensor) -> Tensor:
        logits = noisy_logits(model, images, point.view_as(noise)).flatten(0, 1)
        # a misclassified copy has no slope, so that it stays where it is; no step waits to learn which ones are done
        return smoothed_nll(logits[None], repeated) * (logits.argmax(-1) == repeated)

    with frozen(model):
        found = ascend(
            input_gradient(objective), flat, steps=steps, step=epsilon, constrain=OnSphere(flat)
        )
    return found.view_as(noise)
