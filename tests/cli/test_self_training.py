"""The settings of self-training from recipes and the command line."""

import numpy as np
import torch
from torch import nn

from smoothcert.cli import main
from smoothcert.config import SelfTraining
from smoothcert.data import Dataset, load_dataset
from smoothcert.recipes import load_recipe
from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, run
from tests.training.tiny import write_pseudo


class Flat(nn.Sequential):
    def __init__(self, classes=10):
        super().__init__(nn.Flatten(), nn.Linear(784, classes))


def test_the_command_line_and_recipes_merge_its_settings(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "dataset: mnist\nmodel: lenet\nsigma: 0.5\nmethod: {name: gaussian}\nself_training: {path: a, weight: 0.1}\n"
    )
    assert load_recipe(
        str(recipe), {"self_training": {"path": "b"}}
    ).config.self_training == SelfTraining("b", 0.1)
    whole = load_dataset("mnist-mini", "train")
    path = write_pseudo(
        tmp_path / "digits.npz",
        Dataset("part", "train", whole.images[:2000], whole.labels[:2000], 10),
    )
    options = [
        "--self-training.path",
        path,
        "--self-training.weight",
        "0.1",
        "--batch-size",
        "2000",
        "--epochs",
        "1",
    ]
    options += ["--model", "tests.cli.test_self_training.Flat", "--evaluate-every", "0"]
    main(
        [
            "train",
            "mnist-mini/gaussian-0.50",
            "--out",
            str(tmp_path / "run"),
            "--device",
            "cpu",
            *options,
        ]
    )
    run = RunFolder(tmp_path / "run")
    assert run.config().self_training == SelfTraining(path, weight=0.1)
    assert run.records("metrics.jsonl")[0]["pseudo_labelled_loss"] > 0


def test_from_unlabelled_images_to_a_self_trained_run(tmp_path, capsys):
    """SmoothAdv, appendix E.2: a standard network labels images, and both kinds train another."""
    model = ["--model", "tests.cli.test_self_training.Flat", "--evaluate-every", "0"]
    learn = ["--epochs", "1", "--batch-size", "500", "--device", "cpu", *model]
    start = ["train", "mnist-mini/gaussian-0.50", *learn]
    run(capsys, *start, "--sigma", "0", "--out", tmp_path / "standard")
    some = load_dataset("mnist-mini", "test").images
    np.savez(tmp_path / "some.npz", images=some)  # without labels
    label = ["predict", tmp_path / "standard", f"npz:{tmp_path / 'some.npz'}"]
    label += ["--trust-code", "--device", "cpu", "--pseudo-labels", tmp_path / "labelled.npz"]
    said = run(capsys, *label)
    assert "1000 pseudo-labels" in said
    network, _ = RunFolder(tmp_path / "standard").load_model(trust_code=True)
    with np.load(tmp_path / "labelled.npz") as file:
        assert np.array_equal(file["data"], some.transpose(0, 2, 3, 1))
        answers = network(torch.from_numpy(some).float() / 255).argmax(1)
        assert file["extrapolated_targets"].tolist() == answers.tolist()
    assert "a new .npz file" in fails(capsys, *label)  # it is there
    trained = ["--self-training.path", tmp_path / "labelled.npz", "--as-printed"]
    run(capsys, *start, *trained, "--out", tmp_path / "self")
    (epoch,) = RunFolder(tmp_path / "self").records("metrics.jsonl")
    assert epoch["pseudo_labelled_loss"] > 0
    assert RunFolder(tmp_path / "self").config().as_printed


def test_pseudo_labels_are_of_one_data_set(capsys):
    words = ["predict", "run", "a.png", "b.png", "--pseudo-labels", "labels.npz"]
    assert "of one data set" in fails(capsys, *words)
