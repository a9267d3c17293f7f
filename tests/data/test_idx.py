import errno
import gzip
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from smoothcert.data.idx import read_idx, write_idx
from smoothcert.errors import DataError

TYPES = st.sampled_from(["u1", "i1", "i2", "i4", "f4", "f8", ">f4"])
HEADER = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3])  # uint8 [2, 3]


@given(
    arrays(TYPES, array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)),
    st.sampled_from(["a", "a.gz"]),
)
def test_arrays_come_back_as_written(tmp_path_factory, array, name):
    path = tmp_path_factory.getbasetemp() / name
    write_idx(path, array)
    found = read_idx(path)
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.flags.writeable
    np.testing.assert_array_equal(found, array)


def test_the_bytes_are_the_published_format_and_always_the_same(tmp_path):
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    write_idx(tmp_path / "a", array)
    assert (tmp_path / "a").read_bytes() == HEADER + bytes(range(6))
    write_idx(tmp_path / "b.gz", array)
    write_idx(tmp_path / "c.gz", array)
    assert (tmp_path / "b.gz").read_bytes() == (tmp_path / "c.gz").read_bytes()


def test_content_tells_gzip_not_the_name(tmp_path):
    for name, data in (("plain.gz", HEADER + bytes(6)), ("zipped", zipped(HEADER + bytes(6)))):
        (tmp_path / name).write_bytes(data)
        assert read_idx(tmp_path / name).shape == (2, 3)


def zipped(content):
    return gzip.compress(content, mtime=0)  # the same in every process that collects the tests


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


NOISE = np.random.default_rng(0).bytes(6000)
LONG = bytes([0, 0, 8, 1, 0, 0, 0x17, 0x70]) + NOISE  # uint8 [6000], which gzip cannot shrink


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected an IDX file .* found 0 bytes"),
        (b"\0\0\x08", "found 3 bytes that begin 00 00 08"),
        (b"<html>404</html>", "found 16 bytes that begin 3c 68 74 6d"),
        (b"\0\0\x07\1\0\0\0\0", "begin 00 00 07 01"),
        (HEADER[:10], "expected 12 bytes of header, found 10"),
        (HEADER + bytes(5), r"expected 18 bytes for an array of shape \[2, 3\], found 17"),
        (HEADER + bytes(7), "expected 18 bytes .* found 19"),
        (zipped(HEADER + bytes(5)), "expected 18 bytes .* found 17"),
        (
            zipped(LONG)[:3000],
            r"expected 6008 bytes .* found \d+, where the gzip stream breaks off",
        ),
        (zipped(LONG)[:-4], "gzip stream breaks off"),
        (
            zipped(LONG) + b"tail",
            "expected 6008 bytes .* found 6008, where the gzip stream breaks off",
        ),
        (flipped(zipped(LONG), 3000), "gzip stream breaks off"),
        (b"\x1f\x8b", r"found 0 bytes that begin nowhere, where the gzip stream breaks off"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, data, message):
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
    assert "get it again" in str(caught.value)


def test_what_cannot_be_read_or_written_is_refused(tmp_path):
    with pytest.raises(DataError, match=os.strerror(errno.ENOENT)):
        read_idx(tmp_path / "missing")
    with pytest.raises(DataError, match=os.strerror(errno.EISDIR)):
        read_idx(tmp_path)
    with pytest.raises(DataError, match="found int64"):
        write_idx(tmp_path / "a", np.zeros(3, np.int64))
