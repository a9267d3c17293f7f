"""One batch of a training: its images and labels, and the random numbers that its losses need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Share:
    """Where the images of one of several processes stand among the `total` images of a step."""

    first: int
    total: int
    weight: float  # of this process's mean in the mean over all images
    generator: torch.Generator  # in the same state in all processes


@dataclass(frozen=True, eq=False)
class Batch:
    """Images and labels of one step, on the device."""

    images: Tensor  # [B, C, H, W] float32 in [0, 1]
    labels: Tensor  # [B] int64
    index: Tensor  # [B] int64, positions in the data set
    generator: torch.Generator  # on the device, another one in every process
    soft_labels: Tensor | None = None  # [B, classes] float32, each row a distribution; for methods that use them
    pseudo_labelled: bool = False  # in self-training: whether a network gave these labels
    share: Share | None = None  # None: one process has all images

    @property
    def total(self) -> int:
        """Images of this step in all processes together."""
        return len(self.labels) if self.share is None else self.share.total

    def draw(self, kind: Callable[..., Tensor], shape: Sequence[int], images: int = 0) -> Tensor:
        """Random numbers by torch.randn or torch.rand; dimension `images` of the shape counts images.

        Several processes draw alike for the images of all of them, and each keeps what belongs to its own: together
        they use the numbers that one process would draw.
        """
        if self.share is None:
            return kind(shape, generator=self.generator, device=self.images.device)
        whole = (*shape[:images], self.share.total, *shape[images + 1 :])
        drawn = kind(whole, generator=self.share.generator, device=self.images.device)
        return drawn.narrow(images, self.share.first, shape[images])

    def split(self, parts: int) -> list[Batch]:
        """`parts` consecutive batches of B // parts images; the rest is dropped, as the field's code does."""
        size = len(self.labels) // parts
        cuts = [slice(i * size, (i + 1) * size) for i in range(parts if size else 0)]
        return [
            replace(
                self,
                images=self.images[c],
                labels=self.labels[c],
                index=self.index[c],
                soft_labels=None if self.soft_labels is None else self.soft_labels[c],
            )
            for c in cuts
        ]


def share_of(total: int, rank: int, world_size: int) -> tuple[int, int, float]:
    """The first and the number of a rank's images among `total`, and the weight of their mean in that of all.

    Where there are fewer images than ranks, some have the same image, and share its weight.
    """
    if total < world_size:
        first = rank % total
        return first, 1, 1 / (total * len(range(first, world_size, total)))
    first, end = rank * total // world_size, (rank + 1) * total // world_size
    return first, end - first, (end - first) / total
