"""Corrupted test sets: CIFAR-10-C (Hendrycks and Dietterich 2019) and MNIST-C (Mu and Gilmer 2019).

Both are folders of .npy files, unpacked below a data directory:
``CIFAR-10-C/<type>.npy`` [50000, 32, 32, 3] and ``CIFAR-10-C/labels.npy``, severity s in rows 10000 (s-1) on;
``mnist_c/<type>/test_images.npy`` [10000, 28, 28, 1] and ``mnist_c/<type>/test_labels.npy``, without severities.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from smoothcert.data.catalogue import load_dataset
from smoothcert.data.cifar import CIFAR10_CLASSES
from smoothcert.data.dataset import Dataset
from smoothcert.data.lazy import LazyDataset
from smoothcert.data.places import SPLIT_NAMES, roots
from smoothcert.data.specs import is_spec, parse
from smoothcert.errors import ConfigError, DataError, unknown_name

CORRUPTIONS = {
    "cifar10-c": (
        "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
        "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
    ),
    "mnist-c": (
        "shot_noise", "impulse_noise", "glass_blur", "motion_blur", "shear", "scale", "rotate", "brightness",
        "translate", "stripe", "fog", "spatter", "dotted_line", "zigzag", "canny_edges",
    ),
}  # fmt: skip
"""The 15 types of each benchmark that its means are taken over."""

EXTRA = {
    "cifar10-c": ("gaussian_blur", "saturate", "spatter", "speckle_noise"),
    "mnist-c": ("identity",),
}
"""Types that are published too, but enter no mean."""

SEVERITIES = (1, 2, 3, 4, 5)
_FOLDERS = {"cifar10-c": "CIFAR-10-C", "mnist-c": "mnist_c"}
_IMAGES = 10_000  # of one severity
_CIFAR, _MNIST = (50_000, 32, 32, 3), (None, 28, 28, 1)  # shapes of the files with images


def benchmarks_of(types: Collection[str], graded: bool) -> tuple[str, ...]:
    """The benchmark that logs of these types are of; several if it may be any of them, none if it is another.

    A few strange types among many, such as a misspelt one, make no other benchmark. Only CIFAR-10-C is `graded`.
    """

    def shared(name: str) -> tuple[int, int]:
        return len({*types} & {*CORRUPTIONS[name], *EXTRA[name]}), len(
            {*types} & {*CORRUPTIONS[name]}
        )

    most = max(map(shared, CORRUPTIONS))
    if 2 * most[0] <= len(types):
        return ()
    found = tuple(name for name in CORRUPTIONS if shared(name) == most)
    return ("cifar10-c",) if graded and "cifar10-c" in found else found


def load_corrupted(
    name: str, corruption: str, severity: int | None = None, data_dir: Path | None = None
) -> Dataset:
    """The images of one corruption; CIFAR-10-C needs a severity from 1 to 5, MNIST-C has none.

    The split of the set is ``<type>/<severity>`` or ``<type>``, by which a report recognises its certificates.
    """
    _check(name, corruption, severity)
    folder = _folder(name, data_dir)
    return (
        read_mnist_c(folder, corruption)
        if severity is None
        else read_cifar10_c(folder, corruption, severity)
    )


def _check(name: str, corruption: str, severity: int | None) -> None:
    if name not in CORRUPTIONS:
        raise unknown_name("corruption benchmark", name, CORRUPTIONS)
    known = (*CORRUPTIONS[name], *EXTRA[name])
    if corruption not in known:
        raise unknown_name(f"corruption of {name}", corruption, known)
    if name == "mnist-c" and severity is not None:
        raise ConfigError(f"mnist-c has no severities, found severity {severity}: leave it out")
    if name == "cifar10-c" and severity not in SEVERITIES:
        raise ConfigError(
            f"cifar10-c has the severities 1 to 5, found {severity}: give one of these"
        )


def is_corrupted(text: str) -> bool:
    """Whether a name of data is `cifar10-c:fog/3` or the like."""
    return text.partition(":")[0] in CORRUPTIONS


def corrupted(text: str, data_dir: Path | None = None) -> list[str]:
    """The sets that `cifar10-c:fog/3`, `cifar10-c:fog` (at each severity) or `cifar10-c:all` name; none of other data.

    All of them can be loaded: certifying the first may take hours, and what the last lacks is told before that.
    """
    if not is_corrupted(text):
        return []
    name, _, kind = text.partition(":")
    corruption, graded, severity = kind.partition("/")
    kinds = CORRUPTIONS[name] if corruption == "all" else (corruption,)
    if graded:
        severities: Sequence[int | None] = (_severity(text, severity),)
    else:
        severities = SEVERITIES if name == "cifar10-c" else (None,)
    check_corrupted(name, kinds, severities[0], data_dir)
    return [f"{name}:{one}/{s}" if s else f"{name}:{one}" for one in kinds for s in severities]


def _severity(text: str, severity: str) -> int:
    if not (severity.isascii() and severity.isdecimal()):
        raise ConfigError(
            f"a corruption is TYPE/SEVERITY, such as cifar10-c:fog/3, found {text!r}: give 1 to 5"
        )
    return int(severity)


def load_named(text: str, data_dir: Path | None = None) -> Dataset:
    """The images of one corruption by its name, such as `cifar10-c:fog/3`."""
    name, _, kind = corrupted(text, data_dir)[0].partition(":")
    corruption, _, severity = kind.partition("/")
    return load_corrupted(name, corruption, int(severity) if severity else None, data_dir)


def check_corrupted(
    name: str, corruptions: Sequence[str], severity: int | None = None, data_dir: Path | None = None
) -> None:
    """See that all these can be loaded, so that what is missing or damaged is told before any of them is certified."""
    for corruption in corruptions:
        _check(name, corruption, severity)
    folder = _folder(name, data_dir)
    files: dict[Path, tuple[int | None, ...]] = {}
    for corruption in corruptions:
        if name == "mnist-c":
            files[folder / corruption / "test_images.npy"] = _MNIST
            files[folder / corruption / "test_labels.npy"] = (None,)
        else:
            files |= {folder / f"{corruption}.npy": _CIFAR, folder / "labels.npy": _CIFAR[:1]}
    if missing := [path for path in files if not path.is_file()]:
        listed = "".join(f"\n  {path}" for path in missing)
        raise DataError(f"{name} is not complete; not found:{listed}\nUnpack the benchmark again")
    for path, shape in files.items():
        _array(path, shape)


def load_stored(
    name: str,
    split: str,
    data_dir: Path | None = None,
    classes: int | None = None,
    class_names: Sequence[str] | None = None,
) -> Dataset | LazyDataset:
    """The data that a store is about, by the name and the split in its manifest; nothing is downloaded.

    The manifest may be anyone's, so a place must be one name, perhaps with that of a
    split behind it, to be found here or in a data directory.
    """
    if is_spec(name):
        place = parse(name, data_dir).place
        folder, _, last = place.rpartition("/")
        plain = all(Path(part).name == part != ".." for part in (folder or last, last))
        if not plain or place[0] in "/~" or (folder and last not in SPLIT_NAMES):
            raise DataError(
                f"{name}: expected data by the name of its folder or file, found a path"
            )
        return load_dataset(
            name, split, data_dir, False, classes=classes, class_names=class_names or ()
        )
    if name not in CORRUPTIONS:
        return load_dataset(name, split, data_dir, download=False)
    corruption, _, severity = split.partition("/")
    return load_corrupted(name, corruption, int(severity) if severity else None, data_dir)


def read_cifar10_c(folder: Path, corruption: str, severity: int) -> Dataset:
    """One severity of one corruption from the folder ``CIFAR-10-C``."""
    images = _array(folder / f"{corruption}.npy", _CIFAR)
    labels = _array(folder / "labels.npy", _CIFAR[:1])
    rows = slice(_IMAGES * (severity - 1), _IMAGES * severity)
    return _dataset(
        "cifar10-c", f"{corruption}/{severity}", images[rows], labels[rows], CIFAR10_CLASSES
    )


def read_mnist_c(folder: Path, corruption: str) -> Dataset:
    """The test images of one corruption from the folder ``mnist_c``."""
    images = _array(folder / corruption / "test_images.npy", _MNIST)
    labels = _array(folder / corruption / "test_labels.npy", (len(images),))
    return _dataset("mnist-c", corruption, images, labels, tuple("0123456789"))


def _folder(name: str, data_dir: Path | None) -> Path:
    places = [root / _FOLDERS[name] for root in roots(data_dir)]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        looked = "".join(f"\n  {place}" for place in places)
        raise DataError(
            f"{name} was not found; looked in{looked}\nUnpack it below a data directory, and name that directory by "
            "data_dir or in $SMOOTHCERT_DATA"
        )
    return found


def _array(path: Path, shape: tuple[int | None, ...]) -> np.ndarray:
    """A .npy file, memory-mapped; one that could run code is refused."""
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; is the benchmark unpacked completely?") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path}: expected a .npy array ({error}): delete the file and get it again"
        ) from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise DataError(
            f"{path}: expected one .npy array, found an archive: unpack the benchmark again"
        )
    fits = array.ndim == len(shape) and all(
        want in (None, size) for want, size in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in "ui":
        wanted = ", ".join("N" if size is None else str(size) for size in shape)
        raise DataError(
            f"{path}: expected whole numbers of shape [{wanted}], found {array.dtype} {list(array.shape)}: "
            "is it another file under this name?"
        )
    return array


def _dataset(
    name: str, split: str, images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...]
) -> Dataset:
    if images.dtype != np.uint8:
        raise DataError(f"{name} ({split}): expected images of type uint8, found {images.dtype}")
    # [N, H, W, C] on disk -> [N, C, H, W] in memory, of the chosen rows alone
    pixels = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return Dataset(name, split, pixels, np.array(labels, dtype=np.int64), len(classes), classes)
