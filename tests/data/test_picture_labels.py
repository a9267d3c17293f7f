"""Labels of a folder of pictures: by class folders, by a table, by the names of the network's classes."""

from pathlib import Path

import pytest

from smoothcert.data import load_dataset
from smoothcert.errors import DataError
from tests.data.test_pictures import tree

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize(
    ("text", "labels", "classes"),
    [
        ("file,label\na.png,2\nsub/b.png,0\n", [2, 0], 3),
        ("\ufefflabel,file,more\n2,a.png,x\n0,./sub/b.png,y\n", [2, 0], 3),
        ("file,label\nsub/b.png,cat\na.png,dog\n", [1, 0], 2),
    ],
)
def test_labels_come_from_a_table(tmp_path, text, labels, classes):
    tree(tmp_path, "a.png", "sub/b.png")
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    found = load_dataset(f"folder:{tmp_path}")
    assert (found.labels.tolist(), found.classes) == (labels, classes)
    (tmp_path / "labels.csv").rename(tmp_path / "mine.csv")
    assert load_dataset(f"folder:{tmp_path},labels=mine.csv").labels.tolist() == labels
    assert not load_dataset(f"folder:{tmp_path},labels=none").labelled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\na.png,1\n", r"none for 1 of them \(b.png\)"),
        ("file,label\na.png,1\na.png,1\nb.png,0\n", "line 3: 'a.png' has a label already"),
        ("file,label\na.png,1\nb.png,10\n", "classes from 0 to 9, found 10 for 'b.png'"),
        ("file,label\na.png,1\nb.png,-1\n", "found '-1' among them"),
        ("file,label\na.png,1\nb.png,cat\n", "found 'cat' among them"),
        ("file,label\na.png,1\nb.png,\n", "line 3: 'b.png' has no label"),
        ("file,label\na.png,1\nc.png,1\n", "line 3: there is no picture 'c.png'"),
        ("file,label\n../a.png,1\n", r"expected a file below .*found '../a.png'"),
        ("file,label\n/etc/a.png,1\n", "expected a file below"),
        ("file;label\na.png;1\n", "the columns file,label, found 'file;label'"),
        (
            "file,label\na.png,cat\nb.png,dog\n",
            "expected the 10 classes of the network, found 2 names",
        ),
        ("", "the columns file,label, found ''"),
        ("file,label\na.png,9999999999999999999\nb.png,1\n", "found 9999999999999999999"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, text, message):
    tree(tmp_path, "a.png", "b.png")
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load_dataset(f"folder:{tmp_path}", classes=10)


@pytest.mark.parametrize(
    ("files", "classes", "message"),
    [
        (
            ("cat/a.png", "dog/b.png", "c.png"),
            None,
            r"found 2 with pictures .*1 loose pictures \(such as c.png\)",
        ),
        (("only/a.png",), None, "found only alone: if it is no class, name it itself"),
        (("cat/a.png", "dog/b.png"), 10, "expected the 10 classes of the network, found 2 names"),
        (("0/a.png", "2/b.png"), None, "by the order of names 2 would be class 1"),
        ((*(f"{i}/a.png" for i in range(11)),), 11, "by the order of names 10 would be class 2"),
        ((), None, r"expected pictures \(.jpg.*found none"),
    ],
)
def test_folders_that_say_too_little_are_refused(tmp_path, files, classes, message):
    tree(tmp_path, *files)
    with pytest.raises(DataError, match=message):
        load_dataset(f"folder:{tmp_path}", classes=classes)


def test_some_folders_named_by_class_numbers_mean_these_classes(tmp_path):
    tree(tmp_path, "2/a.png", "7/b.png")
    found = load_dataset(f"folder:{tmp_path}", classes=10)
    assert (found.labels.tolist(), found.classes) == ([2, 7], 10)


NAMES = ("tabby, tabby cat", "Dog", "goldfish, Carassius auratus", "owl")


@pytest.mark.parametrize(
    ("folders", "labels"),
    [
        (("dog", "owl"), [1, 3]),
        (("goldfish", "tabby cat"), [2, 0]),
        (("DOG", "tabby, tabby cat"), [1, 0]),
    ],
)
def test_folders_with_names_of_the_networks_classes(tmp_path, folders, labels):
    """Some of its classes are enough, in any order and spelling."""
    for folder in folders:
        (tmp_path / folder).mkdir()
        Image.new("L", (4, 4)).save(tmp_path / folder / "a.png")
    found = load_dataset(f"folder:{tmp_path}", classes=4, class_names=NAMES)
    assert {Path(found.where(i)).parent.name: int(found.labels[i]) for i in range(2)} == dict(
        zip(folders, labels, strict=True)
    )
    assert (found.classes, found.class_names, found.by_name) == (4, NAMES, True)


def test_a_misspelt_class_is_named(tmp_path):
    for folder in ("dog", "oul"):
        (tmp_path / folder).mkdir()
        Image.new("L", (4, 4)).save(tmp_path / folder / "a.png")
    with pytest.raises(DataError, match="found 'oul' among them, which is none: it has tabby"):
        load_dataset(f"folder:{tmp_path}", classes=4, class_names=NAMES)


@pytest.mark.parametrize(
    ("folders", "known", "labels"),
    [
        (
            ["crane", "dog"],
            ["crane", "dog", "crane"],
            "'crane' may be class 0 .* and 2",
        ),  # a bird, and a machine
        (
            ["maillot", "dog"],
            ["maillot", "maillot, tank suit", "dog"],
            "'maillot' may be class 0 .* and 1",
        ),
        (
            ["Cardigan", "cardigan"],
            ["Cardigan, Welsh corgi", "cardigan"],
            [0, 1],
        ),  # a dog, and what one wears
        (
            ["CARDIGAN", "dog"],
            ["Cardigan, Welsh corgi", "cardigan", "dog"],
            "'CARDIGAN' may be class 0 .* and 1",
        ),
        (["A", "a"], ["a", "A"], [1, 0]),
        (
            ["1", "2"],
            ["1", "2", "3"],
            [0, 1],
        ),  # named from 1 on, though 1 and 2 are class numbers too
        (["1.0", "10.0", "2.0"], [], "found '1.0', whose place in the order of names"),
        (["-1", "-2"], [], "found '-1', whose place"),
    ],
)
def test_names_that_several_classes_may_have(tmp_path, folders, known, labels):
    tree(tmp_path, *(f"{folder}/a.png" for folder in folders))
    place, about = (
        f"folder:{tmp_path}",
        {"classes": len(known) or len(folders), "class_names": known},
    )
    if isinstance(labels, str):
        with pytest.raises(DataError, match=labels):
            load_dataset(place, **about)
    else:
        assert load_dataset(place, **about).labels.tolist() == labels


def test_numbers_of_a_table_that_may_be_names(tmp_path):
    tree(tmp_path, "a.png", "b.png")
    (tmp_path / "labels.csv").write_text("file,label\na.png,1\nb.png,2\n")
    assert load_dataset(
        f"folder:{tmp_path}", classes=3, class_names=["0", "1", "2"]
    ).labels.tolist() == [1, 2]
    with pytest.raises(DataError, match="labels could mean either"):
        load_dataset(f"folder:{tmp_path}", classes=3, class_names=["1", "2", "3"])
    (tmp_path / "labels.csv").write_text("file,label\na.png,1.0\nb.png,0.0\n")
    with pytest.raises(DataError, match="write whole numbers"):
        load_dataset(f"folder:{tmp_path}")
