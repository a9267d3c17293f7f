"""One picture as an array: turned as its camera says, never guessed at, and refused before it costs memory."""

import struct
import zlib

import numpy as np
import pytest

from smoothcert.data.image_file import read_image
from smoothcert.data.preparation import Preparation
from smoothcert.errors import DataError

Image = pytest.importorskip("PIL.Image")
ORIENTATION = 0x0112
PIXELS = (
    np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
)  # height 20, width 30

# what a viewer does with the stored pixels to show them upright
TURNED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: a[::-1].swapaxes(0, 1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: a[:, ::-1].swapaxes(0, 1),
}


@pytest.mark.parametrize("orientation", TURNED)
def test_pictures_are_turned_as_exif_says(tmp_path, orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    path, upright = tmp_path / "a.png", TURNED[orientation](PIXELS)
    Image.fromarray(PIXELS).save(path, exif=exif)
    found = read_image(path, Preparation(3, *upright.shape[:2]))
    assert np.array_equal(found, upright.transpose(2, 0, 1))
    if upright.shape != PIXELS.shape:
        with pytest.raises(
            DataError, match=r"a.png: the model takes .* \[3, 20, 30\].*found \[3, 30, 20\]"
        ):
            read_image(path, Preparation(3, 20, 30))


def png_header(width, height):
    """A PNG of that size whose pixels are missing: decoding it fails, and looking at its size does not."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", b""),
        (b"IEND", b""),
    ]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_a_huge_picture_is_refused_before_it_is_decoded(tmp_path, recwarn):
    path = tmp_path / "huge.png"
    path.write_bytes(png_header(13_000, 13_000))
    with pytest.raises(
        DataError, match=r"huge.png: expected at most 100 million pixels, found 13000 x 13000"
    ):
        read_image(path, Preparation(1, 28, 28))
    assert not recwarn.list


def test_a_huge_array_is_refused_before_it_is_read(tmp_path):
    """A sparse file of a terabyte: reading it would fail for want of memory."""
    path = tmp_path / "huge.npy"
    header = {"descr": "|u1", "fortran_order": False, "shape": (1, 2**20, 2**20)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 2**40)
    with pytest.raises(DataError, match=r"huge.npy: the model takes"):
        read_image(path, Preparation(1, 28, 28))


def frames(path):
    Image.fromarray(PIXELS).save(path, save_all=True, append_images=[Image.fromarray(PIXELS[::-1])])


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("a.gif", frames, "expected one picture, found 2 frames"),
        ("a.png", frames, "expected one picture, found 2 frames"),
        ("a.tif", frames, "expected one picture, found 2 frames"),
        (
            "cmyk.jpg",
            lambda path: Image.fromarray(PIXELS).convert("CMYK").save(path),
            "grey or RGB picture, found CMYK",
        ),
        (
            "lab.tif",
            lambda path: Image.new("LAB", (30, 20)).save(path),
            "grey or RGB picture, found LAB",
        ),
        (
            "clear.png",
            lambda path: Image.new("RGBA", (30, 20)).save(path),
            "has transparent pixels",
        ),
        (
            "torn.png",
            lambda path: path.write_bytes(png_header(30, 20)),
            "expected a readable picture",
        ),
    ],
)
def test_what_has_no_one_meaning_is_refused_by_name(tmp_path, name, make, message):
    make(tmp_path / name)
    with pytest.raises(DataError, match=f"{name}.*{message}"):
        read_image(tmp_path / name, Preparation(3, 20, 30))
