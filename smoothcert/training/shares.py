"""How often training images are answered with their labels: what methods choose the images of an epoch by."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.attacks.objectives import frozen
from smoothcert.methods.base import Batch, noisy_copies
from smoothcert.training.ranks import Ranks

_AT_ONCE = 4  # copies of a batch in one forward: as much as a training step, whose batches are cut, or a little more


@torch.no_grad()
def shares_of_copies(
    network: nn.Module,
    batches: Iterable[Batch],
    images: int,
    sigma: float,
    copies: int,
    ranks: Ranks,
    check: Callable[[], object] = lambda: None,
) -> Tensor:
    """The share of so many noisy copies of each image that the network answers with the label; ranks share the work."""
    votes, seen = torch.zeros(2, images, dtype=torch.float64, device=ranks.device)
    with frozen(network):
        for batch in batches:
            for first in range(0, copies, _AT_ONCE):
                count = min(_AT_ONCE, copies - first)
                answers = network(noisy_copies(batch, sigma, count)).argmax(1).view(count, -1)
                votes.index_add_(0, batch.index, (answers == batch.labels).sum(0).double())
            # an image that fills up a batch is counted twice
            seen.index_add_(
                0, batch.index, torch.full_like(batch.index, copies, dtype=torch.float64)
            )
            check()
    both = ranks.sum(torch.stack([votes, seen])).cpu()
    return both[0] / both[1]


def shares_of_soft_labels(counts: np.ndarray, labels: np.ndarray) -> Tensor:
    """The share of each image's votes [images, classes] that are for its label."""
    votes = counts[np.arange(len(labels)), labels]
    return torch.from_numpy(votes / counts.sum(axis=1, dtype=np.float64))
