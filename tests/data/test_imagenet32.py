import numpy as np
import pytest

from smoothcert.data.imagenet32 import read_imagenet32
from smoothcert.errors import DataError


def write(path, images, labels):
    np.savez(path, data=images, labels=labels, mean=np.zeros(3072))
    return path


def test_files_come_back_in_order_with_classes_from_zero(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 3072)).astype(np.uint8)
    labels = np.array([1, 1000, 7, 2, 3])
    paths = [
        write(tmp_path / "a.npz", images[:2], labels[:2]),
        write(tmp_path / "b.npz", images[2:], labels[2:]),
    ]
    found, classes = read_imagenet32(paths)
    assert np.array_equal(found, images.reshape(5, 3, 32, 32))
    assert classes.tolist() == [0, 999, 6, 1, 2]
    assert classes.dtype == np.int64


def test_other_files_are_refused_and_pickles_never_opened(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "b.npz", data=np.zeros((2, 3072), np.uint8))
    write(tmp_path / "c.npz", np.zeros((2, 3072), np.uint8), np.array([1, {}], dtype=object))
    for name in ("a.npz", "b.npz", "c.npz", "missing.npz"):
        with pytest.raises(DataError, match=f"{name}: expected the arrays data and labels"):
            read_imagenet32([tmp_path / name])
    write(tmp_path / "d.npz", np.zeros((2, 3072), np.float32), np.ones(2, np.int64))
    with pytest.raises(
        DataError, match=r"expected uint8 images of shape \[2, 3072\].*found float32"
    ):
        read_imagenet32([tmp_path / "d.npz"])
