import errno
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.data.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES, read_cifar10, read_cifar100
from smoothcert.errors import DataError

from .test_array_pickle import python_2


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from([1, 2]), st.integers(0, 99)
)
def test_records_come_back_in_order(tmp_path_factory, counts, label_bytes, seed):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (sum(counts), 3, 32, 32)).astype(np.uint8)
    labels = rng.integers(0, 100, (sum(counts), label_bytes)).astype(np.uint8)
    records = [bytes(label) + image.tobytes() for label, image in zip(labels, images, strict=True)]
    paths = []
    for i, count in enumerate(counts):
        paths.append(tmp_path_factory.getbasetemp() / f"batch_{i}.bin")
        paths[-1].write_bytes(b"".join(records[:count]))
        records = records[count:]
    found_images, found_labels = (read_cifar10 if label_bytes == 1 else read_cifar100)(paths)
    assert np.array_equal(found_images, images)
    assert found_labels.dtype == np.int64
    assert np.array_equal(found_labels, labels[:, -1])


@pytest.mark.parametrize("read", [read_cifar10, read_cifar100])
@pytest.mark.parametrize("change", [-1, 1, -3000])
def test_a_file_of_another_length_is_refused_by_name(tmp_path, read, change):
    length = 3073 if read is read_cifar10 else 3074
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(bytes(2 * length + change))
    with pytest.raises(
        DataError, match=f"data_batch_1.bin: .* {length}-byte records, found {2 * length + change}"
    ):
        read([path])


def test_an_empty_or_missing_file_is_refused(tmp_path):
    (tmp_path / "empty.bin").touch()
    with pytest.raises(DataError, match="found 0 bytes"):
        read_cifar10([tmp_path / "empty.bin"])
    with pytest.raises(DataError, match=os.strerror(errno.ENOENT)):
        read_cifar10([tmp_path / "missing.bin"])


READERS = [(read_cifar10, "labels"), (read_cifar100, "fine_labels")]


def with_bytes(entries):
    return pickle.dumps({name.encode(): value for name, value in entries.items()}, 2)


@pytest.mark.parametrize(
    "write", [python_2, with_bytes, lambda entries: pickle.dumps(entries, 2), pickle.dumps]
)
@pytest.mark.parametrize(("read", "name"), READERS)
def test_the_python_version_holds_the_same(tmp_path, write, read, name):
    rng = np.random.default_rng(0)
    images, labels = (
        rng.integers(0, 256, (5, 3, 32, 32)).astype(np.uint8),
        rng.integers(0, 10, 5).tolist(),
    )
    for batch, rows in (("data_batch_1", slice(0, 3)), ("data_batch_2", slice(3, 5))):
        entries = {
            "batch_label": "a batch",
            name: labels[rows],
            "data": images[rows].reshape(-1, 3072),
        }
        (tmp_path / batch).write_bytes(write(entries))
    found = read([tmp_path / "data_batch_1", tmp_path / "data_batch_2"])
    assert np.array_equal(found[0], images)
    assert (found[1].dtype, found[1].tolist()) == (np.int64, labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data": np.zeros((2, 3072), np.int16)},
            r"uint8 and shape \['N', 3072\], found int16 \[2, 3072\]",
        ),
        ({"data": np.zeros((2, 3071), np.uint8)}, r"found uint8 \[2, 3071\]"),
        ({"data": [1, 2]}, "uint8 .* found none"),
        ({"labels": [1]}, "a list labels of 2 labels from 0 to 255, one per image, found 1 values"),
        ({"labels": [1, 256]}, "found 2 values"),
        ({"labels": [1, "cat"]}, "found 2 values"),
        ({"labels": None}, "found none"),
    ],
)
def test_a_pickle_of_something_else_is_refused_by_name(tmp_path, changes, message):
    entries = {"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2], **changes}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(entries, 2))
    with pytest.raises(
        DataError, match=f"test_batch: expected .*{message}: delete the file and get it again"
    ):
        read_cifar10([tmp_path / "test_batch"])


def test_class_names():
    assert (len(CIFAR10_CLASSES), CIFAR10_CLASSES[3], CIFAR10_CLASSES[6]) == (10, "cat", "frog")
    assert (len(set(CIFAR100_CLASSES)), CIFAR100_CLASSES[19], CIFAR100_CLASSES[99]) == (
        100,
        "cattle",
        "worm",
    )
    assert sorted(CIFAR100_CLASSES) == list(CIFAR100_CLASSES)
