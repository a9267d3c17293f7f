"""Pictures in a page: PNG by hand, judged by Pillow, and which inputs are shown."""

import io
from base64 import b64decode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from smoothcert.errors import DataError
from smoothcert.png import data_uri, encode_png, shrink
from smoothcert.report.page.gallery import BUDGET, KINDS, build_gallery, pick

Image = pytest.importorskip("PIL.Image", reason="Pillow judges our PNG files")


def decode(png):
    image = Image.open(io.BytesIO(png))
    array = np.asarray(image)
    return array[None] if image.mode == "L" else array.transpose(2, 0, 1)


@given(
    st.tuples(st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9)).flatmap(
        lambda shape: arrays.arrays(np.uint8, shape)
    )
)
def test_png_holds_the_very_pixels(pixels):
    assert (decode(encode_png(pixels)) == pixels).all()


@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 2, 1)])
def test_png_of_a_smooth_image_is_packed_by_the_filter_along_it(axes):
    """Rows, or columns, that differ by a constant from their neighbours: one filter makes them plain."""
    rough = np.random.default_rng(0).integers(0, 256, (3, 1, 64))
    pixels = ((rough + 3 * np.arange(64)[None, :, None]) % 256).astype(np.uint8).transpose(axes)
    png = encode_png(np.ascontiguousarray(pixels))
    assert len(png) < 450  # of 12,288 pixel values; the other filter needs more than 550
    assert (decode(png) == pixels).all()


def test_floats_and_large_images():
    half = np.full((1, 4, 4), 0.5, np.float32)
    png = b64decode(data_uri(half).removeprefix("data:image/png;base64,"))
    assert (decode(png) == 128).all()
    large = np.zeros((3, 224, 100), np.uint8)
    large[:, :112] = 200
    small = shrink(large, 64)
    assert small.shape == (3, 56, 25)
    assert set(np.unique(small)) == {0, 200}
    assert shrink(np.zeros((1, 500, 1), np.uint8), 64).shape == (1, 62, 1)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((2, 4, 4), np.uint8), r"found \[2, 4, 4\]"),
        (np.zeros((4, 4), np.uint8), "shape"),
        (np.zeros((3, 0, 4), np.uint8), "shape"),
        (np.zeros((1, 4, 4), np.int64), "found int64"),
    ],
)
def test_what_is_no_image(image, words):
    with pytest.raises(DataError, match=words):
        data_uri(image)


@pytest.fixture
def mixed(make):
    """Ten inputs of three classes: 0..5 correct, 6 and 7 wrong, 8 and 9 abstained."""
    label = np.array([0, 0, 0, 1, 1, 2, 0, 1, 2, 2])
    predict = np.array([0, 0, 0, 1, 1, 2, 1, 2, -1, -1])
    radius = [0.9, 0.8, 0.7, 0.3, 0.2, 0.1, 0.5, 0.6, 0.0, 0.0]
    counts = np.array(["1:30,0:70"] * 10, object)
    return make(
        radius, predict == label, label=label, predict=predict, counts=counts, idx=np.arange(10) * 5
    )


def test_pick(mixed):
    assert pick(mixed, "most", 6) == [0, 1, 2, 3, 4, 5]
    assert pick(mixed, "least", 6) == [5, 4, 3, 2, 1, 0]
    assert pick(mixed, "wrong", 9) == [7, 6]
    assert pick(mixed, "abstained", 9) == [8, 9]
    assert pick(mixed, "most", 3) == [0, 3, 5]  # every class before one comes twice
    assert pick(mixed, "most", 4) == [0, 1, 3, 5]


class Pictures:
    class_names = ("cat", "dog", "fish")

    def __init__(self, labels=None, seed=0, side=8):
        self.pixels = np.random.default_rng(seed).integers(0, 256, (50, 3, side, side), np.uint8)
        if labels is not None:
            self.labels = labels

    def image(self, i):
        return self.pixels[i]


def test_gallery_has_a_card_for_each_kind_and_one_picture_an_input(mixed):
    gallery = build_gallery([mixed, mixed], {"run": Pictures()})
    assert gallery.names == ("cat", "dog", "fish")
    assert {card.kind for card in gallery.cards} == set(KINDS)
    assert {card.run for card in gallery.cards} == {0, 1}
    assert len(gallery.images) == 10
    worst = next(card for card in gallery.cards if card.kind == "wrong")
    assert (worst.index, worst.label, worst.predict, worst.radius) == (35, 1, 2, 0.6)
    assert (worst.counts, worst.samples) == (((0, 70), (1, 30)), 100)
    png = b64decode(gallery.images[worst.image].partition(",")[2])
    assert (decode(png) == Pictures().pixels[35]).all()


def test_the_same_runs_give_the_same_gallery(mixed):
    assert build_gallery([mixed], {"run": Pictures()}) == build_gallery(
        [mixed], {"run": Pictures()}
    )


def test_gallery_keeps_to_its_budget(make):
    runs = [make(np.linspace(0, 1, 400), name=f"r{i}", label=np.arange(400) % 10, correct=np.arange(400) % 3 > i)
            for i in range(2)]  # fmt: skip
    noise = np.random.default_rng(0).integers(
        0, 256, (400, 3, 64, 64), np.uint8
    )  # 16 kB each, however packed

    class Noise:
        def image(self, i):
            return noise[i]

    gallery = build_gallery(runs, {run.name: Noise() for run in runs})
    assert sum(map(len, gallery.images)) <= BUDGET
    assert len(gallery.cards) >= 16


def test_no_images_no_gallery(mixed):
    assert build_gallery([mixed], {}) is None
    assert build_gallery([mixed], {"another run": Pictures()}) is None


def test_images_of_another_data_set_are_noticed(mixed):
    labels = np.zeros(50, np.int64)
    labels[mixed.idx] = mixed.label
    assert build_gallery([mixed], {"run": Pictures(labels)}).problem == ""
    labels[5] = 2
    assert (
        "other labels than its certificates"
        in build_gallery([mixed], {"run": Pictures(labels)}).problem
    )


def test_too_few_images_cost_the_gallery_not_the_page(make):
    c = make([0.5], idx=np.array([70]))
    assert "no pictures" in build_gallery([c], {"run": Pictures()}).problem


def test_logs_have_no_counts(make):
    gallery = build_gallery([make([0.5])], {"run": Pictures()})
    assert (gallery.cards[0].counts, gallery.cards[0].samples) == ((), 0)
