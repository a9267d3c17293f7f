"""CIFAR's augmentation for a whole batch at once, on whatever device the batch is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

PAD = 4


def crop_flip(images: Tensor, generator: torch.Generator, among: tuple[Tensor, int] | None = None) -> Tensor:
    """Each image [C, H, W] zero-padded by 4 pixels, cropped at a random place to H × W, then maybe mirrored.

    `generator` is a CPU one, so that the crops are the same on every device; its few numbers are copied
    from pinned memory, so that the host does not wait for a CUDA device. Images that stand `among` those of a larger
    batch (their positions in it, its size) are treated as they would be there.
    """
    positions, count = (slice(None), len(images)) if among is None else among
    return cropped(images, draw_crops(count, generator)[:, positions])


def draw_crops(count: int, generator: torch.Generator) -> Tensor:
    """First row, first column, and whether to mirror, of each of `count` crops, [3, count]."""
    return torch.stack([
        torch.randint(2 * PAD + 1, (count,), generator=generator),
        torch.randint(2 * PAD + 1, (count,), generator=generator),
        torch.randint(2, (count,), generator=generator),
    ])  # fmt: skip


def cropped(images: Tensor, draws: Tensor) -> Tensor:
    """The crops of images [B, C, H, W] that were drawn."""
    channels, height, width = images.shape[1:]
    if images.is_cuda:
        draws = draws.pin_memory()
    top, left, mirror = draws.to(images.device, non_blocking=True)[:, :, None]  # [B, 1] each
    x = torch.arange(width, device=images.device)
    rows = top + torch.arange(height, device=images.device)  # [B, H]
    columns = left + torch.where(mirror == 1, width - 1 - x, x)  # [B, W]
    item = torch.arange(len(images), device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[:, None, None]
    padded = pad(images, (PAD, PAD, PAD, PAD))
    return padded[item, channel, rows[:, None, :, None], columns[:, None, None, :]]  # [B, C, H, W]
