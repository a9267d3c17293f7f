"""The data sets smoothcert knows: their facts, where their files lie, and where to get them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from smoothcert.data.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES, read_cifar10, read_cifar100
from smoothcert.data.download import RemoteFile
from smoothcert.data.idx import read_idx
from smoothcert.data.imagenet32 import read_imagenet32
from smoothcert.errors import DataError

Reader = Callable[
    [Sequence[Path]], tuple[np.ndarray, np.ndarray]
]  # files of a split -> images, labels


def read_mnist(paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, 1, H, W] uint8 and labels [N] int64 of an image file and a label file."""
    images, labels = (read_idx(path) for path in paths)
    for path, array, dims in zip(paths, (images, labels), (3, 1), strict=True):
        if array.ndim != dims or array.dtype != np.uint8:
            raise DataError(
                f"{path}: expected a uint8 array of {dims} dimensions, "
                f"found {array.dtype} {list(array.shape)}: is it another file under this name?"
            )
    return images[:, None], labels.astype(np.int64)


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set without reading it."""

    name: str
    classes: int
    shape: tuple[int, int, int]
    train_size: int
    test_size: int
    licence: str
    files: Mapping[str, tuple[str, ...]]  # split -> the files or folder that it is made of
    read: Reader | None = None  # None: a tree of image files
    class_names: tuple[str, ...] = ()
    endings: tuple[str, ...] = ("",)  # each of `files` has one of these after its name
    folders: tuple[str, ...] = ()  # where `files` may lie below a data directory
    places: tuple[Path, ...] = ()  # folders elsewhere
    as_printed: bool = False  # pictures are prepared as the papers' texts say
    remote: tuple[RemoteFile, ...] = field(default=(), repr=False)
    mirrors: tuple[str, ...] = field(default=(), repr=False)

    def size(self, split: str) -> int:
        """Number of images of a split."""
        return self.train_size if split == "train" else self.test_size


_IDX = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_ZIPPED = ("", ".gz")
_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_GREY, _COLOUR = (1, 28, 28), (3, 32, 32)


def _idx_files(*checksums: str) -> tuple[RemoteFile, ...]:
    names = [f"{name}.gz" for split in ("train", "test") for name in _IDX[split]]
    return tuple(
        RemoteFile(name, checksum) for name, checksum in zip(names, checksums, strict=True)
    )


def _cifar(
    class_names: tuple[str, ...],
    read: Reader,
    unpacked: tuple[str, str],
    files: Mapping[str, tuple[str, ...]],
    checksum: str,
) -> DatasetInfo:
    """`unpacked` are the folders that the archives of the binary version and of the Python version unpack to."""
    name = f"cifar{len(class_names)}"
    return DatasetInfo(
        name, len(class_names), _COLOUR, 50_000, 10_000, "Krizhevsky 2009; no licence stated, for research",
        files, read, class_names,
        endings=(".bin", ""),
        folders=(name, *(f"{above}{folder}" for folder in unpacked for above in (f"{name}/", ""))),
        remote=(RemoteFile(f"cifar-{len(class_names)}-binary.tar.gz", checksum),),
        mirrors=("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
    )  # fmt: skip


_IMAGENET = DatasetInfo(
    "imagenet", 1_000, (3, 224, 224), 1_281_167, 50_000,
    "ILSVRC 2012, image-net.org; by agreement only",
    {"train": ("train",), "test": ("val",)}, folders=("imagenet",),
)  # fmt: skip

_ALL = (
    DatasetInfo(
        "mnist", 10, _GREY, 60_000, 10_000, "LeCun, Cortes, Burges; CC BY-SA 3.0", _IDX, read_mnist, _DIGITS,
        endings=_ZIPPED, folders=("mnist", "MNIST/raw"),
        remote=_idx_files(
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
    ),
    DatasetInfo(
        "mnist-mini", 10, _GREY, 10_000, 1_000, "part of MNIST, in this package; CC BY-SA 3.0", _IDX,
        read_mnist, _DIGITS, endings=_ZIPPED, places=(Path(__file__).parent / "mini",),
    ),
    DatasetInfo(
        "fashion-mnist", 10, _GREY, 60_000, 10_000, "Xiao, Rasul, Vollgraf (Zalando); MIT", _IDX, read_mnist,
        _CLOTHES,
        endings=_ZIPPED, folders=("fashion-mnist", "FashionMNIST/raw"),
        places=(Path("/usr/share/datasets/fashion-mnist"),),  # Debian's package dataset-fashion-mnist
        remote=_idx_files(
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
        mirrors=(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
    ),
    _cifar(
        CIFAR10_CLASSES, read_cifar10, ("cifar-10-batches-bin", "cifar-10-batches-py"),
        {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
    _cifar(
        CIFAR100_CLASSES, read_cifar100, ("cifar-100-binary", "cifar-100-python"),
        {"train": ("train",), "test": ("test",)},
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    ),
    _IMAGENET,
    replace(_IMAGENET, name="imagenet-printed", as_printed=True),
    DatasetInfo(
        "imagenet32", 1_000, _COLOUR, 1_281_167, 50_000, "as ImageNet, at 32x32 pixels; by agreement only",
        {"train": tuple(f"train_data_batch_{i}.npz" for i in range(1, 11)), "test": ("val_data.npz",)},
        read_imagenet32, folders=("imagenet32", "Imagenet32_train_npz", "Imagenet32_val_npz"),
    ),
)  # fmt: skip

DATASETS: dict[str, DatasetInfo] = {info.name: info for info in _ALL}
