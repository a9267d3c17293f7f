"""`tar:PATH`: pictures of tar files in the order in which they lie, with their labels, and what is refused."""

import pickle
import tarfile

import numpy as np
import pytest

from smoothcert.data import UNLABELLED, ImageFolder, faults, load_dataset
from smoothcert.data.corruptions import load_stored
from smoothcert.errors import ConfigError, DataError, SmoothcertError
from tests.data.shards import LABEL, PICTURE, Image, png, write_shards, write_tar


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
            (
                "other/n1_5.png",
                png(2, (6, 7, 3))[1],
            ),  # another sample, since folders belong to the name
            ("other/n1_5.cls", b"0"),
        ],
    )
    found = load_dataset(f"tar:{tmp_path / 'a.tar'}")
    assert (found.names, found.labels.tolist()) == (["train/n1_5.PNG", "other/n1_5.png"], [3, 0])
    assert np.array_equal(found.image(0), colour[0].transpose(2, 0, 1))


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
    with pytest.raises(
        DataError, match=r"expected 5 tar files, found .*part-000012.tar and others missing"
    ):
        load_dataset(f"tar:{tmp_path}/part-{{000010..000014}}.tar")
    with pytest.raises(DataError, match="no such tar file"):
        load_dataset(f"tar:{tmp_path}/other-{{000010..000014}}.tar")
    with pytest.raises(DataError, match=r"expected a range such as"):
        load_dataset(f"tar:{tmp_path}/part-{{14..10}}.tar")


def test_the_fingerprint_names_contents_labels_and_preparation(tmp_path):
    spec = f"tar:{write_shards(tmp_path, [2, 2])}"
    found = [
        load_dataset(spec + more).fingerprint()
        for more in ("", ",labels=none", ",size=5", ",size=5,resize=6")
    ]
    found.append(load_dataset(spec, classes=5).fingerprint())  # another network, the same data
    assert found[4] == found[0]
    write_tar(
        tmp_path / "part-000001.tar",
        [("s2.png", png(7)[1]), ("s2.cls", b"2"), ("s3.png", png(3)[1]), ("s3.cls", b"3")],
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
    write_tar(
        tmp_path / "a.tar",
        [("a.png", png(0)[1]), ("a.json", b'{"label": 1}'), ("b.png", png(1)[1])],
    )
    with pytest.raises(
        DataError,
        match=r"a.tar, a.png: expected its class number .* \.cls, found none: .*labels=none",
    ):
        load_dataset(f"tar:{tmp_path}")
    found = load_dataset(f"tar:{tmp_path},labels=none", classes=7)
    assert (found.labels.tolist(), found.classes) == ([UNLABELLED] * 2, 7)
    assert found.name.endswith(",labels=none")
    with pytest.raises(ConfigError, match=r"expected labels=none, .* found labels=x.csv"):
        load_dataset(f"tar:{tmp_path},labels=x.csv")


def link(name):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, "a.png"
    return info


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([PICTURE], "found none: add it"),
        ([LABEL], r"expected a picture .* for a.cls, found none"),
        (
            [PICTURE, LABEL, ("a.jpg", b"?")],
            "one picture for the sample a, found a.png and a.jpg: samples need names",
        ),
        ([PICTURE, LABEL, LABEL], "one label for the sample a, found a.cls and a.cls"),
        (
            [PICTURE, ("a.cls", b"dog")],
            r"a.cls: expected a class number from 0 to 9 as text, found b'dog'",
        ),
        ([PICTURE, ("a.cls", b"-1")], "found b'-1'"),
        ([PICTURE, ("a.cls", b"10")], "found b'10'"),
        ([PICTURE, ("a.cls", b"1" * 600)], "from 0 to 9 as text"),
        ([PICTURE, ("a.cls", "¹".encode())], "from 0 to 9 as text"),
        ([("a.txt", b"x")], "expected pictures"),
        ([], "expected pictures"),
        ([PICTURE, LABEL, link("b.png")], r"expected plain files, found a link \(b.png\)"),
        ([("a.png", b"no picture"), LABEL], r"a.tar, a.png: expected a readable picture"),
    ],
)
def test_shards_that_cannot_be_understood_are_refused(tmp_path, content, message):
    write_tar(tmp_path / "a.tar", content)
    with pytest.raises(DataError, match=message):
        load_dataset(f"tar:{tmp_path}", classes=10)


def test_folders_of_other_things_are_refused(tmp_path):
    with pytest.raises(DataError, match="expected tar files of pictures"):
        load_dataset(f"tar:{tmp_path}")
    write_shards(tmp_path, [1], "train")
    (tmp_path / "more.tar").write_bytes((tmp_path / "train-000000.tar").read_bytes())
    with pytest.raises(
        DataError,
        match=r"in the name of each tar file or of none, found more.tar beside those of train",
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
