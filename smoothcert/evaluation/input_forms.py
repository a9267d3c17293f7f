"""Is this the normalisation that the network was trained with? The accuracy under others tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import binomtest
from torch import Tensor, nn

from smoothcert.models.build import logits_of
from smoothcert.models.normalise import NORMALISATIONS, InputForm, Normalise, Resize, input_form

_USUAL = {
    "--input-range 0 1": InputForm(),
    "--input-range -1 1": InputForm(range=(-1.0, 1.0)),
    "--input-range 0 255": InputForm(range=(0.0, 255.0)),
    "--mean 0.1307 --std 0.3081": InputForm((0.1307,), (0.3081,)),  # MNIST's, in PyTorch's examples
    "--mean 0.2860 --std 0.3530": InputForm((0.2860,), (0.3530,)),  # Fashion-MNIST's
    **{
        f"--normalisation {name}": input_form(name) for name, form in NORMALISATIONS.items() if form
    },
}
_LUCK = 0.01  # chance of as clear a difference by luck, or of as many right answers by guessing


@dataclass(frozen=True, eq=False)
class Trial:
    """A way to feed the network, as options say it, its answers to the clean images, and which are right."""

    options: str
    answers: NDArray[np.int64]
    right: NDArray[np.bool_]


def try_forms(
    model: nn.Module, images: Tensor, labels: NDArray[np.int64]
) -> tuple[Trial, tuple[Trial, ...]]:
    """The network as it is fed now, and fed otherwise, the best first.

    Only a network with its normalisation as a first layer, as `build_model` makes it, can be fed otherwise.
    """

    def trial(options: str, network: nn.Module, x: Tensor) -> Trial:
        answers = answers_of(network, x)
        return Trial(options, answers, answers == labels)

    now = trial("", model, images)
    if not isinstance(model, nn.Sequential) or len(model) != 2 or not _is_form(model[0]):
        return now, ()
    first, network = model
    size = next((layer.size for layer in first.modules() if isinstance(layer, Resize)), None)
    channels = images.shape[1]
    # two grey images tell whether a form is the one that the network has
    grey = images.new_tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, *images.shape[1:])
    trials = []
    for options, form in _USUAL.items():
        if max(len(form.mean), 1) in (1, channels):
            fed = InputForm(form.mean, form.std, form.range, size).layer().to(images.device)
            if not torch.allclose(fed(grey), first(grey), rtol=1e-4, atol=1e-4):
                trials.append(trial(options, nn.Sequential(fed, network), images))
    if channels == 3:
        trials.append(trial("the channels in the order blue, green, red", model, images.flip(1)))
    trials.append(trial("black and white exchanged", model, 1 - images))
    return now, tuple(sorted(trials, key=lambda tried: -tried.right.mean()))


def _is_form(first: nn.Module) -> bool:
    """Whether a layer only says what the network expects of its inputs."""
    return all(
        type(layer) in (nn.Identity, Normalise, Resize, nn.Sequential) for layer in first.modules()
    )


@torch.inference_mode()
def answers_of(network: nn.Module, images: Tensor) -> NDArray[np.int64]:
    """The class of each image; -1 where the network returns no logits."""
    found = [logits_of(network(part)) for part in torch.split(images, 64)]
    parts = [part.argmax(1) for part in found if isinstance(part, Tensor) and part.ndim == 2]
    return torch.cat(parts).cpu().numpy() if parts else np.full(len(images), -1)


def clearly_more(new: NDArray[np.bool_], old: NDArray[np.bool_]) -> bool:
    """Whether more of the same images are right than luck explains, by the sign test."""
    won, lost = int((new & ~old).sum()), int((old & ~new).sum())
    return won > lost and bool(binomtest(won, won + lost, alternative="greater").pvalue < _LUCK)


def like_guessing(right: int, images: int, classes: int) -> bool:
    """Whether so many right answers may well be luck."""
    return bool(binomtest(right, images, 1 / classes, alternative="greater").pvalue > _LUCK)


def other_order(trial: Trial, labels: NDArray[np.int64]) -> dict[int, int]:
    """Labels that the network knows by another number, if nearly all its answers are right once they are renamed."""
    if (trial.answers < 0).any():
        return {}
    # names found in one half must be right in the other
    first, second = slice(None, None, 2), slice(1, None, 2)
    names = _renaming(labels[first], trial.answers[first])
    held_out = [
        names.get(int(label)) == answer
        for label, answer in zip(labels[second], trial.answers[second], strict=True)
    ]
    if sum(held_out) <= len(held_out) * (trial.right.mean() + 0.5):
        return {}
    return {
        label: answer
        for label, answer in _renaming(labels, trial.answers).items()
        if label != answer
    }


def _renaming(labels: NDArray[np.int64], answers: NDArray[np.int64]) -> dict[int, int]:
    """The answer that stands for each label, no two for the same one, so that most answers are right."""
    size = int(max(labels.max(), answers.max())) + 1
    table = np.zeros((size, size), np.int64)
    np.add.at(table, (labels, answers), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return {int(a): int(b) for a, b in zip(rows, columns, strict=True) if table[a, b]}
