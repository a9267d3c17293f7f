"""Tar files of small pictures for tests, and what the pictures in them are."""

import io
import tarfile

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")


def png(seed, shape=(8, 8)):
    """A picture, and its bytes as a PNG file."""
    pixels = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return pixels, file.getvalue()


def write_tar(path, members, kind=tarfile.GNU_FORMAT):
    """Members are (name, bytes), or made `TarInfo`s without contents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=kind) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return path


def write_shards(folder, sizes, name="part", first=0, classes=4):
    """Shards of so many samples each; picture i is `png(first + i)` and has label (first + i) % classes."""
    i = first
    for number, size in enumerate(sizes):
        members = []
        for _ in range(size):
            members += [(f"s{i}.png", png(i)[1]), (f"s{i}.cls", b"%d" % (i % classes))]
            i += 1
        write_tar(folder / f"{name}-{number:06}.tar", members)
    return folder


PICTURE, LABEL = ("a.png", png(0)[1]), ("a.cls", b"1")  # the two members of a sample
