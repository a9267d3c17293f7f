"""Files of pseudo-labelled images: read without running anything they say, or refused with what was expected."""

import contextlib
import errno
import os
import pickle

import numpy as np
import pytest
from hypothesis import given

from smoothcert.data import Dataset
from smoothcert.data.pseudo_labels import read_pseudo_labelled
from smoothcert.errors import DataError
from tests.data.pickles import Call, content, with_a_byte_changed


def colour(size=12, seed=0):
    """What a CIFAR-10 run trains on."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (size, 3, 32, 32)).astype(np.uint8)
    return Dataset("cifar10", "train", images, rng.integers(0, 10, size), 10)


@given(with_a_byte_changed())
def test_a_file_with_any_byte_changed_has_images_of_the_right_shape_or_is_refused(
    tmp_path_factory, written
):
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(written)
    with contextlib.suppress(DataError):
        assert read_pseudo_labelled(path, colour()).images.shape == (1, 3, 32, 32)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_file_of_the_same_arrays_is_read(tmp_path, save):
    wanted = content()
    save(
        tmp_path / "file.npz",
        data=wanted["data"],
        extrapolated_targets=wanted["extrapolated_targets"],
    )
    (tmp_path / "pickle").write_bytes(pickle.dumps(wanted))
    one, two = (read_pseudo_labelled(tmp_path / name, colour()) for name in ("file.npz", "pickle"))
    assert one.fingerprint() == two.fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data": content()["data"].astype(np.int32)},
            r"uint8 and shape \['N', 32, 32, 3\].*cifar10.*int32",
        ),
        (
            {"data": content()["data"].transpose(0, 3, 1, 2).copy()},
            r"found uint8 \[20, 3, 32, 32\]",
        ),
        ({"data": content()["data"][:, :28]}, r"found uint8 \[20, 28, 32, 3\]"),
        ({"data": content()["data"].reshape(20, -1)}, r"found uint8 \[20, 3072\]"),
        ({"data": [[1, 2], [3, 4]]}, "no array data, but the entries .*'ti_index'"),
        ({"data": np.array([None, 1])}, "type 'O8', which is no plain number"),
        (
            {"extrapolated_targets": np.arange(20) / 10},
            r"20 integers, one per image, found float64 \[20\]",
        ),
        (
            {"extrapolated_targets": np.arange(19) % 10},
            r"20 integers, one per image, found int64 \[19\]",
        ),
        ({"extrapolated_targets": np.zeros((20, 1), int)}, r"found int64 \[20, 1\]"),
        ({"extrapolated_targets": np.arange(20)}, "labels from 0 to 9, found 10 for image 10"),
        (
            {"extrapolated_targets": np.arange(20) % 10 - 1},
            "labels from 0 to 9, found -1 for image 0",
        ),
    ],
)
@pytest.mark.parametrize("protocol", [2, 5])
def test_arrays_that_do_not_fit_are_named(tmp_path, changes, message, protocol):
    (tmp_path / "file").write_bytes(pickle.dumps(content(**changes), protocol))
    with pytest.raises(DataError, match=message):
        read_pseudo_labelled(tmp_path / "file", colour())


def test_other_files_are_named(tmp_path):
    with pytest.raises(
        DataError, match=rf"nothing: expected a readable file.*{os.strerror(errno.ENOENT)}"
    ):
        read_pseudo_labelled(tmp_path / "nothing", colour())
    np.savez(
        tmp_path / "few.npz", **{name: content()[name] for name in ("data", "extrapolated_targets")}
    )
    with pytest.raises(
        DataError, match="at least a whole batch of 30 pseudo-labelled images, found 20"
    ):
        read_pseudo_labelled(tmp_path / "few.npz", colour(), least=30)
    np.savez(tmp_path / "other.npz", images=content()["data"])
    objects = np.array([Call(os.system, f"touch {tmp_path / 'owned'}")])
    np.savez(tmp_path / "objects.npz", data=objects, extrapolated_targets=np.zeros(1, int))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "few.npz").read_bytes()[:5000])
    for name in ("other.npz", "objects.npz", "cut.npz"):
        with pytest.raises(
            DataError,
            match=f"{name}: expected an .npz file of the arrays data and extrapolated_targets",
        ):
            read_pseudo_labelled(tmp_path / name, colour())
    assert not (tmp_path / "owned").exists()
