"""`hf-dataset:` by the package `datasets`, from folders: nothing here needs the network."""

import numpy as np
import pytest

from smoothcert.data import faults, load_dataset
from smoothcert.errors import ConfigError, DataError

datasets = pytest.importorskip("datasets", reason="hf-dataset: needs the package datasets")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Not the user's."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def pixels(seed, size=8):
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3)).astype(np.uint8)


def rows(size, **columns):
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    content = {
        "image": [Image.fromarray(pixels(i)) for i in range(size)],
        "label": [i % 2 for i in range(size)],
    }
    kinds = {name: kind for name, (kind, _) in columns.items()}
    values = {name: value for name, (_, value) in columns.items()}
    return datasets.Dataset.from_dict(
        content | values, features=datasets.Features(features | kinds)
    )


def test_a_saved_data_set_is_read_split_by_split(tmp_path):
    datasets.DatasetDict({"train": rows(5), "validation": rows(3)}).save_to_disk(tmp_path / "pets")
    found = load_dataset(f"hf-dataset:{tmp_path}/pets", "test")
    assert (len(found), found.shape, found.class_names, found.classes) == (
        3,
        (3, 8, 8),
        ("cat", "dog"),
        2,
    )
    assert (found.name, found.labels.tolist()) == ("hf-dataset:pets", [0, 1, 0])
    assert np.array_equal(found.image(2), pixels(2).transpose(2, 0, 1))
    assert len(load_dataset("hf-dataset:pets", "train", tmp_path)) == 5
    small = load_dataset(f"hf-dataset:{tmp_path}/pets", shape=(1, 4, 4))
    assert (small.image(0).shape, small.name) == ((1, 4, 4), "hf-dataset:pets,size=4,grey")
    assert len({small.fingerprint(), found.fingerprint()}) == 2
    again = load_dataset(f"hf-dataset:{tmp_path}/pets", "test")
    assert again.fingerprint() == found.fingerprint()
    with pytest.raises(DataError, match="the data has 2 classes, the network 10"):
        load_dataset(f"hf-dataset:{tmp_path}/pets", classes=10)


def test_folders_of_parquet_files_and_of_pictures_are_read(tmp_path):
    (tmp_path / "parquet").mkdir()
    rows(4).to_parquet(tmp_path / "parquet" / "test.parquet")
    (tmp_path / "parquet" / "LICENSE").write_text("CC0\n")
    found = load_dataset(f"hf-dataset:{tmp_path}/parquet")
    assert (len(found), found.licence) == (4, "CC0")
    for name in ("cat", "dog"):
        (tmp_path / "pictures" / "test" / name).mkdir(parents=True)
        Image.fromarray(pixels(1)).save(tmp_path / "pictures" / "test" / name / "a.png")
    (tmp_path / "pictures" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Pets\n")
    found = load_dataset(f"hf-dataset:{tmp_path}/pictures")
    assert (found.labels.tolist(), found.class_names, found.licence) == (
        [0, 1],
        ("cat", "dog"),
        "cc-by-4.0",
    )
    assert np.array_equal(found.image(1), pixels(1).transpose(2, 0, 1))


def test_labels_may_be_hidden_or_missing(tmp_path):
    hidden = rows(2).remove_columns("label").add_column("label", [-1, -1])
    hidden.save_to_disk(tmp_path / "hidden")
    hidden.remove_columns("label").save_to_disk(tmp_path / "missing")
    for name in ("hidden", "missing"):
        found = load_dataset(f"hf-dataset:{tmp_path}/{name}", classes=7)
        assert (found.labelled, found.classes) == (False, 7)


def test_columns_are_chosen_and_what_does_not_fit_is_refused(tmp_path):
    coarse = datasets.ClassLabel(names=["a"])
    more = {
        "mask": (datasets.Image(), [Image.fromarray(pixels(9))] * 2),
        "coarse": (coarse, [0, 0]),
    }
    text = {"words": (datasets.Value("string"), ["x", "y"])}
    rows(2, **more, **text).save_to_disk(tmp_path / "more")
    spec = f"hf-dataset:{tmp_path}/more"
    with pytest.raises(DataError, match=r"expected one column of type Image, .*name it by image="):
        load_dataset(spec)
    with pytest.raises(DataError, match=r"several columns of labels \(label, coarse\)"):
        load_dataset(f"{spec},image=mask")
    with pytest.raises(ConfigError, match=r"unknown column of .*did you mean mask"):
        load_dataset(f"{spec},image=masks")
    with pytest.raises(DataError, match="expected class numbers in the column words, found 'x'"):
        load_dataset(f"{spec},image=mask,label=words")
    found = load_dataset(f"{spec},image=mask,label=coarse")
    assert np.array_equal(found.image(1), pixels(9).transpose(2, 0, 1))
    assert found.name == "hf-dataset:more,image=mask,label=coarse"


def test_bad_pictures_are_named(tmp_path):
    pictures = [
        Image.fromarray(pixels(0)),
        Image.new("RGBA", (8, 8)),
        Image.fromarray(pixels(1, 9)),
        None,
    ]
    content = {"image": pictures}
    datasets.Dataset.from_dict(
        content, features=datasets.Features({"image": datasets.Image()})
    ).save_to_disk(tmp_path / "bad")
    found = load_dataset(f"hf-dataset:{tmp_path}/bad", classes=3)
    told = faults(found)
    for text, row, why in zip(
        told, (1, 2, 3), ("transparent", "found 9 x 9", "found none"), strict=True
    ):
        assert f"row {row}" in text
        assert why in text


def test_a_place_that_is_none_is_refused(tmp_path):
    with pytest.raises(
        DataError, match="no such folder, and no data set of the hub has such a name"
    ):
        load_dataset(f"hf-dataset:{tmp_path}/nowhere/at/all")
    with pytest.raises(DataError, match="is no folder here"):
        load_dataset("hf-dataset:someone/pets", download=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="cannot be loaded"):
        load_dataset(f"hf-dataset:{tmp_path}/empty")


@pytest.mark.filterwarnings("ignore")  # the reader is deprecated
def test_no_reader_of_the_package_opens_a_pickle(tmp_path, monkeypatch):
    """Of a name that is that of a reader, the package reads the files of the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.pkl").write_bytes(b"cbuiltins\nopen\n(Vopened\nVw\ntR.")
    with pytest.raises(DataError, match="cannot be loaded"):
        load_dataset("hf-dataset:pandas", download=True)
    assert not (tmp_path / "opened").exists()
