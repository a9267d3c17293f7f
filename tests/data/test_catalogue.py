import dataclasses
import os
import pickle
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest

from smoothcert.data import DATASETS, Dataset, ImageFolder, load_dataset
from smoothcert.data.catalogue import locate
from smoothcert.data.download import RemoteFile
from smoothcert.data.idx import read_idx, write_idx
from smoothcert.errors import ConfigError, DataError

from .web import archive, serve

IDX = (
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A machine of its own: no data anywhere, and no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SMOOTHCERT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    for name, info in DATASETS.items():
        places = () if name == "fashion-mnist" else info.places
        monkeypatch.setitem(DATASETS, name, dataclasses.replace(info, mirrors=(), places=places))
    return tmp_path


def mnist_test_split(folder, suffix=".gz", count=10_000):
    folder.mkdir(parents=True)
    write_idx(folder / f"{IDX[0]}{suffix}", np.zeros((count, 28, 28), np.uint8))
    write_idx(folder / f"{IDX[1]}{suffix}", (np.arange(count) % 10).astype(np.uint8))


PLACES = {
    "mnist": {"mnist": "", "MNIST/raw": ".gz"},
    "fashion-mnist": {"fashion-mnist": ".gz", "FashionMNIST/raw": ""},
}


@pytest.mark.parametrize(
    ("name", "below", "suffix"),
    [(name, *place) for name, places in PLACES.items() for place in places.items()],
)
def test_idx_sets_are_found_plain_and_zipped(home, name, below, suffix):
    mnist_test_split(home / "data" / below, suffix)
    data = load_dataset(name, "test", home / "data", download=False)
    assert isinstance(data, Dataset)
    assert (data.name, data.split, len(data), data.shape, data.classes) == (
        name,
        "test",
        10_000,
        (1, 28, 28),
        10,
    )
    assert len(data.class_names) == 10
    assert data.labels[:12].tolist() == [*range(10), 0, 1]
    assert locate(name, home / "data") == home / "data" / below
    with pytest.raises(DataError, match="train split"):
        load_dataset(name, "train", home / "data", download=False)


def test_places_are_searched_in_order(home, monkeypatch):
    places = [home / "argument", home / "variable", home / "cache" / "smoothcert", home / "debian"]
    monkeypatch.setenv("SMOOTHCERT_DATA", str(places[1]))
    info = dataclasses.replace(DATASETS["fashion-mnist"], places=(places[3] / "fashion-mnist",))
    monkeypatch.setitem(DATASETS, "fashion-mnist", info)
    assert locate("fashion-mnist", places[0]) is None
    for place in reversed(places):
        mnist_test_split(place / "fashion-mnist", count=1)
        assert locate("fashion-mnist", places[0]) == place / "fashion-mnist"
    assert locate("fashion-mnist") == places[1] / "fashion-mnist"


@pytest.mark.parametrize(
    ("name", "below", "file", "record"),
    [
        ("cifar10", "cifar10", "test_batch.bin", 3073),
        ("cifar10", "cifar-10-batches-bin", "test_batch.bin", 3073),
        ("cifar100", "cifar100", "test.bin", 3074),
        ("cifar100", "cifar-100-binary", "test.bin", 3074),
    ],
)
def test_cifar_is_found_and_its_size_checked(home, name, below, file, record):
    path = home / "data" / below / file
    path.parent.mkdir(parents=True)
    path.touch()
    os.truncate(path, 10_000 * record)
    data = load_dataset(name, "test", home / "data")
    assert (len(data), data.shape, data.classes) == (
        10_000,
        (3, 32, 32),
        10 if name == "cifar10" else 100,
    )
    os.truncate(path, 9_999 * record)
    with pytest.raises(
        DataError, match=rf"{below}: expected the 10000 test images of {name}.* found 9999"
    ):
        load_dataset(name, "test", home / "data")


@pytest.mark.parametrize(
    ("name", "below", "file", "labels"),
    [
        ("cifar10", "cifar-10-batches-py", "test_batch", "labels"),
        ("cifar10", "cifar10/cifar-10-batches-py", "test_batch", "labels"),
        ("cifar100", "cifar-100-python", "test", "fine_labels"),
        ("cifar100", "cifar100/cifar-100-python", "test", "fine_labels"),
    ],
)
def test_the_cifar_files_of_torchvision_are_found(home, name, below, file, labels):
    path = home / "data" / below / file
    path.parent.mkdir(parents=True)
    entries = {labels: [3] * 10_000, "data": np.zeros((10_000, 3072), np.uint8)}
    path.write_bytes(pickle.dumps(entries, 2))
    data = load_dataset(name, "test", home / "data", download=False)
    assert (len(data), data.shape, data.labels[-1]) == (10_000, (3, 32, 32), 3)
    assert locate(name, home / "data") == path.parent
    with pytest.raises(DataError, match="the train split"):
        load_dataset(name, "train", home / "data", download=False)


def test_cifar_that_is_nowhere_names_the_files_of_both_versions(home):
    (home / "cifar100" / "train").mkdir(parents=True)  # a folder of pictures, say, is none of them
    with pytest.raises(
        DataError, match=r"the train split \(train.bin or train\) was not found; looked in"
    ) as caught:
        load_dataset("cifar100", "train", home, download=False)
    assert str(home / "cifar-100-python") in str(caught.value)
    with pytest.raises(
        DataError, match=r"data_batch_5.bin or data_batch_1, .*data_batch_5\) was not found"
    ):
        load_dataset("cifar10", "train", home, download=False)


def test_files_of_another_set_are_refused(home):
    folder = home / "mnist"
    mnist_test_split(folder, "")
    write_idx(folder / IDX[0], np.zeros((10_000, 27, 28), np.uint8))
    with pytest.raises(DataError, match=r"each \[1, 28, 28\], found 10000, each \[1, 27, 28\]"):
        load_dataset("mnist", "test", home)
    write_idx(folder / IDX[0], np.zeros((10_000, 784), np.uint8))
    with pytest.raises(
        DataError, match=r"images-idx3-ubyte: expected a uint8 array of 3 dimensions"
    ):
        load_dataset("mnist", "test", home)


def test_a_set_that_is_nowhere_names_every_place(home):
    with pytest.raises(DataError) as caught:
        load_dataset("mnist", "test", home / "data", download=False)
    for place in ("data/mnist", "data/MNIST/raw", "cache/smoothcert/mnist"):
        assert str(home / place) in str(caught.value)
    assert "t10k-images-idx3-ubyte" in str(caught.value)
    assert f"`train` download it to {home / 'data' / 'mnist'}. Or put the files into one" in str(
        caught.value
    )
    assert "as data_dir or in $SMOOTHCERT_DATA" in str(caught.value)


def test_imagenet_is_a_folder_tree_and_cannot_be_downloaded(home):
    image = pytest.importorskip("PIL.Image").new("RGB", (30, 20))
    with pytest.raises(
        DataError,
        match=r"(?s)imagenet: the test split \(val\).*cannot be downloaded.*imagenet/val/",
    ):
        load_dataset("imagenet", "test", home / "data")
    for split in ("val/n01", "val/n02"):
        (home / "data" / "imagenet" / split).mkdir(parents=True)
        image.save(home / "data" / "imagenet" / split / "a.JPEG")
    data = load_dataset("imagenet", "test", home / "data")
    assert isinstance(data, ImageFolder)
    assert (data.name, data.split, len(data), data.classes) == ("imagenet", "test", 2, 2)
    assert locate("imagenet", home / "data") == home / "data" / "imagenet"


def test_misspelt_names_are_answered_with_the_nearest():
    with pytest.raises(
        ConfigError, match="unknown dataset 'fashion_mnist': did you mean fashion-mnist"
    ):
        load_dataset("fashion_mnist")
    with pytest.raises(ConfigError, match="unknown dataset 'cifar'"):
        locate("cifar")
    with pytest.raises(ConfigError, match="split is one of train, test, found 'val'"):
        load_dataset("mnist-mini", "val")


def publish(monkeypatch, name, url, site, **changes):
    """Let the catalogue download `name` from a local server, with the checksums of what lies there."""
    remote = [
        RemoteFile(path.name, sha256(path.read_bytes()).hexdigest())
        for path in sorted(site.iterdir())
    ]
    info = dataclasses.replace(DATASETS[name], mirrors=(url,), remote=tuple(remote), **changes)
    monkeypatch.setitem(DATASETS, name, info)


def test_idx_files_are_downloaded_once_into_the_data_directory(home, monkeypatch):
    site = home / "site"
    mnist_test_split(site, count=20)
    for test, train in zip(IDX[:2], IDX[2:], strict=True):
        (site / f"{train}.gz").write_bytes((site / f"{test}.gz").read_bytes())
    with serve(site) as url:
        publish(monkeypatch, "mnist", url, site, train_size=20, test_size=20)
        data = load_dataset("mnist", "train", home / "data")
    assert len(data) == 20
    assert sorted(os.listdir(home / "data" / "mnist")) == sorted(f"{name}.gz" for name in IDX)
    again = load_dataset("mnist", "train", home / "data")  # the server is gone
    assert again.fingerprint() == data.fingerprint()


def test_archives_are_downloaded_into_the_cache_and_unpacked(home, monkeypatch):
    site = home / "site"
    site.mkdir()
    batches = [
        (f"cifar-10-batches-bin/data_batch_{i}.bin", bytes([i]) + bytes(3072)) for i in range(1, 6)
    ]
    tar = archive(
        site / "cifar-10-binary.tar.gz",
        *batches,
        ("cifar-10-batches-bin/test_batch.bin", bytes(3073)),
    )
    with serve(site) as url:
        publish(monkeypatch, "cifar10", url, site, train_size=5, test_size=1)
        assert load_dataset("cifar10", "train").labels.tolist() == [1, 2, 3, 4, 5]
    folder = home / "cache" / "smoothcert" / "cifar10"
    assert locate("cifar10") == folder
    for path in folder.glob("*.bin"):
        path.unlink()
    assert load_dataset("cifar10", "test").labels.tolist() == [
        0
    ]  # unpacked again, without the server
    assert (folder / tar.name).exists()


def test_a_failed_download_says_what_was_looked_for_and_where_to_put_it(home):
    folder = home / "data" / "MNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / f"{IDX[0]}.gz").touch()
    with pytest.raises(DataError) as caught:
        load_dataset("mnist", "test", home / "data")
    told = str(caught.value)
    assert told.startswith(
        f"mnist: the test split ({IDX[0]}, {IDX[1]} or {IDX[0]}.gz, {IDX[1]}.gz) was not found"
    )
    assert (
        f"\n  {home / 'data' / 'mnist'}\n  {folder} (it has {IDX[0]}.gz, but not {IDX[1]}.gz)\n"
        in told
    )
    assert f"\n{IDX[2]}.gz could not be downloaded; tried no mirror\n" in told
    assert (
        f"put it at {home / 'data' / 'mnist' / IDX[2]}.gz\nOr put the files into one of the folders above"
        in told
    )
    assert told.count("was not found") == 1


def test_a_folder_with_some_files_of_cifar_says_which_are_missing(home):
    folder = home / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").touch()
    for split, missing in (
        ("test", "test_batch"),
        ("train", "data_batch_2, data_batch_3, data_batch_4, data_batch_5"),
    ):
        for download in (True, False):
            with pytest.raises(
                DataError, match=rf"{folder} \(it has data_batch_1, but not {missing}\)\n"
            ):
                load_dataset("cifar10", split, home, download)


def test_the_facts_agree_with_themselves():
    for name, info in DATASETS.items():
        assert name == info.name
        assert set(info.files) == {"train", "test"}
        assert len(info.class_names) in (0, info.classes)
        assert (info.size("train"), info.size("test")) == (info.train_size, info.test_size)
        assert all(len(file.sha256) == 64 for file in info.remote)


@pytest.mark.parametrize(("split", "each"), [("train", 1000), ("test", 100)])
def test_mnist_mini_is_balanced_and_shows_digits(split, each):
    data = load_dataset("mnist-mini", split, download=False)
    assert (data.shape, data.eight_bit, data.classes) == ((1, 28, 28), True, 10)
    assert np.bincount(data.labels).tolist() == [each] * 10
    assert (
        data.labels[:5].tolist() == {"train": [5, 0, 4, 1, 9], "test": [7, 2, 1, 0, 4]}[split]
    )  # as MNIST begins
    pixels = data.images / 255
    assert 0.12 < pixels.mean() < 0.14  # MNIST: 0.1307
    assert 0.30 < pixels.std() < 0.32  # MNIST: 0.3081
    assert data.images[:, :, 0].max() < 255  # digits are centred
    ones, zeros = (pixels[data.labels == digit].mean((0, 1)) for digit in (1, 0))
    assert ones[14, 14] > 0.8 > 0.2 > zeros[14, 14]  # a one has ink in the middle, a zero a hole


def test_mnist_mini_is_small_and_made_by_its_script(home):
    from smoothcert.data.mini.make import PER_CLASS, make

    [folder] = DATASETS["mnist-mini"].places
    assert sum(path.stat().st_size for path in folder.glob("*.gz")) < 3_000_000
    (home / "out").mkdir()
    make(
        folder, home / "out"
    )  # the first 1,000 of 1,000 a class are all of them, in the same order
    assert set(PER_CLASS) == {"train", "t10k"}
    for path in folder.glob("*.gz"):
        assert np.array_equal(read_idx(home / "out" / path.name), read_idx(path))


def test_the_catalogue_needs_no_torch():
    load = "import sys, smoothcert.data as data; data.load_dataset('mnist-mini')"
    code = f"{load}; assert 'torch' not in sys.modules; data.Batches"
    subprocess.run([sys.executable, "-c", code], check=True)
    import smoothcert.data

    with pytest.raises(AttributeError, match="no attribute 'Batchez'"):
        _ = smoothcert.data.Batchez
