"""The settings of self-training from recipes and the command line."""

from torch import nn

from smoothcert.cli import main
from smoothcert.config import SelfTraining
from smoothcert.data import Dataset, load_dataset
from smoothcert.recipes import load_recipe
from smoothcert.runs.folder import RunFolder
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
