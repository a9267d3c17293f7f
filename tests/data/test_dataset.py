import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.data import Dataset, from_torch
from smoothcert.errors import DataError


def small(**changes) -> Dataset:
    images = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    fields = {"images": images, "labels": np.array([0, 1]), "classes": 2} | changes
    return Dataset("toy", "test", **fields)


def test_a_data_set_gives_its_images_as_stored():
    data = small(class_names=("cat", "dog"))
    assert (len(data), data.shape, data.eight_bit) == (2, (3, 4, 5), True)
    assert np.array_equal(data.image(1), data.images[1])
    assert not small(images=np.zeros((2, 3, 4, 5), np.float32)).eight_bit


def with_pixel(value):
    images = np.full((2, 1, 4, 4), 0.5, np.float32)
    images[1, 0, 2, 3] = value
    return images


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"images": np.zeros((2, 1, 4, 4))},
            r"toy \(test\): expected images of type uint8 .* found float64",
        ),
        ({"images": np.zeros((2, 4, 4), np.uint8)}, r"\[N, C, H, W\], found \[2, 4, 4\]"),
        ({"images": np.zeros((3, 1, 4, 4), np.uint8)}, "one label per image, found 3 and 2"),
        (
            {"images": np.zeros((2, 1, 0, 4), np.uint8)},
            r"at least one image, found shape \[2, 1, 0, 4\]",
        ),
        (
            {"images": np.zeros((0, 1, 4, 4), np.uint8), "labels": np.zeros(0, np.int64)},
            "at least one image",
        ),
        ({"labels": np.array([0, 1], np.int32)}, r"labels of type int64 .* found int32 \[2\]"),
        ({"labels": np.array([[0], [1]])}, r"shape \[N\], found int64 \[2, 1\]"),
        ({"labels": np.array([0, 2])}, "labels from 0 to 1, found 2 for image 1"),
        ({"labels": np.array([-1, 2])}, "found -1 for image 0"),
        ({"class_names": ("cat",)}, "expected 2 class names or none, found 1"),
        ({"images": with_pixel(np.nan)}, r"pixels in \[0, 1\], found nan in image 1"),
        ({"images": with_pixel(np.inf)}, "found inf in image 1"),
        ({"images": with_pixel(1.5)}, "found 1.5 in image 1"),
        ({"images": with_pixel(-0.5)}, "found -0.5 in image 1"),
    ],
)
def test_a_wrong_data_set_is_refused(changes, message):
    with pytest.raises(DataError, match=message):
        small(**changes)


def test_the_fingerprint_names_type_shape_pixels_and_labels_alone():
    data = small()
    pixels = data.images.copy()
    pixels[1, 2, 3, 4] ^= 1
    others = [
        small(images=pixels),
        small(images=data.images.reshape(2, 3, 5, 4)),
        small(images=(data.images / 255).astype(np.float32)),
        small(labels=np.array([1, 1])),
    ]
    prints = {data.fingerprint(), *(other.fingerprint() for other in others)}
    assert len(prints) == 5
    assert all(len(text) == 64 for text in prints)
    assert dataclasses.replace(data, name="other", classes=7).fingerprint() == data.fingerprint()
    strided = np.asfortranarray(data.images)
    assert small(images=strided).fingerprint() == data.fingerprint()


class Pairs(torch.utils.data.Dataset):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


@given(st.data())
def test_eight_bit_images_come_back_from_torch_exactly(data):
    shape = data.draw(st.tuples(*[st.integers(1, 4)] * 4))
    pixels = (
        np.random.default_rng(data.draw(st.integers(0, 99)))
        .integers(0, 256, shape)
        .astype(np.uint8)
    )
    labels = [data.draw(st.integers(0, 9)) for _ in pixels]
    tensors = [torch.from_numpy(image) for image in pixels]
    for images in (
        tensors,
        [image.float() / 255 for image in tensors],
        [image.double() / 255 for image in tensors],
    ):
        copy = from_torch(Pairs(*zip(images, labels, strict=True)), "toy", 10, "train")
        assert copy.eight_bit
        assert np.array_equal(copy.images, pixels)
        assert copy.labels.tolist() == labels
        assert (copy.name, copy.split, copy.classes) == ("toy", "train", 10)


def test_images_off_the_grid_stay_float():
    image = torch.rand(1, 3, 3, generator=torch.Generator().manual_seed(0))
    copy = from_torch(Pairs((torch.zeros(1, 3, 3), 0), (image, torch.tensor(1))), "toy", 2)
    assert not copy.eight_bit
    assert np.array_equal(copy.image(1), image.numpy())
    assert copy.labels.tolist() == [0, 1]


GREY = torch.zeros(1, 4, 4)


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([(GREY, 0)])


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (Pairs(), "at least one image, found none"),
        (Endless(), "data set with a length"),
        (Pairs((GREY, 0), GREY), "found -1 for image 1: .*or give no label at all"),
        (Pairs({"image": GREY}), r"\(image, label\) pairs or images, found dict at item 0"),
        (Pairs((GREY.numpy(), 0)), "image tensors, found ndarray at item 0: add .*ToTensor"),
        (Pairs((GREY[0], 0)), r"shape \[C, H, W\].* found torch.float32 \[4, 4\] at item 0"),
        (Pairs((GREY.int(), 0)), "floating point or uint8, found torch.int32"),
        (
            Pairs((GREY, 0), (GREY[:, 1:], 0)),
            r"all images alike, found float32 \[1, 3, 4\] at item 1",
        ),
        (Pairs((GREY, 0), (GREY.byte(), 0)), r"found uint8 \[1, 4, 4\] at item 1"),
        (Pairs((GREY, 0), (GREY, 0.5)), r"integer labels, found 0.5 \(float\) at item 1"),
        (Pairs((GREY, True)), r"found True \(bool\)"),
        (Pairs((GREY, "cat")), r"found 'cat' \(str\)"),
        (Pairs((GREY, torch.tensor([1, 0]))), "integer labels"),
        (Pairs((GREY, 0), (GREY, 2)), "labels from 0 to 1, found 2 for image 1"),
        (Pairs((GREY, 0), (GREY + torch.nan, 0)), "found nan in image 1"),
        (Pairs((GREY - 1, 0)), r"pixels in \[0, 1\], found -1.0 in image 0"),
    ],
)
def test_a_torch_data_set_that_does_not_fit_is_refused(dataset, message):
    with pytest.raises(DataError, match=message):
        from_torch(dataset, "toy", 2)


def test_pictures_are_answered_with_the_missing_transform():
    picture = pytest.importorskip("PIL.Image").new("RGB", (4, 4))
    with pytest.raises(
        DataError, match=r"found Image at item 0: add transform=torchvision.transforms.ToTensor"
    ):
        from_torch(Pairs((picture, 0)), "toy", 2)
