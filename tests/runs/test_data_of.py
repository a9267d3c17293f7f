"""The data of a run: in the shape of its network, and numbered by its classes."""

import numpy as np
import pytest

from smoothcert.data import load_dataset
from smoothcert.errors import ConfigError, DataError
from smoothcert.runs.data_of import data_of_run
from smoothcert.runs.folder import ModelSpec
from tests.data.test_pictures import save


def spec(dataset, names=("dog", "cat")):
    return ModelSpec("lenet", 2, "none", 0.5, dataset, (1, 8, 8), names)


@pytest.fixture
def pets(tmp_path):
    for name in ("cat", "dog"):
        save(tmp_path / "pets" / name / "a.png", 16, 12)
    return f"folder:{tmp_path / 'pets'}"


def test_folders_mean_the_classes_of_the_network_whatever_their_order(pets):
    """Attacks and paths read it too: by the order of names, each label would be the other one."""
    found = data_of_run(spec(pets), "test", None)
    assert found.labels.tolist() == [1, 0]
    assert found.shape == (1, 8, 8)
    assert data_of_run(spec(pets, ()), "test", None).labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    "own", ["folder:mine,size=8,resize=10,grey", "tar:mine.tar,size=8,resize=10,grey"]
)
def test_other_pictures_are_prepared_as_those_of_the_run(pets, own):
    """By the shape alone, all of a picture would be shrunk into it, where training cut out its middle."""
    expected = load_dataset(f"{pets},size=8,resize=10,grey").image(0)
    for place in (pets, f"{pets},size=8,resize=10,grey"):
        found = data_of_run(spec(own), "test", None, place)
        assert np.array_equal(found.image(1), expected)
    for other in ("size=8", "size=8,resize=8,grey", "resize=10", "colour"):
        with pytest.raises(ConfigError, match="size=8,resize=10,grey: say the same, or nothing"):
            data_of_run(spec(own), "test", None, f"{pets},{other}")


def test_imagenet_is_a_preparation_too(pets):
    imagenet = ModelSpec("resnet50", 2, "none", 0.5, "imagenet", (3, 224, 224))
    assert data_of_run(imagenet, "test", None, pets).name.endswith("size=224,resize=256,colour")


def test_other_images_are_numbered_by_it_as_well(pets, tmp_path):
    np.savez(
        tmp_path / "a.npz",
        images=np.zeros((2, 8, 8), np.uint8),
        labels=[0, 1],
        class_names=["cat", "dog"],
    )
    with pytest.raises(
        DataError, match="class 0 is 'cat' in the data, which is class 1 of the network"
    ):
        data_of_run(spec(pets), "test", None, f"npz:{tmp_path / 'a.npz'}")
