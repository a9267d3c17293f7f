"""Data sets by name: where they may lie on this machine, and the download of those that do not."""

from __future__ import annotations

import os
from pathlib import Path

from smoothcert.data.dataset import Dataset
from smoothcert.data.download import fetch, unpack
from smoothcert.data.folder import ImageFolder
from smoothcert.data.sources import DATASETS, DatasetInfo
from smoothcert.errors import DataError, unknown_name

__all__ = ["DATASETS", "DatasetInfo", "load_dataset", "locate"]

_SPLITS = ("train", "test")


def load_dataset(
    name: str, split: str = "test", data_dir: Path | None = None, download: bool = True
) -> Dataset | ImageFolder:
    """The training or test images of a known data set.

    Looked for in `data_dir`, in $SMOOTHCERT_DATA and in the user's cache; if it is in none, downloaded to the first of
    them that is set.
    """
    info = _info(name)
    if split not in _SPLITS:
        raise unknown_name("split", split, _SPLITS)
    folder = locate(name, data_dir, split)
    if folder is None and download and info.remote:
        folder = _download(info, roots(data_dir)[0] / name)
    if folder is None:
        raise DataError(_not_found(info, split, data_dir))
    paths = [path for file in info.files[split] if (path := _present(info, folder, file))]
    if info.read is None:
        return ImageFolder(paths[0], name, split)
    images, labels = info.read(paths)
    if images.shape != (info.size(split), *info.shape):
        raise DataError(
            f"{folder}: expected the {info.size(split)} {split} images of {name}, each {list(info.shape)}, "
            f"found {len(images)}, each {list(images.shape[1:])}: "
            "delete these files and load it again, or make a smoothcert.data.Dataset of them yourself"
        )
    return Dataset(name, split, images, labels, info.classes, info.class_names)


def locate(name: str, data_dir: Path | None = None, split: str | None = None) -> Path | None:
    """The folder with all files of `split`, or of either split if none is named; None if there is none."""
    info = _info(name)
    splits = _SPLITS if split is None else (split,)
    for folder in _places(info, data_dir):
        if any(all(_present(info, folder, file) for file in info.files[one]) for one in splits):
            return folder
    return None


def _info(name: str) -> DatasetInfo:
    if name not in DATASETS:
        raise unknown_name("dataset", name, DATASETS)
    return DATASETS[name]


def roots(data_dir: Path | None) -> list[Path]:
    """Data directories in the order in which they are searched."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = (data_dir, os.environ.get("SMOOTHCERT_DATA"), Path(cache, "smoothcert"))
    return [Path(root).expanduser() for root in named if root]


def _places(info: DatasetInfo, data_dir: Path | None) -> list[Path]:
    """Every folder in which the files of the data set may lie."""
    below = [root / folder for root in roots(data_dir) for folder in info.folders]
    return [*below, *info.places]


def _present(info: DatasetInfo, folder: Path, file: str) -> Path | None:
    paths = [folder / f"{file}{ending}" for ending in info.endings]
    return next((path for path in paths if (path.is_dir() if info.read is None else path.is_file())), None)


def _download(info: DatasetInfo, folder: Path) -> Path:
    """Fetch the whole set, since whoever trains will also test."""
    for file in info.remote:
        path = fetch(file, folder, info.mirrors)
        if path.name.endswith(".tar.gz"):
            unpack(path, folder)  # and keep the archive: another process may be about to unpack it too
    return folder


def _not_found(info: DatasetInfo, split: str, data_dir: Path | None) -> str:
    looked = "".join(f"\n  {place}" for place in _places(info, data_dir))
    files = " or ".join(", ".join(f"{file}{ending}" for file in info.files[split]) for ending in info.endings)
    if info.read is None:
        advice = (
            "It cannot be downloaded without an agreement. Lay it out as <data directory>/imagenet/train/"
            "<class>/*.JPEG and <data directory>/imagenet/val/<class>/*.JPEG"
        )
    else:
        advice = "Allow the download, or put" if info.remote else "It cannot be downloaded without an agreement. Put"
        advice += " the files into one of these folders"
    return (
        f"{info.name}: the {split} split ({files}) was not found; looked in{looked}\n{advice}; "
        "name the data directory as an argument or in $SMOOTHCERT_DATA"
    )
