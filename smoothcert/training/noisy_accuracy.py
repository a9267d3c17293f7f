"""Accuracy of the base classifier under noise: what training reports on its way, and an import checks a model by."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from smoothcert.methods.base import Batch


@torch.inference_mode()
def noisy_accuracy(
    model: nn.Module,
    batches: Iterable[Batch],
    sigma: float,
    classes: int,
    check: Callable[[], object] = lambda: None,
) -> tuple[float, float]:
    """Accuracy with one noise draw per image, and the share of the most frequent answer. `check` may stop it."""
    model.eval()
    images, right, answers = 0, torch.zeros(()), torch.zeros(classes)
    for batch in batches:
        place = batch.images.device
        right, answers = right.to(place), answers.to(place)
        noise = torch.randn(batch.images.shape, generator=batch.generator, device=place)
        answer = model(batch.images + sigma * noise).argmax(1)
        images += len(answer)
        right += (answer == batch.labels).sum()
        answers.index_add_(0, answer, torch.ones_like(answer, dtype=answers.dtype))
        check()
    return float(right) / images, float(answers.max()) / images
