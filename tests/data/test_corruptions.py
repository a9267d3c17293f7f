"""CIFAR-10-C and MNIST-C as they are published: folders of .npy files."""

import numpy as np
import pytest

from smoothcert.data.corruptions import (
    CORRUPTIONS,
    EXTRA,
    benchmarks_of,
    check_corrupted,
    load_corrupted,
    read_cifar10_c,
    read_mnist_c,
)
from smoothcert.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def cifar(tmp_path_factory):
    """Pixel (0, 0) of row i is (i // 256, i % 256, 7); stored sparsely, as 150 MB of zeros would be slow."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "CIFAR-10-C"
    folder.mkdir()
    images = np.lib.format.open_memmap(folder / "fog.npy", "w+", np.uint8, (50_000, 32, 32, 3))
    for i in (0, 9_999, 10_000, 20_000, 20_001, 29_999, 49_999):
        images[i, 0, 0] = (i // 256, i % 256, 7)
    images.flush()
    np.save(folder / "labels.npy", (np.arange(50_000) % 10).astype(np.uint8))
    return root


@pytest.fixture
def mnist(tmp_path):
    folder = tmp_path / "mnist_c" / "zigzag"
    folder.mkdir(parents=True)
    images = np.zeros((6, 28, 28, 1), np.uint8)
    images[2, 3, 4] = 99
    np.save(folder / "test_images.npy", images)
    np.save(folder / "test_labels.npy", np.arange(6))
    return tmp_path


@pytest.mark.parametrize(
    ("severity", "rows"), [(1, (0, 9_999)), (3, (20_000, 29_999)), (5, (40_000, 49_999))]
)
def test_severity_is_a_range_of_rows(cifar, severity, rows):
    found = load_corrupted("cifar10-c", "fog", severity, cifar)
    assert (found.name, found.split, found.classes, len(found)) == (
        "cifar10-c",
        f"fog/{severity}",
        10,
        10_000,
    )
    assert found.images.shape == (10_000, 3, 32, 32)
    assert found.images.dtype == np.uint8
    assert found.images.flags.c_contiguous
    assert found.images.flags.writeable  # torch.from_numpy warns of anything else
    for position, row in zip((0, -1), rows, strict=True):
        if row not in (0, 9_999, 20_000, 29_999, 49_999):
            continue
        assert found.image(position)[:, 0, 0].tolist() == [row // 256, row % 256, 7]
    assert found.labels.tolist() == [i % 10 for i in range(10_000)]
    assert found.labels.dtype == np.int64
    assert found.class_names[3] == "cat"


def test_mnist_c(mnist):
    found = load_corrupted("mnist-c", "zigzag", data_dir=mnist)
    assert (found.name, found.split, found.images.shape) == ("mnist-c", "zigzag", (6, 1, 28, 28))
    assert found.image(2)[0, 3, 4] == 99
    assert found.labels.tolist() == list(range(6))


def test_place_can_come_from_the_environment(mnist, monkeypatch):
    monkeypatch.setenv("SMOOTHCERT_DATA", str(mnist))
    assert len(load_corrupted("mnist-c", "zigzag")) == 6


def test_each_benchmark_has_15_types_in_its_means():
    assert {name: len(set(types)) for name, types in CORRUPTIONS.items()} == {
        "cifar10-c": 15,
        "mnist-c": 15,
    }
    assert not {*CORRUPTIONS["mnist-c"]} & {*EXTRA["mnist-c"]}


@pytest.mark.parametrize(
    ("types", "graded", "found"),
    [
        ({"fog", "snow"}, False, ("cifar10-c",)),
        ({"fog", "zigzag"}, False, ("mnist-c",)),
        ({"fog", "saturate"}, False, ("cifar10-c",)),
        ({"fog", "identity"}, False, ("mnist-c",)),
        ({"fog", "spatter"}, False, ("mnist-c",)),  # CIFAR-10-C has it too, but beside its 15
        ({"fog"}, False, ("cifar10-c", "mnist-c")),
        ({"fog"}, True, ("cifar10-c",)),  # MNIST-C has no severities
        ({"fog", "snow", "snwo"}, True, ("cifar10-c",)),
        ({"fog", "rain", "night"}, True, ()),
        ({"rain"}, False, ()),
    ],
)
def test_logs_are_of_the_benchmark_that_has_their_types(types, graded, found):
    assert benchmarks_of(types, graded) == found


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("cifar-c", "fog", 1), ConfigError, "did you mean cifar10-c"),
        (("cifar10-c", "fogg", 1), ConfigError, "did you mean fog"),
        (("cifar10-c", "fog"), ConfigError, "severities 1 to 5, found None"),
        (("cifar10-c", "fog", 6), ConfigError, "found 6"),
        (("cifar10-c", "snow", 1), DataError, r"snow\.npy: no such file"),
        (("mnist-c", "fog"), DataError, "mnist-c was not found; looked in"),
    ],
)
def test_what_is_asked_for_wrongly(cifar, monkeypatch, tmp_path, arguments, error, words):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(error, match=words):
        load_corrupted(*arguments, data_dir=cifar)


def test_mnist_c_has_no_severity(mnist):
    with pytest.raises(ConfigError, match="leave it out"):
        load_corrupted("mnist-c", "zigzag", 1, mnist)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (
            "test_images.npy",
            np.zeros((6, 28, 28), np.uint8),
            r"shape \[N, 28, 28, 1\], found uint8 \[6, 28, 28\]",
        ),
        ("test_images.npy", np.zeros((6, 28, 28, 1), np.float32), "whole numbers"),
        (
            "test_images.npy",
            np.zeros((6, 28, 28, 1), np.int64),
            "expected images of type uint8, found int64",
        ),
        ("test_labels.npy", np.arange(5), r"shape \[6\], found int64 \[5\]"),
        ("test_labels.npy", np.arange(10, 16), "expected labels from 0 to 9"),
        (
            "test_labels.npy",
            np.array([object()] * 6, object),
            "expected a .npy array",
        ),  # a pickle is never run
        ("test_labels.npy", b"", "expected a .npy array"),
        ("test_labels.npy", b"\x93NUMPY\x01\x00v\x00{'descr'", "expected a .npy array"),
        ("test_labels.npy", None, "is the benchmark unpacked completely"),
    ],
)
def test_damaged_files(mnist, file, content, words):
    path = mnist / "mnist_c" / "zigzag" / file
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(DataError, match=words):
        read_mnist_c(mnist / "mnist_c", "zigzag")


def test_archive_under_the_name_of_an_array(mnist):
    path = mnist / "mnist_c" / "zigzag" / "test_labels.npy"
    with path.open("wb") as file:
        np.savez(file, a=np.arange(6))
    with pytest.raises(DataError, match="found an archive"):
        read_mnist_c(mnist / "mnist_c", "zigzag")


def test_half_a_benchmark(cifar, tmp_path):
    np.save(tmp_path / "fog.npy", np.zeros((10_000, 1, 1, 3), np.uint8))
    with pytest.raises(DataError, match=r"shape \[50000, 32, 32, 3\]"):
        read_cifar10_c(tmp_path, "fog", 1)


def test_all_that_is_missing_is_told_together_then_what_is_damaged(mnist):
    folder = mnist / "mnist_c"
    kinds = ("fog", "zigzag", "canny_edges")
    images, labels = (
        (folder / "zigzag" / f"test_{name}.npy").read_bytes() for name in ("images", "labels")
    )
    (folder / "canny_edges").mkdir()
    (folder / "canny_edges" / "test_labels.npy").write_bytes(labels)
    with pytest.raises(DataError) as missing:
        check_corrupted("mnist-c", kinds, data_dir=mnist)
    paths = [folder / "fog" / "test_images.npy", folder / "fog" / "test_labels.npy"]
    listed = "".join(f"\n  {path}" for path in [*paths, folder / "canny_edges" / "test_images.npy"])
    assert (
        str(missing.value)
        == f"mnist-c is not complete; not found:{listed}\nUnpack the benchmark again"
    )
    (folder / "fog").mkdir()
    for path in paths:
        path.write_bytes(images if path.stem == "test_images" else labels)
    (folder / "canny_edges" / "test_images.npy").write_bytes(images[:-1])
    with pytest.raises(DataError, match=r"canny_edges.test_images\.npy: expected a \.npy array"):
        check_corrupted("mnist-c", kinds, data_dir=mnist)
    (folder / "canny_edges" / "test_images.npy").write_bytes(images)
    check_corrupted("mnist-c", kinds, data_dir=mnist)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mnist-c", ["zigzag"], 0), "no severities, found severity 0"),
        (("cifar10-c", ["fog"], 0), "the severities 1 to 5, found 0"),
        (("cifar10-c", ["fog", "fogg"], 1), "did you mean fog"),
    ],
)
def test_names_and_severities_are_checked_before_files(tmp_path, arguments, words):
    with pytest.raises(ConfigError, match=words):
        check_corrupted(*arguments, data_dir=tmp_path)
