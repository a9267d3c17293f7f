"""`tar:PATH`: pictures in tar files as the package webdataset lays them out, read from where they lie.

Members of one sample share their name up to the first dot of its last part: `n01440764_10026.jpg` is a picture and
`n01440764_10026.cls` has its class number as text. Other members are passed over. All headers are read once, so that
any picture can be had at any time: an epoch is a shuffle of all pictures, not of a buffer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smoothcert.data.dataset import UNLABELLED
from smoothcert.data.folder import SUFFIXES, AsPublished
from smoothcert.data.image_file import open_picture
from smoothcert.data.lazy import LazyDataset, each
from smoothcert.data.picture_labels import WITHOUT
from smoothcert.data.places import licence_below
from smoothcert.data.shard_files import shards_of
from smoothcert.data.specs import Spec
from smoothcert.data.tar_members import Member, members
from smoothcert.errors import ConfigError, DataError

if TYPE_CHECKING:
    from PIL.Image import Image

_MANY = 20  # shards whose reading deserves a progress bar
_MOST_CLASSES = 1_000_000


class Shard(NamedTuple):
    """A tar file as it was when its headers were read."""

    path: Path
    size: int
    changed: int  # nanoseconds

    @classmethod
    def now(cls, path: Path) -> Shard:
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns)


class Samples(NamedTuple):
    """The pictures of one shard, in their order."""

    names: list[str]
    place: np.ndarray  # [N, 2] int64: offset and size
    labels: np.ndarray  # [N] int64


class TarShards(LazyDataset):
    """The pictures of all shards, in the order of the shards and of the members in each."""

    def __init__(
        self,
        name: str,
        split: str,
        paths: Sequence[Path],
        classes: int | None,
        labelled: bool = True,
        licence: str = "",
    ) -> None:
        self.name, self.split, self.licence = name, split, licence
        self.shards = [Shard.now(path) for path in paths]
        limit = (classes or _MOST_CLASSES) if labelled else 0
        read = partial(_samples, limit=limit)
        found = list(each(read, [one.path for one in self.shards], f"read {name}", "shards", _MANY))
        if not any(one.names for one in found):
            raise DataError(f"{paths[0]}: expected pictures ({', '.join(SUFFIXES)}), found none")
        self.names = [name for one in found for name in one.names]
        self.shard = np.repeat(np.arange(len(found)), [len(one.names) for one in found])
        self.place = np.concatenate([one.place for one in found])
        self.labels = np.concatenate([one.labels for one in found])
        self.classes, self.class_names = classes or int(self.labels.max()) + 1, ()

    def where(self, i: int) -> str:
        return f"{self.shards[self.shard[i]].path}, {self.names[i]}"

    def open(self, i: int) -> AbstractContextManager[Image]:
        return open_picture(self.where(i), self._content(i))

    def _content(self, i: int) -> bytes:
        """Opened anew each time: there may be more shards than files that a process may keep open."""
        shard, (offset, size) = self.shards[self.shard[i]], self.place[i].tolist()
        try:
            with shard.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_size, status.st_mtime_ns) != shard[1:]:
                    raise DataError(
                        f"{shard.path}: the file has changed since its headers were read: start again"
                    )
                file.seek(offset)
                content: bytes = file.read(size)
                return content
        except OSError as error:
            raise DataError(
                f"{self.where(i)}: expected a readable tar file ({error.strerror})"
            ) from error

    def part(self, indices: Sequence[int]) -> TarShards:
        some, chosen = self._part(indices), list(indices)
        used, some.shard = np.unique(self.shard[chosen], return_inverse=True)
        some.shards, some.place = [self.shards[shard] for shard in used], self.place[chosen]
        some.names = [self.names[i] for i in chosen]
        return some

    def fingerprint(self) -> str:
        """SHA-256 of the shards, labels and preparation. All shards are read for it, once for each process."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digests = each(_digest, self.shards, f"hash {self.name}", "shards", _MANY)
        digest = sha256("\n".join([f"{self.rule.shape} {self.rule}", *digests]).encode())
        digest.update(self.labels.data)
        return digest.hexdigest()


class ImageNetShards(AsPublished, TarShards):
    """ImageNet by its name, kept in tar files. Its images are numbered in the order in which they lie there."""

    @cached_property
    def _fingerprint(self) -> str:
        """Of names, sizes and labels, as for the folder: every process would read 150 GB for a hash of the pixels."""
        rows = zip(self.names, self.place[:, 1].tolist(), self.labels.tolist(), strict=True)
        return self._hash(f"{name}\t{size}\t{label}" for name, size, label in rows)


def load_tar(
    spec: Spec,
    split: str,
    data_dir: Path | None,
    shape: tuple[int, int, int] | None,
    classes: int | None,
) -> TarShards:
    """The pictures of a split, or of all shards where these are not named by splits."""
    asked = spec.options.get("labels")
    if asked not in (None, "none"):
        raise ConfigError(
            f"tar:{spec.place}: expected labels=none, or labels as .cls members, found labels={asked}"
        )
    place, paths = shards_of(spec.place, split, data_dir)
    result = TarShards(spec.name(place), split, paths, classes, labelled=asked is None)
    result.prepare(spec, place, shape)
    result.licence = licence_below(paths[0].parent)
    return result


def _samples(path: Path, limit: int) -> Samples:
    """The pictures of a shard, with labels below `limit`; 0 is for pictures without labels."""
    pictures, labels = dict[str, Member](), dict[str, Member]()
    for member in members(path):
        folder, slash, last = member.name.rpartition("/")
        stem, _, ending = last.partition(".")
        ending = ending.lower()
        if not stem or (
            ending != "cls" and f".{ending}" not in SUFFIXES
        ):  # names that begin with a dot are hidden
            continue
        seen, key = labels if ending == "cls" else pictures, f"{folder}{slash}{stem}"
        if key in seen:
            raise DataError(
                f"{path}: expected one {'label' if seen is labels else 'picture'} for the sample {key}, found "
                f"{seen[key].name} and {member.name}: samples need names of their own up to the first dot"
            )
        seen[key] = member
    if lost := labels.keys() - pictures.keys():
        raise DataError(
            f"{path}: expected a picture ({', '.join(SUFFIXES)}) for {labels[min(lost)].name}, found none"
        )
    values = [
        _label(path, picture, labels.get(key), limit) if limit else UNLABELLED
        for key, picture in pictures.items()
    ]
    place = [(picture.offset, picture.size) for picture in pictures.values()]
    names = [picture.name for picture in pictures.values()]
    return Samples(names, np.array(place, np.int64).reshape(-1, 2), np.array(values, np.int64))


def _label(path: Path, picture: Member, label: Member | None, limit: int) -> int:
    if label is None:
        raise DataError(
            f"{path}, {picture.name}: expected its class number in a member of the same name that ends in .cls, found "
            f"none: add it, {WITHOUT}"
        )
    text = (label.content or b"").strip()
    if not (text.isdigit() and len(text) < 10 and int(text) < limit):
        raise DataError(
            f"{path}, {label.name}: expected a class number from 0 to {limit - 1} as text, found {text[:20]!r}"
        )
    return int(text)


def _digest(shard: Shard) -> str:
    try:
        with shard.path.open("rb") as file:
            found = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{shard.path}: expected a readable tar file ({error.strerror})") from error
    if Shard.now(shard.path) != shard:
        raise DataError(
            f"{shard.path}: the file has changed since its headers were read: start again"
        )
    return found
