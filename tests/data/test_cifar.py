import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.data.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES, read_cifar10, read_cifar100
from smoothcert.errors import DataError


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from([1, 2]), st.integers(0, 99))
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
    with pytest.raises(DataError, match=f"data_batch_1.bin: .* {length}-byte records, found {2 * length + change}"):
        read([path])


def test_an_empty_or_missing_file_is_refused(tmp_path):
    (tmp_path / "empty.bin").touch()
    with pytest.raises(DataError, match="found 0 bytes"):
        read_cifar10([tmp_path / "empty.bin"])
    with pytest.raises(DataError, match="No such file"):
        read_cifar10([tmp_path / "missing.bin"])


def test_class_names():
    assert (len(CIFAR10_CLASSES), CIFAR10_CLASSES[3], CIFAR10_CLASSES[6]) == (10, "cat", "frog")
    assert (len(set(CIFAR100_CLASSES)), CIFAR100_CLASSES[19], CIFAR100_CLASSES[99]) == (100, "cattle", "worm")
    assert sorted(CIFAR100_CLASSES) == list(CIFAR100_CLASSES)
