"""Training batches on a device, every one of them a function of (seed, epoch, step) and of who takes which images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from smoothcert.config import check_choice
from smoothcert.data.augment import crop_flip
from smoothcert.data.dataset import Dataset
from smoothcert.data.decoding import Wanted, choose_workers, decoded
from smoothcert.data.lazy import LazyDataset, require_labels
from smoothcert.errors import ConfigError
from smoothcert.keys import derive

Augment = Literal["none", "crop-flip", "imagenet"]


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
    soft_labels: Tensor | None = (
        None  # [B, classes] float32, each row a distribution; for methods that use them
    )
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


class Batches:
    """The shuffled batches of each epoch.

    `batch_size` is global. A global batch is cut into `chunks`, as `Batch.split` cuts that of one process, and of every
    chunk rank r of `world_size` takes the r-th slice, so that all ranks take the steps that one process would take.
    Slices differ by at most one image, and means over them are weighted accordingly (`Share`).

    A `Dataset` is copied to the device once. A `LazyDataset` is decoded ahead by `workers` processes, on which the
    batches do not depend; 0 means threads, and None is chosen by the cores and the size of the set. `soft_labels` are
    weights of the classes, [images, classes], perhaps memory-mapped; batches get them scaled to sum to 1.
    """

    def __init__(
        self,
        dataset: Dataset | LazyDataset,
        batch_size: int,
        *,
        seed: int,
        device: str | torch.device = "cpu",
        augment: Augment = "none",
        rank: int = 0,
        world_size: int = 1,
        chunks: int = 1,
        soft_labels: np.ndarray | None = None,
        workers: int | None = None,
    ) -> None:
        if world_size < 1 or not 0 <= rank < world_size:
            raise ConfigError(f"expected 0 <= rank < world_size, found rank {rank} of {world_size}")
        require_labels(dataset, "training")
        if batch_size < world_size:
            raise ConfigError(
                f"expected batch_size >= {world_size}, one image per rank, found {batch_size}"
            )
        check_augment(augment, dataset)
        if soft_labels is not None and soft_labels.shape != (len(dataset), dataset.classes):
            raise ConfigError(
                f"expected soft labels of shape {[len(dataset), dataset.classes]} for {dataset.name}, "
                f"found {list(soft_labels.shape)}"
            )
        self.dataset, self.batch_size, self.seed, self.augment = dataset, batch_size, seed, augment
        self.rank, self.world_size, self.chunks, self.device = (
            rank,
            world_size,
            chunks,
            torch.device(device),
        )
        self.workers = workers
        # a tensor: CUDA divides by a plain number by multiplying with 1/255, which rounds differently
        self._white = torch.tensor(255.0, device=self.device)
        self._labels = _tensor(dataset.labels).to(self.device)
        self._soft_labels = soft_labels
        if isinstance(dataset, Dataset):
            self._images = _tensor(dataset.images).to(self.device)
            if soft_labels is not None:
                self._soft_on_device = _distributions(soft_labels).to(self.device)

    def __len__(self) -> int:
        """Steps per epoch, the last and perhaps incomplete batch included."""
        return -(-len(self.dataset) // self.batch_size)

    def keyed(self, seed: int) -> Batches:
        """Batches of another seed, on the same memory. They are not cut, so that no image is left out."""
        other = copy(self)
        other.seed, other.chunks = seed, 1
        return other

    def epoch(self, epoch: int, start: int = 0, weights: Tensor | None = None) -> Iterator[Batch]:
        """The batches of an epoch from step `start`: the same as the tail of the whole epoch.

        An epoch is a shuffle of all images or, with weights [images], as many draws with replacement.
        """
        if not 0 <= start <= len(self):
            raise ConfigError(f"expected a start from 0 to {len(self)} steps, found {start}")
        generator = torch.Generator().manual_seed(derive(self.seed, "shuffle", epoch))
        # on the CPU: the same for all devices
        if weights is None:
            order = torch.randperm(len(self.dataset), generator=generator)
        else:
            order = torch.multinomial(
                self._checked(weights), len(self.dataset), replacement=True, generator=generator
            )
        if isinstance(self.dataset, LazyDataset):
            return self._from_folder(self.dataset, order, epoch, start)
        return self._from_memory(self._to_device(order), epoch, start)

    def _checked(self, weights: Tensor) -> Tensor:
        usable = weights.shape == (len(self.dataset),) and bool(
            weights.isfinite().all() and (weights >= 0).all()
        )
        if not (usable and weights.any()):
            raise ConfigError(
                f"expected {len(self.dataset)} weights of images, finite, not negative and not all 0, found a tensor "
                f"of shape {list(weights.shape)} with other values: see the method's `sampling`"
            )
        return weights

    def _from_memory(self, order: Tensor, epoch: int, start: int) -> Iterator[Batch]:
        for step in range(start, len(self)):
            share = self._share(step)
            index = order[share if isinstance(share, slice) else self._to_device(share)]
            images = self._images[index]
            if self.augment == "crop-flip":
                generator = torch.Generator().manual_seed(
                    derive(self.seed, "augment", epoch, step, 0)
                )
                images = crop_flip(
                    images, generator, None if isinstance(share, slice) else self._within(step)
                )
            soft = None if self._soft_labels is None else self._soft_on_device[index]
            yield self._batch(images, index, epoch, step, soft)

    def _from_folder(
        self, folder: LazyDataset, order: Tensor, epoch: int, start: int
    ) -> Iterator[Batch]:
        steps = [(step, order[self._share(step)]) for step in range(start, len(self))]
        wanted = (self._wanted(index.tolist(), epoch) for _, index in steps)
        size = max((len(index) for _, index in steps), default=0)
        workers = choose_workers(self.workers, folder, sum(len(index) for _, index in steps))
        with closing(decoded(folder, wanted, size, workers)) as pictures:
            for (step, index), pixels in zip(steps, pictures, strict=True):
                rows = (
                    None
                    if self._soft_labels is None
                    else _distributions(self._soft_labels[index.numpy()])
                )
                soft = None if rows is None else self._to_device(rows)
                images = self._to_device(torch.from_numpy(pixels))
                yield self._batch(images, self._to_device(index), epoch, step, soft)

    def _wanted(self, indices: list[int], epoch: int) -> Wanted:
        if self.augment == "none":
            return Wanted(indices)
        return Wanted(indices, [derive(self.seed, "augment", epoch, i) for i in indices])

    def _size(self, step: int) -> int:
        """Images of a global batch."""
        return min(self.batch_size, len(self.dataset) - step * self.batch_size)

    def _share(self, step: int) -> slice | Tensor:
        """This rank's part of a global batch, as positions in the epoch's order."""
        first = step * self.batch_size
        if self.world_size == 1:
            return slice(first, first + self._size(step))
        return first + self._within(step)[0]

    def _within(self, step: int) -> tuple[Tensor, int]:
        """This rank's part of a global batch, as positions in it, and how many images it has."""
        size = self._size(step)
        chunk, chunks = self._chunk(step)
        first, count, _ = _share_of(chunk, self.rank, self.world_size)
        starts = torch.arange(chunks)[:, None] * chunk + first
        return (starts + torch.arange(count)).flatten(), size

    def _chunk(self, step: int) -> tuple[int, int]:
        """The size of a chunk of a global batch, and how many there are; too few images are left whole."""
        size = self._size(step)
        return (size // self.chunks, self.chunks) if size >= self.chunks else (size, 1)

    def _batch(
        self, images: Tensor, index: Tensor, epoch: int, step: int, soft_labels: Tensor | None
    ) -> Batch:
        if self.dataset.eight_bit:
            images = images.float() / self._white
        generator = torch.Generator(self.device).manual_seed(
            derive(self.seed, "noise", epoch, step, 0)
        )
        if self.world_size == 1:
            return Batch(images, self._labels[index], index, generator, soft_labels)
        total, _ = self._chunk(step)
        first, _, weight = _share_of(total, self.rank, self.world_size)
        own = torch.Generator(self.device).manual_seed(
            derive(self.seed, "own noise", epoch, step, self.rank)
        )
        share = Share(first, total, weight, generator)
        return Batch(images, self._labels[index], index, own, soft_labels, share=share)

    def _to_device(self, tensor: Tensor) -> Tensor:
        """A copy that a CUDA device makes while the host goes on."""
        pinned = tensor.pin_memory() if self.device.type == "cuda" else tensor
        return pinned.to(self.device, non_blocking=True)


def check_augment(augment: Augment, dataset: Dataset | LazyDataset) -> None:
    check_choice("augment", augment, Augment)
    if augment == ("crop-flip" if isinstance(dataset, LazyDataset) else "imagenet"):
        raise ConfigError(
            f"augment '{augment}' does not suit {dataset.name}: 'imagenet' is for image folders, "
            "'crop-flip' for data sets in memory, 'none' for both"
        )


def _share_of(total: int, rank: int, world_size: int) -> tuple[int, int, float]:
    """The first and the number of a rank's images among `total`, and the weight of their mean in that of all.

    Where there are fewer images than ranks, some have the same image, and share its weight.
    """
    if total < world_size:
        first = rank % total
        return first, 1, 1 / (total * len(range(first, world_size, total)))
    first, end = rank * total // world_size, (rank + 1) * total // world_size
    return first, end - first, (end - first) / total


def _distributions(weights: np.ndarray) -> Tensor:
    """Rows scaled to sum to 1, float32."""
    return torch.from_numpy((weights / weights.sum(axis=1, keepdims=True)).astype(np.float32))


def _tensor(array: np.ndarray) -> Tensor:
    """A tensor on the array's memory; a read-only array is copied, since torch would warn."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))
