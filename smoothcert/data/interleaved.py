"""Labelled and pseudo-labelled batches by turns, for self-training (Salman et al., arXiv:1906.04584, appendix E.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from smoothcert.data.batches import Batch, Batches
from smoothcert.data.dataset import Dataset
from smoothcert.keys import derive


class Interleaved:
    """The labelled batches of each epoch and as many pseudo-labelled ones, in random order.

    As in the published code, a batch is of one kind only, and each epoch takes its pseudo-labelled batches from a new
    shuffle of the whole set, so it sees only part of a large one. A set with fewer batches than there are labelled ones
    is shuffled and gone through again, where that code would end the epoch. The labelled batches are those of a run
    without pseudo-labels; the order is keyed by (seed, epoch), the same on all ranks.

    `as_printed` a fair coin is thrown at every step, so that an epoch of as many steps has more of
    one kind than of the other, and goes through either kind again where its batches are used up.
    """

    def __init__(self, labelled: Batches, pseudo: Dataset, as_printed: bool = False) -> None:
        self.labelled, self.as_printed = labelled, as_printed
        self.pseudo = Batches(
            pseudo,
            labelled.batch_size,
            seed=derive(labelled.seed, "pseudo-labelled"),
            device=labelled.device,
            augment=labelled.augment,
            rank=labelled.rank,
            world_size=labelled.world_size,
            chunks=labelled.chunks,
        )

    def __len__(self) -> int:
        return 2 * len(self.labelled)

    def epoch(self, epoch: int, start: int = 0, weights: Tensor | None = None) -> Iterator[Batch]:
        """The batches of an epoch from step `start`: the same as the tail of the whole epoch.

        Labelled images are drawn by `weights`, if there are any.
        """
        generator = torch.Generator().manual_seed(derive(self.labelled.seed, "interleave", epoch))
        if self.as_printed:
            kinds = torch.rand(len(self), generator=generator) < 0.5
        else:
            kinds = torch.randperm(len(self), generator=generator) >= len(self.labelled)
        pseudo_labelled = kinds.tolist()
        done = sum(pseudo_labelled[:start])
        labelled = self._shuffles(self.labelled, epoch, start - done, weights)
        pseudo = self._shuffles(self.pseudo, epoch, done)
        for is_pseudo in pseudo_labelled[start:]:
            yield replace(next(pseudo), pseudo_labelled=True) if is_pseudo else next(labelled)

    def _shuffles(
        self, batches: Batches, epoch: int, start: int, weights: Tensor | None = None
    ) -> Iterator[Batch]:
        """The batches of one kind from the start-th of the epoch on, and enough of them."""
        most = len(self) if self.as_printed else len(self.labelled)
        rounds = -(-most // len(batches))  # shuffles per epoch; one if there are enough batches
        first, within = divmod(start, len(batches))
        for i in range(first, rounds):
            yield from batches.epoch(epoch * rounds + i, within if i == first else 0, weights)
