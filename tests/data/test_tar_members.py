"""Members of tar files by their headers, of any program; damaged and hostile files are refused."""

import gzip
import tarfile
from itertools import islice

import pytest

from smoothcert.data import load_dataset
from smoothcert.data.tar_members import members
from smoothcert.errors import DataError
from tests.data.shards import LABEL, PICTURE, write_tar


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_those_of_tarfile(tmp_path, kind):
    names = ["a.png", "d" * 90 + "/" + "x" * 60 + ".png", "e.cls", "é" * 40 + ".png"]
    if kind != tarfile.USTAR_FORMAT:
        names += ["folder/" * 30 + "y.png", "z" * 200 + ".png"]
    contents = [bytes([65 + i]) * size for i, size in enumerate((0, 1, 511, 512, 513, 3000))]
    folder = tarfile.TarInfo("folder")
    folder.type = tarfile.DIRTYPE
    path = write_tar(tmp_path / "a.tar", [folder, *zip(names, contents, strict=False)], kind)
    with tarfile.open(path) as tar:
        expected = [(info.name, info.offset_data, info.size) for info in tar if info.isfile()]
    found = list(members(path))
    assert [member[:3] for member in found] == expected
    assert [member.name for member in found] == names
    small = [content if len(content) <= 512 else None for content in contents[: len(names)]]
    assert [member.content for member in found] == small


def test_sizes_may_be_pax_records_or_binary(tmp_path):
    content = b"x" * 700
    info = tarfile.TarInfo("a.bin")
    info.size, info.pax_headers = len(content), {"size": "700"}
    block = bytearray(info.tobuf(tarfile.PAX_FORMAT))
    wrong = bytearray(block[-512:])  # a header that says 0 bytes, which the record corrects
    wrong[124:136] = b"00000000000\0"
    wrong[148:156] = b"%06o\0 " % (256 + sum(wrong[:148]) + sum(wrong[156:]))
    binary = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    binary[124:136] = (0x80 << 88 | 700).to_bytes(12, "big")
    binary[148:156] = b"%06o\0 " % (256 + sum(binary[:148]) + sum(binary[156:]))
    record = b"12 size=700\n"
    extended = tarfile.TarInfo("PaxHeaders")
    extended.size, extended.type = len(record), tarfile.XHDTYPE
    for head in (bytes(binary), extended.tobuf() + record.ljust(512, b"\0") + bytes(wrong)):
        path = tmp_path / "a.tar"
        path.write_bytes(head + content.ljust(1024, b"\0") + bytes(1024))
        assert list(members(path)) == [("a.bin", len(head), 700, None)]


DAMAGES = {
    "empty": (lambda content: b"", "cut off"),
    "short": (lambda content: content[:100], "cut off"),
    "header": (lambda content: content[: 512 * 2 + 40], "cut off"),
    "contents": (
        lambda content: content[:600],
        r"cut off \(the member at byte 0 has \d+ bytes, of which 88 are there",
    ),
    "no end": (lambda content: content.rstrip(b"\0").ljust(512 * 4, b"\0"), "cut off"),
    "gzip": (gzip.compress, "not compressed, found gzip"),
    "text": (lambda content: b"text" * 500, "no header of a member at byte 0"),
    "flipped": (lambda content: b"b" + content[1:], "no header of a member at byte 0"),
    "second": (
        lambda content: content[:1024] + b"?" + content[1025:],
        "no header of a member at byte 1024",
    ),
    "two": (lambda content: content + content, "several tar files in one"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_refused(tmp_path, name):
    damage, message = DAMAGES[name]
    whole = write_tar(tmp_path / "whole", [PICTURE, LABEL]).read_bytes()
    assert len(PICTURE[1]) < 512  # so the second header is at byte 1024
    (tmp_path / "a.tar").write_bytes(damage(whole))
    with pytest.raises(DataError, match=f"a.tar: .*{message}"):
        load_dataset(f"tar:{tmp_path / 'a.tar'}")


def header(kind=b"0", size=b"1"):
    block = bytearray(tarfile.TarInfo("a.txt").tobuf(tarfile.USTAR_FORMAT))
    block[124:136], block[156:157] = size.ljust(12, b"\0"), kind
    block[148:156] = b"%06o\0 " % (256 + sum(block[:148]) + sum(block[156:]))
    return bytes(block)


def with_records(records):
    """A member of one byte, behind records of pax."""
    padded = records + bytes(-len(records) % 512)
    return header(b"x", b"%o" % len(records)) + padded + header() + b"?".ljust(512, b"\0")


HOSTILE = {
    "a size below zero": header(size=b"-1000"),  # whose end is where it begins
    "a long name with such a size": header(b"L", b"-1000"),
    "a size with a line below": header(size=b"1_0") + bytes(512),
    "a record of endless size": with_records(b"5008 size=" + b"9" * 4997 + b"\n"),
    "a record of endless length": with_records(b"9" * 5000 + b" path=a\n"),
    "a file with holes": with_records(b"22 GNU.sparse.major=1\n"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_headers_that_no_program_writes_are_refused(tmp_path, name):
    path = tmp_path / "a.tar"
    path.write_bytes(HOSTILE[name] + bytes(1024))
    with pytest.raises(DataError, match=r"a.tar: expected"):
        for _ in islice(members(path), 10):
            pass


def test_the_size_that_a_record_says_is_that_of_the_file_alone(tmp_path):
    """A long name may stand between the record and the file."""
    path = tmp_path / "a.tar"
    between = header(b"L", b"6") + b"b.png\0".ljust(512, b"\0")
    record = b"12 size=700\n".ljust(512, b"\0")
    path.write_bytes(header(b"x", b"14") + record + between + header() + bytes(1024) + bytes(1024))
    assert [(member.name, member.size) for member in members(path)] == [("b.png", 700)]
