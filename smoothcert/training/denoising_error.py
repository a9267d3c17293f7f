"""How much of the noise a denoiser leaves: what its training reports on its way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn

from smoothcert.methods.base import Batch


@torch.inference_mode()
def denoising_error(
    model: nn.Module,
    batches: Iterable[Batch],
    sigma: float,
    check: Callable[[], object] = lambda: None,
) -> tuple[float, float]:
    """Mean squared error per pixel with one noise draw per image, and the same as PSNR in dB. `check` may stop it."""
    model.eval()
    pixels, squares = 0, torch.zeros((), dtype=torch.float64)
    for batch in batches:
        noise = torch.randn(
            batch.images.shape, generator=batch.generator, device=batch.images.device
        )
        left = model(batch.images + sigma * noise) - batch.images
        pixels += left.numel()
        squares = squares.to(left.device) + left.double().square().sum()
        check()
    error = float(squares) / pixels
    return error, -10 * math.log10(max(error, 1e-12))  # no infinity, which JSON does not have
