"""What `smoothcert list data` finds below a data directory."""

import numpy as np
import pytest

from smoothcert.cli import main
from smoothcert.data import load_dataset
from smoothcert.data.found import found_below
from smoothcert.errors import ConfigError
from smoothcert.recipes import load_recipe
from smoothcert.training.fit import fit
from tests.data.shards import write_shards
from tests.data.test_pictures import tree


@pytest.fixture
def data(tmp_path):
    tree(tmp_path / "classes", "cat/a.png", "dog/b.png", channels=1)
    tree(
        tmp_path / "splits", "train/cat/a.png", "train/dog/b.png", "val/cat/a.png", "val/dog/b.png"
    )
    tree(tmp_path / "flat", "a.png")
    tree(tmp_path / "table", "a.png")
    (tmp_path / "table" / "labels.csv").write_text("file,label\na.png,1\n")
    np.savez(tmp_path / "one.npz", images=np.zeros((2, 4, 4), np.uint8))
    (tmp_path / "arrays").mkdir()
    np.savez(tmp_path / "arrays" / "test.npz", images=np.zeros((2, 4, 4), np.uint8))
    write_shards(tmp_path / "shards", [1, 1])
    write_shards(tmp_path / "both" / "train", [1])
    write_shards(tmp_path / "both" / "val", [2])
    (tmp_path / "one.tar").write_bytes((tmp_path / "shards" / "part-000000.tar").read_bytes())
    (tmp_path / "nothing").mkdir()
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


def test_each_kind_of_data_is_found_and_can_be_loaded_by_what_is_printed(data, capsys):
    found = dict(found_below(data))
    assert {spec.replace(str(data), "D"): what for spec, what in found.items()} == {
        "npz:D/arrays": "arrays, one file per split",
        "folder:D/classes": "pictures in 2 class folders",
        "folder:D/flat": "pictures without labels",
        "npz:D/one.npz": "arrays",
        "tar:D/both": "train, val: tar files",
        "tar:D/one.tar": "a tar file",
        "tar:D/shards": "tar files",
        "folder:D/splits": "train, val: pictures in 2 class folders",
        "folder:D/table": "pictures with labels.csv",
    }
    for spec in found:
        assert len(load_dataset(spec)) > 0
    main(["list", "data", "--data-dir", str(data)])
    printed = capsys.readouterr().out
    assert all(spec in printed for spec in found)
    assert [spec for spec, _ in found_below(data / "flat")] == [f"folder:{data / 'flat'}"]


def test_training_refuses_a_folder_whose_test_images_are_the_training_images(data):
    config = load_recipe(
        "mnist-mini/gaussian-0.50", {"dataset": f"folder:{data}/classes", "evaluate_every": 1}
    ).config
    with pytest.raises(ConfigError, match="its test images are the training images"):
        fit(config, data / "run", device="cpu", quiet=True)
    assert not (data / "run").exists()
