import struct
import tarfile
import zlib

import numpy as np
import pytest

from smoothcert.data import ImageFolder, load_dataset
from smoothcert.data.preparation import random_part
from smoothcert.errors import DataError

Image = pytest.importorskip("PIL.Image")


def picture(width, height, seed=0):
    noise = (
        np.random.default_rng(seed)
        .integers(0, 256, (height // 10 + 1, width // 10 + 1, 3))
        .astype(np.uint8)
    )
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture
def tree(tmp_path):
    for name in ("n02/b.png", "n01/z.JPEG", "n01/a.png", "n02/sub/a.jpg"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(60, 50, seed=len(name)).save(path)
    (tmp_path / "n01" / "notes.txt").write_text("not an image")
    (tmp_path / "labels.csv").write_text("not a class")
    return tmp_path


def test_classes_and_files_are_in_the_fields_order(tree):
    folder = ImageFolder(tree, "toy", "test")
    assert [path.relative_to(tree).as_posix() for path in folder.files] == [
        "n01/a.png",
        "n01/z.JPEG",
        "n02/b.png",
        "n02/sub/a.jpg",
    ]
    assert folder.labels.tolist() == [0, 0, 1, 1]
    assert folder.labels.dtype == np.int64
    assert (folder.name, folder.split, folder.classes, folder.class_names) == (
        "toy",
        "test",
        2,
        ("n01", "n02"),
    )
    assert (len(folder), folder.shape, folder.eight_bit) == (4, (3, 224, 224), True)


def test_the_fingerprint_follows_names_and_sizes(tree):
    before = ImageFolder(tree).fingerprint()
    assert ImageFolder(tree).fingerprint() == before
    (tree / "n01" / "a.png").rename(tree / "n01" / "c.png")
    renamed = ImageFolder(tree).fingerprint()
    picture(61, 50).save(tree / "n01" / "c.png")
    assert len({before, renamed, ImageFolder(tree).fingerprint()}) == 3


@pytest.mark.parametrize(
    ("size", "resized", "corner"),
    [
        ((500, 300), (426, 256), (101, 16)),
        ((300, 500), (256, 426), (16, 101)),
        ((256, 256), (256, 256), (16, 16)),
        ((40, 33), (310, 256), (43, 16)),
    ],
)
def test_a_test_image_is_resized_and_cropped_in_the_centre(tmp_path, size, resized, corner):
    (tmp_path / "c").mkdir()
    original = picture(*size)
    original.save(tmp_path / "c" / "a.png")
    expected = np.asarray(original.resize(resized, Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    x, y = corner
    found = ImageFolder(tmp_path).image(0)
    assert found.dtype == np.uint8
    assert np.array_equal(found, expected[:, y : y + 224, x : x + 224])


def test_a_training_image_follows_its_generator(tree):
    folder = ImageFolder(tree)
    images = [folder.train_image(0, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert images[0].shape == (3, 224, 224)
    assert images[0].dtype == np.uint8
    assert np.array_equal(images[0], images[1])
    assert not np.array_equal(images[0], images[2])


def test_a_training_image_is_a_part_of_the_image_and_mirrored_half_of_the_time(tmp_path):
    (tmp_path / "c").mkdir()
    ramp = np.broadcast_to(
        np.arange(256, dtype=np.uint8)[None, :, None], (256, 256, 3)
    )  # brighter to the right
    Image.fromarray(np.ascontiguousarray(ramp)).save(tmp_path / "c" / "a.png")
    folder = ImageFolder(tmp_path)
    rises = []
    for seed in range(60):
        row = folder.train_image(0, np.random.default_rng(seed))[0, 100].astype(int)
        rises.append(row[-1] > row[0])
        steps = np.diff(row) if rises[-1] else -np.diff(row)
        assert steps.min() >= 0
        assert steps.max() <= 2
    assert 15 < sum(rises) < 45


def test_random_parts_are_as_large_and_as_long_as_they_should_be():
    rng = np.random.default_rng(0)
    shares, ratios = [], []
    for _ in range(2000):
        left, top, width, height = random_part(500, 400, rng)
        assert 0 <= left <= 500 - width
        assert 0 <= top <= 400 - height
        shares.append(width * height / (500 * 400))
        ratios.append(width / height)
    assert 0.078 < min(shares) < 0.1
    assert 0.95 < max(shares) <= 1
    assert 0.74 < min(ratios) < 0.76
    assert 1.32 < max(ratios) < 1.35
    assert abs(np.mean(np.log(ratios))) < 0.03  # log-uniform: square on average


@pytest.mark.parametrize(
    ("size", "expected"),
    [((1000, 10), (493, 0, 13, 10)), ((10, 1000), (0, 493, 10, 13)), ((1, 1), (0, 0, 1, 1))],
)
def test_an_image_too_long_for_any_part_gives_its_centre(size, expected):
    assert random_part(*size, np.random.default_rng(0)) == expected


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGBA", "P", "1", "LA"])
def test_every_colour_mode_becomes_rgb(tmp_path, mode):
    (tmp_path / "c").mkdir()
    name = "a.tif" if mode == "CMYK" else "a.png"
    options = {"transparency": bytes([0, 128, 255])} if mode == "P" else {}
    picture(256, 256).convert(mode).save(tmp_path / "c" / name, **options)
    image = ImageFolder(tmp_path).image(0)
    assert image.shape == (3, 224, 224)
    if mode in ("L", "1", "LA"):
        assert np.array_equal(image[0], image[1])


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"text" * 99]
)
@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_damaged_image_is_refused_by_name(tmp_path, name, damage):
    path = tmp_path / "c" / name
    path.parent.mkdir()
    picture(300, 300).save(path)
    path.write_bytes(damage(path.read_bytes()))
    folder = ImageFolder(tmp_path)
    for read in (folder.image, lambda i: folder.train_image(i, np.random.default_rng(0))):
        with pytest.raises(DataError, match=f"c/{name}: expected a readable picture"):
            read(0)


def test_orientation_is_passed_over_as_in_the_fields_code(tmp_path):
    """The published certificates of ImageNet are about images as torchvision reads them."""
    exif = Image.Exif()
    exif[0x0112] = 6
    for name, options in {"plain/a.jpg": {}, "turned/a.jpg": {"exif": exif}}.items():
        (tmp_path / name).parent.mkdir()
        picture(300, 260).save(tmp_path / name, **options)
    folder = ImageFolder(tmp_path)
    assert np.array_equal(folder.image(0), folder.image(1))


def test_frames_are_refused_by_name(tmp_path):
    (tmp_path / "c").mkdir()
    picture(300, 260).save(
        tmp_path / "c" / "a.tif", save_all=True, append_images=[picture(300, 260, 1)]
    )
    with pytest.raises(DataError, match=r"c/a.tif: expected one picture, found 2 frames"):
        ImageFolder(tmp_path).image(0)


def test_a_tree_that_is_none_is_refused(tmp_path):
    with pytest.raises(DataError, match="missing: expected a folder"):
        ImageFolder(tmp_path / "missing")
    with pytest.raises(DataError, match="found no sub-folder"):
        ImageFolder(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match=r"empty: expected images \(.jpg.* remove the folder if it is not a class"
    ):
        ImageFolder(tmp_path)


def test_more_than_8_bits_a_channel_are_refused(tmp_path):
    """Pillow would clip 16-bit grey values at 255, and drop the low half of 16-bit colours, without a word."""
    rows = b"".join(
        b"\0" + bytes(range(24)) for _ in range(4)
    )  # 4 x 4 pixels of 16-bit RGB, which Pillow cannot write
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    colour = b"".join(
        struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in chunks
    )
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + colour)
    Image.fromarray(np.full((30, 30), 3000, np.uint16)).save(folder / "b.png")
    images = ImageFolder(tmp_path)
    for i in range(2):
        with pytest.raises(DataError, match="8 bits per channel"):
            images.image(i)


@pytest.mark.parametrize("shards", [False, True])
def test_as_printed_test_images_are_256_x_256_whatever_their_shape(tmp_path, shards):
    """The name and the fingerprint say it, so that certificates of both do not mix."""
    original = picture(500, 300)
    (tmp_path / "imagenet" / "val" / "c").mkdir(parents=True)
    original.save(tmp_path / "imagenet" / "val" / "c" / "a.png")
    if shards:
        folder = tmp_path / "imagenet" / "val"
        (folder / "c" / "a.png").rename(folder / "a.png")
        (folder / "a.cls").write_text("0")
        with tarfile.open(folder / "0.tar", "w") as tar:
            for name in ("a.png", "a.cls"):
                tar.add(folder / name, name)
    code, printed = (
        load_dataset(name, "test", tmp_path) for name in ("imagenet", "imagenet-printed")
    )
    resized = np.asarray(original.resize((256, 256), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(printed.image(0), resized[:, 16:240, 16:240])
    assert np.array_equal(printed.part([0]).image(0), printed.image(0))
    assert not np.array_equal(code.image(0), printed.image(0))
    assert (code.name, printed.name) == ("imagenet", "imagenet-printed")
    assert code.fingerprint() != printed.fingerprint()
    assert "both sides to 256" in printed.preparation
    draws = [data.train_image(0, np.random.default_rng(0)) for data in (code, printed)]
    assert np.array_equal(*draws)  # training is the same
