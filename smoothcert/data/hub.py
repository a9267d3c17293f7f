"""`hf-dataset:NAME`: a data set of the package `datasets`, from the Hugging Face hub or from a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.data.dataset import UNLABELLED, check_labels
from smoothcert.data.image_file import open_picture
from smoothcert.data.lazy import LazyDataset
from smoothcert.data.picture_labels import Labels, no_labels, numbered
from smoothcert.data.places import licence_below, named_split, places
from smoothcert.data.specs import Spec
from smoothcert.errors import DataError, MissingExtra, unknown_name

if TYPE_CHECKING:
    from PIL.Image import Image

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


class HubDataset(LazyDataset):
    """The rows of one split; pictures are decoded here, by the rules for all pictures."""

    def __init__(self, rows: Any, image: str, name: str, split: str) -> None:
        self.rows, self.column, self.name, self.split = rows, image, name, split
        self.places: Sequence[int] = range(len(rows))  # what messages call the rows

    def where(self, i: int) -> str:
        return f"{self.name} ({self.split}), row {self.places[i]}"

    def open(self, i: int) -> AbstractContextManager[Image]:
        content = self._content(i)
        if "_digests" in vars(self) and sha256(content).hexdigest() != self._digests[i]:
            raise DataError(
                f"{self.where(i)}: the picture has changed since its hash was taken: start again"
            )
        return open_picture(self.where(i), content)

    def _content(self, i: int) -> bytes:
        """The picture as it is stored, in the row itself or in a file that it names."""
        cell = self.rows[i][self.column]
        try:
            if cell is None or (cell["bytes"] is None and cell["path"] is None):
                raise DataError(f"{self.where(i)}: expected a picture, found none")
            content: bytes = (
                Path(cell["path"]).read_bytes() if cell["bytes"] is None else cell["bytes"]
            )
            return content
        except OSError as error:
            raise DataError(f"{self.where(i)}: expected a readable picture ({error})") from error

    def part(self, indices: Sequence[int]) -> HubDataset:
        some = self._part(indices)
        some.rows, some.places = [self.rows[i] for i in indices], [self.places[i] for i in indices]
        if "_digests" in vars(self):
            some._digests = [self._digests[i] for i in indices]
        return some

    def fingerprint(self) -> str:
        """SHA-256 of stored pictures, labels and preparation. All rows are read for it, once for each process."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = sha256(f"{self.rule.shape} {self.rule}".encode())
        for found, label in zip(self._digests, self.labels.tolist(), strict=True):
            digest.update(f"\n{found}\t{label}".encode())
        return digest.hexdigest()

    @cached_property
    def _digests(self) -> list[str]:
        return [sha256(self._content(i)).hexdigest() for i in range(len(self))]


def load_hub(
    spec: Spec,
    split: str,
    data_dir: Path | None,
    download: bool,
    shape: tuple[int, int, int] | None,
    classes: int | None,
    known: Sequence[str] = (),
) -> HubDataset:
    """The rows of a split. Code that a data set brings with it is never run."""
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra("datasets", "hf", f"hf-dataset:{spec.place}") from error
    folder = next((place for place in places(spec.place, data_dir) if place.is_dir()), None)
    if folder is None and not _HUB_NAME.fullmatch(spec.place):
        raise DataError(
            f"hf-dataset:{spec.place}: there is no such folder, and no data set of the hub has such a name"
        )
    if folder is None and not download:
        raise DataError(
            f"hf-dataset:{spec.place} is no folder here: save it into one by its save_to_disk"
        )
    where = f"hf-dataset:{folder or spec.place}"
    try:
        if folder is not None and any(
            (folder / name).is_file() for name in ("dataset_dict.json", "state.json")
        ):
            found = datasets.load_from_disk(str(folder.resolve()))
        else:
            found = datasets.load_dataset(
                str(folder.resolve() if folder else spec.place), spec.options.get("config")
            )
    except Exception as error:  # of the network, of files, of the package itself
        raise DataError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if isinstance(found, dict):
        name = named_split(list(found), split, where)
        if name is None and len(found) != 1:
            raise DataError(f"{where}: expected a split named {split}, found {', '.join(found)}")
        found = found[name or next(iter(found))]
    if not len(found):
        raise DataError(f"{where}: expected at least one row, found none")
    image, label = _columns(spec, found.features, where)
    rows = found.select_columns([image]).cast_column(image, datasets.Image(decode=False))
    result = HubDataset(rows, image, "", split)
    result.name = spec.name(folder or spec.place)  # for messages, until the preparation is known
    labels = _labels(found, label, classes, where, known)
    result.labels, result.classes, result.class_names = labels.values, labels.classes, labels.names
    result.by_name = labels.by_name
    result.prepare(spec, folder or spec.place, shape)
    result.licence = str(found.info.license or "") or _licence(folder, spec.place)
    return result


def _columns(spec: Spec, features: dict[str, Any], where: str) -> tuple[str, str | None]:
    """The columns of images and of labels: those asked for, or the only ones of their kind."""
    for option in ("image", "label"):
        if option in spec.options and spec.options[option] not in features:
            raise unknown_name(f"column of {where}", spec.options[option], features)
    kinds = {name: type(feature).__name__ for name, feature in features.items()}
    images = [name for name, kind in kinds.items() if kind == "Image"]
    asked = spec.options.get("image")
    if (asked is None and len(images) != 1) or (asked is not None and asked not in images):
        told = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        raise DataError(
            f"{where}: expected one column of type Image, found {told}: name it by image=COLUMN"
        )
    labels = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    if "label" not in spec.options and len(labels) > 1:
        raise DataError(
            f"{where}: found several columns of labels ({', '.join(labels)}): name one by label=COLUMN"
        )
    return asked or images[0], spec.options.get("label") or next(
        iter(labels), "label" if "label" in kinds else None
    )


def _labels(
    rows: Any, column: str | None, classes: int | None, where: str, known: Sequence[str]
) -> Labels:
    """Labels, the number of classes and their names. The hub marks hidden labels by -1, which is no label here too."""
    if column is None:
        return no_labels(len(rows), classes)
    values = list(rows[column])
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        odd = next(
            value for value in values if not isinstance(value, int) or isinstance(value, bool)
        )
        raise DataError(f"{where}: expected class numbers in the column {column}, found {odd!r}")
    names = tuple(getattr(rows.features[column], "names", None) or ())
    labels = np.array(values, np.int64)
    count = len(names) or classes or int(labels.max()) + 1
    check_labels(where, labels, count)
    if names and known and labels[0] != UNLABELLED:
        return numbered(where, [names[label] for label in values], classes, known)
    if classes not in (None, count):
        raise DataError(
            f"{where}: the data has {count} classes, the network {classes}: its numbers mean other classes"
        )
    return Labels(labels, count, names)


def _licence(folder: Path | None, name: str) -> str:
    """By a licence file of the folder, or by the card, README.md, of the folder or of the hub."""
    found = "" if folder is None else licence_below(folder)
    with suppress(Exception):  # a data set is as good without a card
        from huggingface_hub import DatasetCard

        if not found and (folder is None or (folder / "README.md").is_file()):
            found = str(
                DatasetCard.load(name if folder is None else folder / "README.md").data.license
                or ""
            )
    return found
