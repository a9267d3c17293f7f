"""fit(): it learns, the seed decides everything, and what cannot be trained is refused before anything is written."""

import dataclasses
import json

import pytest
import torch

from smoothcert.errors import (
    ConfigError,
    DataError,
    ModelError,
    SmoothcertError,
    StoreError,
    TrainingDiverged,
)
from smoothcert.runs.folder import RunFolder
from smoothcert.training.fit import fit
from tests.training.tiny import CONFIG, HERE, outcome, tiny, train


def test_it_learns_and_says_so(reference):
    metrics = reference.records("metrics.jsonl")
    assert [entry["epoch"] for entry in metrics] == [0, 1, 2]
    assert metrics[-1]["loss"] < 0.5 * metrics[0]["loss"]
    assert metrics[-1]["noisy_test_accuracy"] > 0.9
    assert 0.2 < metrics[-1]["most_frequent_answer"] < 0.5
    timing = reference.records("timing.jsonl")
    assert len(timing) == 3
    assert reference.finished


def test_the_seed_decides_everything(reference, tmp_path):
    torch.manual_seed(12345)  # the caller's generator must not matter
    assert outcome(train(tmp_path / "again")) == outcome(reference)
    other = train(tmp_path / "other", dataclasses.replace(CONFIG, seed=1))
    assert outcome(other)["weights.safetensors"] != outcome(reference)["weights.safetensors"]


def test_the_callers_generator_is_left_as_it_was(tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)


def test_a_finished_run_is_left_alone(reference):
    before = outcome(reference)
    state = (reference.path / "state.pt").stat().st_mtime_ns
    train(reference.path)
    assert outcome(reference) == before
    assert (reference.path / "state.pt").stat().st_mtime_ns == state


def test_another_configuration_is_refused_with_the_differing_settings(reference):
    before = outcome(reference)
    with pytest.raises(
        StoreError, match=r"epochs: 3 there, 4 asked; sigma: 0.25 there, 0.5 asked.*another folder"
    ):
        train(reference.path, dataclasses.replace(CONFIG, sigma=0.5, epochs=4))
    assert outcome(reference) == before


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"holds files but no config.yaml"):
        train(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_in_use_is_refused(tmp_path):
    run = RunFolder(tmp_path / "run")
    with run.lock(), pytest.raises(StoreError, match="another process is training"):
        train(run.path)


def test_an_unwritable_place_is_named():
    with pytest.raises(StoreError, match="could not write /proc/smoothcert"):
        train("/proc/smoothcert")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "lenet"}, r"cannot take the data's images, of shape \[1, 8, 8\]"),
        ({"model": f"{HERE}.ThreeClasses"}, r"logits \[2, 4\].*\[2, 3\]"),
        ({"model": f"{HERE}.Nothing"}, "no parameters"),
        ({"model": "renset20"}, "did you mean resnet20"),
        ({"normalisation": "cifar10"}, "channel"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_before_the_folder_is_claimed(
    tmp_path, change, message
):
    with pytest.raises(SmoothcertError, match=message):
        train(tmp_path / "run", dataclasses.replace(CONFIG, **change))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": {"name": "smoothmix", "etta": 5}}, "'etta': did you mean eta"),
        ({"method": {"name": "smoothmx"}}, "did you mean smoothmix"),
        ({"method": {"name": "smoothmix", "noises": None}}, "noises must be a whole number"),
        ({"method": {"name": "smoothmix", "warmup": 0}}, "warmup 1 or above"),
        ({"method": {"name": "catrs"}, "soft_labels": {"method": {"name": "macr"}}}, "macer"),
        ({"model": "renset20"}, "did you mean resnet20"),
        ({"normalisation": "cifar"}, "did you mean cifar"),
        ({"track": ["tensorbord"]}, "did you mean tensorboard"),
    ],
)
def test_wrong_settings_are_refused_before_data_is_loaded(tmp_path, change, message):
    """Or downloaded, which may take an hour: this data is nowhere, and that is not what is said."""
    settings = {name: value for name, value in change.items() if name != "track"}
    config = dataclasses.replace(CONFIG, dataset=f"npz:{tmp_path / 'nowhere.npz'}", **settings)
    with pytest.raises(ConfigError, match=message):
        fit(config, tmp_path / "run", track=change.get("track", ()), device="cpu", quiet=True)
    assert not (tmp_path / "run").exists()


def test_settings_that_do_not_suit_the_data_leave_nothing_behind(tmp_path):
    with pytest.raises(ConfigError, match="'imagenet' is for image folders"):
        train(tmp_path / "run", dataclasses.replace(CONFIG, augment="imagenet"))
    assert not (tmp_path / "run").exists()


def pictures(root, **sides):
    """A folder of training and test pictures: `train_cat=8` is a class of them, and their size."""
    from tests.data.test_pictures import save  # skips where there is no Pillow

    for name, side in sides.items():
        for seed in range(8):
            save(root / name.replace("_", "/") / f"{seed}.png", side, side, seed)
    return f"folder:{root}"


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"test_ant": 8, "test_cat": 8}, "'ant' among them, which is none"),
        ({"test_ant": 8, "test_bee": 8}, r"class names .*\('cat', 'dog'\), found \('ant', 'bee'\)"),
        ({"test_cat": 12, "test_dog": 12}, r"shape .*\(3, 8, 8\), found \(3, 12, 12\)"),
    ],
)
def test_test_images_of_another_kind_are_refused(tmp_path, test, message):
    """Their labels would mean other classes, and the network may not take their size."""
    place = pictures(tmp_path / "pets", train_cat=8, train_dog=8, **test)
    config = dataclasses.replace(CONFIG, dataset=place)
    with pytest.raises(DataError, match=message):
        fit(config, tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run").exists()


def test_test_images_of_another_kind_are_refused_in_python_too(tmp_path):
    other = tiny("test", 64, 1)
    for change in ({"images": other.images[:, :, :4]}, {"classes": 5}):
        with pytest.raises(DataError, match="of the training images"):
            train(tmp_path / "run", test=dataclasses.replace(other, **change))


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_damaged_picture_is_told_before_training(tmp_path, part):
    sizes = {f"{split}_{name}": 8 for split in ("train", "test") for name in ("cat", "dog")}
    place = pictures(tmp_path / "pets", **sizes)
    (tmp_path / "pets" / part / "dog" / "7.png").write_text("a download that failed")
    config = dataclasses.replace(CONFIG, dataset=place)
    with pytest.raises(DataError, match=r"dog/7.png: expected a readable picture"):
        fit(config, tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run").exists()


def test_training_does_not_start_from_weights_that_are_no_numbers(tmp_path):
    """It was said after a whole epoch."""
    config = dataclasses.replace(CONFIG, model=f"{HERE}.Broken")
    with pytest.raises(ModelError, match=r"found NaN or infinity in 1.fc.bias"):
        train(tmp_path / "run", config)
    assert not (tmp_path / "run").exists()


def test_a_run_that_lost_metrics_does_not_go_on(tmp_path):
    config = dataclasses.replace(CONFIG, method={"name": f"{HERE}.Exploding"})
    with pytest.raises(TrainingDiverged):
        train(tmp_path / "run", config)
    (tmp_path / "run" / "metrics.jsonl").write_text("x")
    with pytest.raises(StoreError, match=r"metrics\.jsonl is damaged"):
        train(tmp_path / "run", config)


def test_a_run_belongs_to_its_data(reference, tmp_path):
    """Finished or not: other data in the same folder is refused, not trained on."""
    with pytest.raises(StoreError, match="was trained on other data"):
        fit(CONFIG, reference.path, train=tiny(seed=5), device="cpu", quiet=True)
    config = dataclasses.replace(CONFIG, method={"name": f"{HERE}.Exploding"})
    with pytest.raises(TrainingDiverged):
        train(tmp_path / "run", config)
    with pytest.raises(StoreError, match="was trained on other data"):
        fit(
            config,
            tmp_path / "run",
            train=tiny(seed=5),
            test=tiny("test", 64, 1),
            device="cpu",
            quiet=True,
        )


def test_hyperparameters_may_be_tuples(tmp_path):
    config = dataclasses.replace(CONFIG, epochs=1, method={"name": f"{HERE}.Scaled"})
    before = outcome(train(tmp_path / "run", config))
    assert outcome(train(tmp_path / "run", config)) == before


def test_model_json_says_what_the_weights_are(reference):
    spec = json.loads((reference.path / "model.json").read_text())
    assert spec["architecture"] == CONFIG.model
    assert (spec["classes"], spec["sigma"], spec["shape"]) == (4, 0.25, [1, 8, 8])
