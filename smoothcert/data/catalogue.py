"""Data sets by name: where they may lie on this machine, and the download of those that do not; and data by place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smoothcert.data.dataset import Dataset
from smoothcert.data.download import fetch, unpack
from smoothcert.data.folder import AsPublished, ImageFolder
from smoothcert.data.lazy import LazyDataset
from smoothcert.data.picture_labels import require_order
from smoothcert.data.places import roots
from smoothcert.data.preparation import AS_PRINTED
from smoothcert.data.sources import DATASETS, DatasetInfo
from smoothcert.data.specs import KINDS, check_split, is_spec, parse
from smoothcert.errors import ConfigError, DataError, none_of, unknown_name

__all__ = ["DATASETS", "DatasetInfo", "load_dataset", "locate", "roots"]

_SPLITS = ("train", "test")


def load_dataset(
    spec: str,
    split: str = "test",
    data_dir: Path | None = None,
    download: bool = True,
    *,
    shape: tuple[int, ...] | None = None,
    classes: int | None = None,
    class_names: Sequence[str] = (),
) -> Dataset | LazyDataset:
    """The training or test images of a known data set, or the data at a place: `folder:PATH`, `npz:PATH` and others.

    A known set is looked for in `data_dir`, in $SMOOTHCERT_DATA and in the user's cache; if it is in none, it is
    downloaded to the first of them that is set. A place is looked for from here, and then below these.

    `shape` (C, H, W) and `classes` are what the network takes and answers. Pictures at a place are brought to this
    shape unless their options say another; all other data is taken as it is. Pictures whose classes have names are
    numbered by `class_names`, those of the network, if they are among them.

    >>> from smoothcert import load_dataset
    >>> test = load_dataset("mnist-mini", "test")  # comes with the package; others: `smoothcert list data`
    >>> len(test), test.shape, test.classes
    (1000, (1, 28, 28), 10)
    """
    if not isinstance(spec, str):
        raise ConfigError(f"expected the name of a data set, such as 'mnist', found {spec!r}")
    if is_spec(spec):
        check_split(split)
        if shape is not None and len(shape) != 3:
            raise ConfigError(f"expected a shape (channels, height, width), found {shape}")
        taken = None if shape is None else (shape[0], shape[1], shape[2])
        return _at_place(spec, split, data_dir, download, taken, classes, class_names)
    info = _info(spec)
    if split not in _SPLITS:
        raise none_of("split", split, _SPLITS)
    if classes not in (None, info.classes):
        raise DataError(
            f"{spec} has {info.classes} classes, the network {classes}: they do not belong together"
        )
    found = _known(info, split, data_dir, download)
    require_order(f"{spec} ({split})", found.class_names, class_names)
    return found


def _at_place(
    text: str,
    split: str,
    data_dir: Path | None,
    download: bool,
    shape: tuple[int, int, int] | None,
    classes: int | None,
    class_names: Sequence[str],
) -> Dataset | LazyDataset:
    spec = parse(text, data_dir)
    if spec.kind == "folder":
        from smoothcert.data.pictures import load_folder

        return load_folder(spec, split, data_dir, shape, classes, class_names)
    if spec.kind == "tar":
        from smoothcert.data.shards import load_tar

        return load_tar(spec, split, data_dir, shape, classes)
    if spec.kind == "npz":
        from smoothcert.data.npz import load_npz

        found = load_npz(spec, split, data_dir, shape, classes)
        require_order(
            f"{found.name} ({split})", found.class_names if found.labelled else (), class_names
        )
        return found
    from smoothcert.data.hub import load_hub

    return load_hub(spec, split, data_dir, download, shape, classes, class_names)


def _known(
    info: DatasetInfo, split: str, data_dir: Path | None, download: bool
) -> Dataset | LazyDataset:
    name = info.name
    folder = locate(name, data_dir, split)
    if folder is None:
        folder = _fetched(info, split, data_dir, download)
    paths = [path for file in info.files[split] if (path := _present(info, folder, file))]
    if info.read is None:
        pictures: AsPublished
        if shards := sorted(paths[0].glob("*.tar")):
            from smoothcert.data.shards import ImageNetShards

            pictures = ImageNetShards(name, split, shards, info.classes, licence=info.licence)
        else:
            pictures = ImageFolder(paths[0], name, split, info.licence)
        if info.as_printed:
            pictures.rule = AS_PRINTED
        return pictures
    images, labels = info.read(paths)
    if images.shape != (info.size(split), *info.shape):
        raise DataError(
            f"{folder}: expected the {info.size(split)} {split} images of {name}, each {list(info.shape)}, "
            f"found {len(images)}, each {list(images.shape[1:])}: "
            "delete these files and load it again, or make a smoothcert.data.Dataset of them yourself"
        )
    return Dataset(name, split, images, labels, info.classes, info.class_names, info.licence)


def locate(name: str, data_dir: Path | None = None, split: str | None = None) -> Path | None:
    """The folder with all files of `split`, or of either split if none is named; None if there is none."""
    info = _info(name)
    splits = _SPLITS if split is None else (split,)
    for folder in _places(info, data_dir):
        if any(all(_present(info, folder, file) for file in info.files[one]) for one in splits):
            return folder
    return None


def _info(name: str) -> DatasetInfo:
    if name not in DATASETS and Path(name).expanduser().exists():
        kind = {".npz": "npz", ".tar": "tar"}.get(Path(name).suffix, "folder")
        raise ConfigError(f"{name} is a place, not the name of a data set: write {kind}:{name}")
    if name not in DATASETS:
        raise unknown_name("dataset", name, (*DATASETS, *(f"{kind}:PLACE" for kind in KINDS)))
    return DATASETS[name]


def _places(info: DatasetInfo, data_dir: Path | None) -> list[Path]:
    """Every folder in which the files of the data set may lie."""
    below = [root / folder for root in roots(data_dir) for folder in info.folders]
    return [*below, *info.places]


def _present(info: DatasetInfo, folder: Path, file: str) -> Path | None:
    paths = [folder / f"{file}{ending}" for ending in info.endings]
    return next(
        (path for path in paths if (path.is_dir() if info.read is None else path.is_file())), None
    )


def _download(info: DatasetInfo, folder: Path) -> Path:
    """Fetch the whole set, since whoever trains will also test."""
    for file in info.remote:
        path = fetch(file, folder, info.mirrors)
        if path.name.endswith(".tar.gz"):
            unpack(
                path, folder
            )  # and keep the archive: another process may be about to unpack it too
    return folder


def _fetched(info: DatasetInfo, split: str, data_dir: Path | None, download: bool) -> Path:
    """The folder of a download; where there is none, the error says what was looked for."""
    advice = "It cannot be downloaded without an agreement. Put the files into one of these folders"
    if info.read is None:
        advice = (
            "It cannot be downloaded without an agreement. Lay it out as <data directory>/imagenet/train/"
            "<class>/*.JPEG and <data directory>/imagenet/val/<class>/*.JPEG, or with tar shards in both folders"
        )
    elif info.remote:
        target = roots(data_dir)[0] / info.name
        advice = f"`smoothcert certify` and `train` download it to {target}. Or put the files into one of these folders"
        if download:
            try:
                return _download(info, target)
            except DataError as error:
                advice = f"{error}\nOr put the files into one of the folders above"
    looked = "".join(
        f"\n  {place}{_in_part(info, split, place)}" for place in _places(info, data_dir)
    )
    files = " or ".join(
        ", ".join(f"{file}{ending}" for file in info.files[split]) for ending in info.endings
    )
    raise DataError(
        f"{info.name}: the {split} split ({files}) was not found; looked in{looked}\n{advice}; "
        "name the data directory as data_dir or in $SMOOTHCERT_DATA"
    )


def _in_part(info: DatasetInfo, split: str, folder: Path) -> str:
    """Which files of the split a folder lacks that has some file of the data set."""
    found = [
        path
        for one in _SPLITS
        for file in info.files[one]
        if (path := _present(info, folder, file))
    ]
    if not found:
        return ""
    ending = max(
        (one for one in info.endings if found[0].name.endswith(one)), key=len
    )  # every name ends with ""
    lacking = [f"{file}{ending}" for file in info.files[split] if not _present(info, folder, file)]
    return f" (it has {', '.join(path.name for path in found)}, but not {', '.join(lacking)})"
