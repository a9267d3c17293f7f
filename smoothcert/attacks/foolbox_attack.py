"""An independent attack: foolbox's l2 projected gradient descent on the soft smoothed classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smoothcert.attacks.objectives import frozen, noisy_logits
from smoothcert.errors import MissingExtra


class SoftSmoothed(nn.Module):
    """log of the mean softmax over fixed noises [m, 1, C, H, W]: what an attack on g needs to differentiate."""

    def __init__(self, model: nn.Module, noise: Tensor) -> None:
        super().__init__()
        self.model, self.noise = model, noise

    def forward(self, x: Tensor) -> Tensor:
        return noisy_logits(self.model, x, self.noise).softmax(-1).mean(0).clamp(min=1e-20).log()


def foolbox_pgd(
    model: nn.Module, images: Tensor, labels: Tensor, noise: Tensor, *, epsilon: float, steps: int
) -> Tensor:
    """Images at most epsilon away, found by code that is not ours, from the image itself and without a random start."""
    try:
        import foolbox
    except ImportError as error:
        raise MissingExtra("foolbox", "foolbox", "the attack foolbox") from error
    attack = foolbox.attacks.L2ProjectedGradientDescentAttack(
        abs_stepsize=2 * epsilon / steps, steps=steps, random_start=False
    )
    with frozen(model), torch.enable_grad():
        attacked = foolbox.PyTorchModel(
            SoftSmoothed(model, noise).eval(), bounds=(0, 1), device=images.device
        )
        _, found, _ = attack(attacked, images, labels, epsilons=epsilon)
    # foolbox returns images in the ball up to rounding; ours must be inside it
    shift: Tensor = found.detach() - images
    return images + shift * min(1.0, epsilon / max(float(shift.norm()), 1e-30))
