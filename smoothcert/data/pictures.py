"""`folder:PATH`: any folder of pictures, with labels or without; pictures are decoded when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from smoothcert.data.folder import SUFFIXES
from smoothcert.data.image_file import open_picture
from smoothcert.data.lazy import LazyDataset, each
from smoothcert.data.picture_labels import Labels, from_csv, from_folders, no_labels
from smoothcert.data.places import find, licence_below, named_split
from smoothcert.data.specs import Spec
from smoothcert.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

_PASSED_OVER = (
    "__MACOSX",
)  # and all names that begin with a dot: systems leave such things beside pictures


class PictureFolder(LazyDataset):
    """The pictures below `root`, in the order of folders and then of names."""

    def __init__(
        self, root: Path, split: str, files: Sequence[PurePosixPath], labels: Labels
    ) -> None:
        self.root, self.split, self.files = root, split, list(files)
        self.labels, self.classes, self.class_names = labels.values, labels.classes, labels.names
        self.by_name = labels.by_name

    def where(self, i: int) -> str:
        return str(self.root / self.files[i])

    def open(self, i: int) -> AbstractContextManager[Image]:
        content = _content(self.root / self.files[i])
        if "_digests" in vars(self) and sha256(content).hexdigest() != self._digests[i]:
            raise DataError(
                f"{self.where(i)}: the file has changed since its hash was taken: start again"
            )
        return open_picture(self.where(i), content)

    def check(self, i: int) -> None:
        with open_picture(self.root / self.files[i]) as picture:  # reads the header alone
            self._check(picture, i)

    def part(self, indices: Sequence[int]) -> PictureFolder:
        some = self._part(indices)
        some.files = [self.files[i] for i in indices]
        if "_digests" in vars(self):
            some._digests = [self._digests[i] for i in indices]
        return some

    def fingerprint(self) -> str:
        """SHA-256 of names, contents, labels and preparation. All files are read for it, once for each process."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        lines = [f"{self.rule.shape} {self.rule}"]
        rows = zip(self.files, self._digests, self.labels.tolist(), strict=True)
        return sha256(
            "\n".join(
                [*lines, *(f"{path}\t{digest}\t{label}" for path, digest, label in rows)]
            ).encode()
        ).hexdigest()

    @cached_property
    def _digests(self) -> list[str]:
        """SHA-256 of each file. Kept nowhere: a record of it could be older than the file."""
        paths = [self.root / file for file in self.files]
        return list(each(_digest, paths, f"hash {self.name}", "files", many=5_000))


def load_folder(
    spec: Spec,
    split: str,
    data_dir: Path | None,
    shape: tuple[int, int, int] | None,
    classes: int | None,
    known: Sequence[str] = (),
) -> PictureFolder:
    """The pictures of a split, or of the folder itself where it has no sub-folders named as splits."""
    place = find(spec.place, data_dir)
    if not place.is_dir():
        raise DataError(f"{place}: expected a folder of pictures, found a file")
    below = named_split(
        sorted(entry.name for entry in place.iterdir() if entry.is_dir()), split, str(place)
    )
    root = place / below if below else place
    files = list(pictures_below(root))
    if not files:
        raise DataError(f"{root}: expected pictures ({', '.join(SUFFIXES)}), found none")
    labels = _labels(spec.options.get("labels"), place, root, files, classes, known)
    found = PictureFolder(root, split, files, labels)
    found.prepare(spec, place, shape)
    found.licence = licence_below(root) or licence_below(place)
    return found


def pictures_below(root: Path) -> Iterator[PurePosixPath]:
    """Relative paths of all pictures, folder by folder; links are followed."""
    found = _walk(root, PurePosixPath(), ())
    return iter(sorted(found, key=lambda path: (str(path.parent), path.name)))


def _walk(folder: Path, shown: PurePosixPath, above: tuple[Path, ...]) -> Iterator[PurePosixPath]:
    real = folder.resolve()
    if real in above:
        raise DataError(f"{folder}: the link leads back to a folder above it: remove it")
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name in _PASSED_OVER:
            continue
        if entry.is_dir():
            yield from _walk(entry, shown / entry.name, (*above, real))
        elif entry.suffix.lower() in SUFFIXES:
            if not entry.is_file():
                raise DataError(
                    f"{entry}: expected a picture, found a link to nothing, or no plain file: remove it"
                )
            yield shown / entry.name


def _labels(
    asked: str | None,
    place: Path,
    root: Path,
    files: Sequence[PurePosixPath],
    classes: int | None,
    known: Sequence[str],
) -> Labels:
    if asked == "none":
        return no_labels(len(files), classes)
    if asked is not None:
        looked = [root / asked, place / asked, Path(asked).expanduser()]
        path = next((path for path in looked if path.is_file()), None)
        if path is None:
            raise DataError(f"labels={asked}: no such file in {root} or here")
        return from_csv(path, root, files, classes, known)
    if (root / "labels.csv").is_file():
        return from_csv(root / "labels.csv", root, files, classes, known)
    if root != place and (place / "labels.csv").is_file():
        raise DataError(
            f"{place / 'labels.csv'} is not in {root}, whose pictures it should label: move it there"
        )
    if any(len(path.parts) > 1 for path in files):
        return from_folders(root, files, classes, known)
    return no_labels(len(files), classes)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: expected a readable picture ({error.strerror})") from error


def _digest(path: Path) -> str:
    return sha256(_content(path)).hexdigest()
