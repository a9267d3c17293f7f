"""fit(): it learns, the seed decides everything, and what cannot be trained is refused before anything is written."""

import dataclasses
import json

import pytest
import torch

from smoothcert.errors import SmoothcertError, StoreError, TrainingDiverged
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
        StoreError, match=r"epochs: 3 there, 4 asked; sigma: 0.25 there, 0.5 asked.*another --out"
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
