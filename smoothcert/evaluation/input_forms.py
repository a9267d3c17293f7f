"""Is this the normalisation that the network was trained with? The accuracy under others tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.models.build import logits_of
from smoothcert.models.normalise import InputForm, Resize, input_form

_USUAL = {
    "--input-range 0 1": InputForm(),
    "--input-range -1 1": InputForm(range=(-1.0, 1.0)),
    "--input-range 0 255": InputForm(range=(0.0, 255.0)),
    "--mean 0.1307 --std 0.3081": InputForm((0.1307,), (0.3081,)),  # MNIST's, as PyTorch's examples have it
    "--mean 0.2860 --std 0.3530": InputForm((0.2860,), (0.3530,)),  # Fashion-MNIST's
    "--normalisation cifar10": input_form("cifar10"),
    "--normalisation cifar100": input_form("cifar100"),
    "--normalisation imagenet": input_form("imagenet"),
}
_CLEARLY = 0.1  # better by this share of the images, or the difference says nothing


@dataclass(frozen=True)
class Trial:
    """A way to feed the network, as options say it, and its accuracy."""

    options: str
    accuracy: float


@torch.inference_mode()
def try_forms(model: nn.Module, images: Tensor, labels: NDArray[np.int64]) -> tuple[float, list[Trial]]:
    """Accuracy as the network is fed now, and fed otherwise, the best first.

    Only a network with its normalisation as a first layer, as `build_model` makes it, can be fed otherwise.
    """
    wanted = torch.from_numpy(np.asarray(labels)).to(images.device)

    def accuracy(network: nn.Module, x: Tensor) -> float:
        found = [logits_of(network(part)) for part in torch.split(x, 64)]
        parts = [part for part in found if isinstance(part, Tensor)]
        return float((torch.cat(parts).argmax(1) == wanted).float().mean()) if parts else 0.0

    now = accuracy(model, images)
    if not isinstance(model, nn.Sequential) or len(model) != 2:
        return now, []
    first, network = model
    size = next((layer.size for layer in first.modules() if isinstance(layer, Resize)), None)
    channels = images.shape[1]
    trials = []
    for options, form in _USUAL.items():
        if max(len(form.mean), 1) in (1, channels):
            fed = InputForm(form.mean, form.std, form.range, size).layer().to(images.device)
            trials.append(Trial(options, accuracy(nn.Sequential(fed, network), images)))
    if channels == 3:
        trials.append(Trial("the channels in the order blue, green, red", accuracy(model, images.flip(1))))
    trials.append(Trial("black and white exchanged", accuracy(model, 1 - images)))
    return now, sorted(trials, key=lambda trial: -trial.accuracy)


def better_form(now: float, trials: Sequence[Trial]) -> Trial | None:
    """A way to feed the network that is clearly better than the present one."""
    return trials[0] if trials and trials[0].accuracy > now + _CLEARLY else None
