"""`tar:PATH`: pictures of tar files by their headers, in the order in which they lie, and what is refused."""

import gzip
import pickle
import tarfile
from itertools import islice

import numpy as np
import pytest

from smoothcert.data import UNLABELLED, ImageFolder, faults, load_dataset
from smoothcert.data.corruptions import load_stored
from smoothcert.data.tar_members import members
from smoothcert.errors import ConfigError, DataError, SmoothcertError
from tests.data.shards import Image, png, write_shards, write_tar


def test_pictures_of_all_shards_come_in_order_with_their_labels(tmp_path):
    found = load_dataset(f"tar:{write_shards(tmp_path, [3, 1, 2])}")
    assert len(found) == 6
    assert (found.labels.tolist(), found.classes, found.labelled) == ([0, 1, 2, 3, 0, 1], 4, True)
    assert (found.shape, found.name) == ((1, 8, 8), f"tar:{tmp_path.name}")
    for i in range(6):
        assert np.array_equal(found.image(i)[0], png(i)[0])
    assert found.where(3) == f"{tmp_path / 'part-000001.tar'}, s3.png"
    assert faults(found) == []
    assert load_dataset(f"tar:{tmp_path}", classes=9, shape=(3, 4, 4)).shape == (3, 4, 4)


def test_the_layout_of_webdataset(tmp_path):
    colour = png(1, (6, 7, 3))
    write_tar(
        tmp_path / "a.tar",
        [
            ("train/n1_5.cls", b" 3\n"),  # labels may come first, and not beside their pictures
            ("__MACOSX/._n1_5.png", b"?"),
            (".hidden.png", b"?"),
            ("n2.0_6.seg.png", b"a mask, which is another ending"),
            ("n2.json", b"{}"),
            ("train/n1_5.PNG", colour[1]),
            ("other/n1_5.png", png(2, (6, 7, 3))[1]),  # another sample, since folders belong to the name
            ("other/n1_5.cls", b"0"),
        ],
    )
    found = load_dataset(f"tar:{tmp_path / 'a.tar'}")
    assert (found.names, found.labels.tolist()) == (["train/n1_5.PNG", "other/n1_5.png"], [3, 0])
    assert np.array_equal(found.image(0), colour[0].transpose(2, 0, 1))


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


def split_folders(root):
    write_shards(root / "train", [2, 2])
    write_shards(root / "val", [1], first=4)


def split_names(root):
    write_shards(root, [2, 2], "imagenet-train")
    write_shards(root, [1], "imagenet_validation", first=4)


@pytest.mark.parametrize("make", [split_folders, split_names])
def test_splits_are_folders_or_words_of_names(tmp_path, make):
    make(tmp_path)
    train, test = (load_dataset(f"tar:{tmp_path}", split) for split in ("train", "test"))
    assert (train.names, test.names) == (["s0.png", "s1.png", "s2.png", "s3.png"], ["s4.png"])


def test_a_pattern_names_shards_and_can_be_found_again(tmp_path):
    write_shards(tmp_path, [1] * 12)
    pattern = "part-{000008..000010}.tar"
    found = load_dataset(f"tar:{tmp_path}/{pattern}")
    assert found.names == ["s8.png", "s9.png", "s10.png"]
    assert found.name == f"tar:{pattern}"
    assert load_stored(found.name, "test", tmp_path).fingerprint() == found.fingerprint()
    with pytest.raises(DataError, match=r"expected 5 tar files, found .*part-000012.tar and others missing"):
        load_dataset(f"tar:{tmp_path}/part-{{000010..000014}}.tar")
    with pytest.raises(DataError, match="no such tar file"):
        load_dataset(f"tar:{tmp_path}/other-{{000010..000014}}.tar")
    with pytest.raises(DataError, match=r"expected a range such as"):
        load_dataset(f"tar:{tmp_path}/part-{{14..10}}.tar")


def test_the_fingerprint_names_contents_labels_and_preparation(tmp_path):
    spec = f"tar:{write_shards(tmp_path, [2, 2])}"
    found = [load_dataset(spec + more).fingerprint() for more in ("", ",labels=none", ",size=5", ",size=5,resize=6")]
    found.append(load_dataset(spec, classes=5).fingerprint())  # another network, the same data
    assert found[4] == found[0]
    write_tar(
        tmp_path / "part-000001.tar", [("s2.png", png(7)[1]), ("s2.cls", b"2"), ("s3.png", png(3)[1]), ("s3.cls", b"3")]
    )
    found[4] = load_dataset(spec).fingerprint()
    assert len(set(found)) == 5


def test_a_shard_that_changes_is_refused(tmp_path):
    found = load_dataset(f"tar:{write_shards(tmp_path, [2, 2])}")
    write_shards(tmp_path, [3])
    for work in (lambda: found.image(0), found.fingerprint):
        with pytest.raises(DataError, match=r"part-000000.tar: the file has changed since"):
            work()
    assert found.image(2).shape == (1, 8, 8)
    (tmp_path / "part-000001.tar").unlink()
    with pytest.raises(DataError, match=r"part-000001.tar, s2.png: expected a readable tar file"):
        found.image(2)


def test_a_part_is_small_and_has_the_same_pictures(tmp_path):
    whole = load_dataset(f"tar:{write_shards(tmp_path, [4] * 20)}")
    part = pickle.loads(pickle.dumps(whole.part([70, 3, 69, 3])))
    assert len(part) == 4
    for place, i in enumerate([70, 3, 69, 3]):
        assert np.array_equal(part.image(place), whole.image(i))
        assert part.where(place) == whole.where(i)
        assert part.labels[place] == whole.labels[i]
    assert len(pickle.dumps(whole.part([5]))) < 2500  # not all 80 names and 20 shards


def test_pictures_without_labels_must_be_asked_for(tmp_path):
    write_tar(tmp_path / "a.tar", [("a.png", png(0)[1]), ("a.json", b'{"label": 1}'), ("b.png", png(1)[1])])
    with pytest.raises(DataError, match=r"a.tar, a.png: expected its class number .* \.cls, found none: .*labels=none"):
        load_dataset(f"tar:{tmp_path}")
    found = load_dataset(f"tar:{tmp_path},labels=none", classes=7)
    assert (found.labels.tolist(), found.classes) == ([UNLABELLED] * 2, 7)
    assert found.name.endswith(",labels=none")
    with pytest.raises(ConfigError, match=r"expected labels=none, .* found labels=x.csv"):
        load_dataset(f"tar:{tmp_path},labels=x.csv")


A, B = ("a.png", png(0)[1]), ("a.cls", b"1")


def link(name):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, "a.png"
    return info


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([A], "found none: add it"),
        ([B], r"expected a picture .* for a.cls, found none"),
        ([A, B, ("a.jpg", b"?")], "one picture for the sample a, found a.png and a.jpg: samples need names"),
        ([A, B, B], "one label for the sample a, found a.cls and a.cls"),
        ([A, ("a.cls", b"dog")], r"a.cls: expected a class number from 0 to 9 as text, found b'dog'"),
        ([A, ("a.cls", b"-1")], "found b'-1'"),
        ([A, ("a.cls", b"10")], "found b'10'"),
        ([A, ("a.cls", b"1" * 600)], "from 0 to 9 as text"),
        ([A, ("a.cls", "¹".encode())], "from 0 to 9 as text"),
        ([("a.txt", b"x")], "expected pictures"),
        ([], "expected pictures"),
        ([A, B, link("b.png")], r"expected plain files, found a link \(b.png\)"),
        ([("a.png", b"no picture"), B], r"a.tar, a.png: expected a readable picture"),
    ],
)
def test_shards_that_cannot_be_understood_are_refused(tmp_path, content, message):
    write_tar(tmp_path / "a.tar", content)
    with pytest.raises(DataError, match=message):
        load_dataset(f"tar:{tmp_path}", classes=10)


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
    "second": (lambda content: content[:1024] + b"?" + content[1025:], "no header of a member at byte 1024"),
    "two": (lambda content: content + content, "several tar files in one"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_refused(tmp_path, name):
    damage, message = DAMAGES[name]
    whole = write_tar(tmp_path / "whole", [A, B]).read_bytes()
    assert len(A[1]) < 512  # so the second header is at byte 1024
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


def test_folders_of_other_things_are_refused(tmp_path):
    with pytest.raises(DataError, match="expected tar files of pictures"):
        load_dataset(f"tar:{tmp_path}")
    write_shards(tmp_path, [1], "train")
    (tmp_path / "more.tar").write_bytes((tmp_path / "train-000000.tar").read_bytes())
    with pytest.raises(
        DataError, match=r"in the name of each tar file or of none, found more.tar beside those of train"
    ):
        load_dataset(f"tar:{tmp_path}", "train")
    with pytest.raises(DataError, match="expected a split test or val"):
        load_dataset(f"tar:{tmp_path}", "test")
    (tmp_path / "x.tar.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"x.tar.gz: expected tar files that are not compressed"):
        load_dataset(f"tar:{tmp_path}", "train")
    with pytest.raises(SmoothcertError, match=r"write tar:.*more.tar"):
        load_dataset(str(tmp_path / "more.tar"))


def test_imagenet_in_shards_is_prepared_as_published(tmp_path):
    """Colours that other data is refused for become RGB, EXIF orientations are passed over, the size is the field's."""
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures = [
        Image.new("CMYK", (300, 260), (10, 20, 30, 40)),
        Image.fromarray(png(1, (280, 300, 3))[0]),
        Image.fromarray(png(2, (300, 256))[0]),
    ]
    members, folder = [], tmp_path / "folder"
    for i, picture in enumerate(pictures):
        path = folder / f"n{i}" / f"{i}.jpg"
        path.parent.mkdir(parents=True)
        picture.save(path, exif=exif)
        members += [(path.name, path.read_bytes()), (f"{i}.cls", str(7 * i).encode())]
    write_tar(tmp_path / "imagenet" / "val" / "0.tar", members)
    found, expected = load_dataset("imagenet", "test", tmp_path), ImageFolder(folder)
    assert (found.name, found.classes, found.labels.tolist()) == ("imagenet", 1000, [0, 7, 14])
    assert found.licence
    for i in range(3):
        assert np.array_equal(found.image(i), expected.image(i))
        a, b = (data.train_image(i, np.random.default_rng(i)) for data in (found, expected))
        assert np.array_equal(a, b)
    assert faults(found) == []
    with pytest.raises(DataError, match="CMYK"):
        load_dataset(f"tar:{tmp_path / 'imagenet'}")
