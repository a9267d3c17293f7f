import numpy as np
import pytest

from smoothcert.data import load_dataset
from smoothcert.errors import DataError

GREY = np.random.default_rng(0).integers(0, 256, (4, 5, 6)).astype(np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (4, 5, 6, 3)).astype(np.uint8)
LABELS = np.array([0, 2, 1, 0], np.uint8)


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (GREY, GREY[:, None]),
        (GREY[..., None], GREY[:, None]),
        (GREY[:, None], GREY[:, None]),
        (COLOUR, COLOUR.transpose(0, 3, 1, 2)),
        (COLOUR.transpose(0, 3, 1, 2), COLOUR.transpose(0, 3, 1, 2)),
        (COLOUR / 255, COLOUR.transpose(0, 3, 1, 2)),  # float64 on the 8-bit grid
        ((COLOUR / 255).astype(np.float32), COLOUR.transpose(0, 3, 1, 2)),
        (GREY / 256, (GREY[:, None] / 256).astype(np.float32)),
    ],
)
def test_every_layout_gives_channels_first(tmp_path, images, expected):
    np.savez(tmp_path / "a.npz", images=images, labels=LABELS)
    found = load_dataset(f"npz:{tmp_path / 'a.npz'}")
    assert found.images.dtype == expected.dtype
    assert np.array_equal(found.images, expected)
    assert (found.labels.tolist(), found.classes, found.name) == ([0, 2, 1, 0], 3, "npz:a.npz")
    shaped = load_dataset(f"npz:{tmp_path / 'a.npz'}", shape=expected.shape[1:], classes=9)
    assert (shaped.fingerprint(), shaped.classes) == (found.fingerprint(), 9)


@pytest.mark.parametrize(("images", "labels"), [("x_{}", "y_{}"), ("{}_images", "{}_labels")])
def test_splits_are_in_the_names_of_arrays(tmp_path, images, labels):
    parts = {"train": slice(0, 3), "test": slice(3, 4)}
    arrays = {images.format(split): GREY[rows] for split, rows in parts.items()}
    arrays |= {labels.format(split): LABELS[rows, None] for split, rows in parts.items()}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    assert len(load_dataset(f"npz:{tmp_path}/a.npz", "train")) == 3
    assert load_dataset(f"npz:{tmp_path}/a.npz", "test").labels.tolist() == [0]


def test_splits_may_be_files_and_labels_may_be_missing(tmp_path):
    np.savez(tmp_path / "train.npz", images=GREY, class_names=["a", "b", "c"])
    found = load_dataset(f"npz:{tmp_path}", "train")
    assert (found.labelled, found.classes, found.class_names) == (False, 3, ("a", "b", "c"))
    with pytest.raises(DataError, match=r"expected a split test or val .*found only train"):
        load_dataset(f"npz:{tmp_path}", "test")


@pytest.mark.parametrize(
    ("arrays", "shape", "message"),
    [
        (
            {"pictures": GREY},
            None,
            "expected images in an array test_images, x_test, images, x, found pictures",
        ),
        ({"x_train": GREY}, None, "expected a split test or val .* found only train"),
        ({"images": GREY.astype(np.int64)}, None, "expected uint8 .* found int64"),
        ({"images": GREY / 200}, None, r"expected pixels in \[0, 1\], found 1"),
        ({"images": GREY[0]}, None, r"expected shape .* found \[5, 6\]"),
        ({"images": COLOUR[:, :3]}, None, "expected 1 or 3 channels, first or last"),
        ({"images": COLOUR[..., [0, 1]]}, None, "expected 1 or 3 channels, first or last"),
        ({"images": COLOUR[:, :3]}, (3, 5, 6), "expected 1 or 3 channels, first or last"),
        ({"images": GREY, "labels": LABELS[:3]}, None, "one label per image, found 4 and 3"),
        (
            {"images": GREY, "labels": LABELS / 2},
            None,
            "expected one class number per image, found float64",
        ),
        (
            {"images": GREY, "labels": np.array([0, -1, 1, 2])},
            None,
            "found -1 for image 1: .*or give no label at all",
        ),
        ({"images": GREY, "labels": np.array([0, -5, 1, 2])}, None, "found -5 for image 1"),
        (
            {"images": GREY, "labels": LABELS, "class_names": ["a"]},
            None,
            "expected labels from 0 to 0, found 2",
        ),
        ({"images": np.array([[{}]], object)}, None, "a whole .npz file of plain arrays"),
    ],
)
def test_wrong_arrays_are_refused(tmp_path, arrays, shape, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load_dataset(f"npz:{tmp_path}/a.npz", shape=shape)


@pytest.mark.parametrize("content", [b"", b"PK\3\4 text", b"\x93NUMPY\1\0"])
def test_damaged_files_are_refused(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"a.npz: expected a"):
        load_dataset(f"npz:{tmp_path}/a.npz")


def test_a_file_cut_short_or_of_one_array_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=GREY)
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-30])
    np.save(tmp_path / "c.npy", GREY)
    for name, message in (("b.npz", "a whole .npz file"), ("c.npy", "found a single array")):
        with pytest.raises(DataError, match=message):
            load_dataset(f"npz:{tmp_path}/{name}")


def test_class_names_in_another_order_than_the_networks_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=GREY, labels=LABELS, class_names=["cat", "dog", "owl"])
    place = f"npz:{tmp_path}/a.npz"
    assert load_dataset(
        place, classes=3, class_names=["Cat", "Dog", "Owl, bird"]
    ).labels.tolist() == [0, 2, 1, 0]
    with pytest.raises(
        DataError, match="class 0 is 'cat' in the data, which is class 1 of the network"
    ):
        load_dataset(place, classes=3, class_names=["dog", "cat", "owl"])


def test_a_known_set_is_not_for_a_network_of_another_order():
    names = load_dataset("mnist-mini").class_names
    assert load_dataset("mnist-mini", classes=10, class_names=names).class_names == names
    with pytest.raises(
        DataError, match=r"class 0 is .* in the data, which is class 9 of the network"
    ):
        load_dataset("mnist-mini", classes=10, class_names=names[::-1])
