"""`smoothcert train --soft-labels-only`: labels made ahead of the training that reads them."""

import json
import shutil

import numpy as np
import pytest
from torch import nn

from smoothcert.cli import main
from smoothcert.training import soft_labels
from tests.cli.digits import write_digits


class Coarse(nn.Sequential):
    """A linear classifier of 7 x 7 pixels: fast, and far better than chance."""

    def __init__(self, classes=10):
        super().__init__(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(49, classes))


SIZE = 2000  # of the images
RECIPE = ["train", "mnist/catrs-0.50", "--data", "npz:some.npz", "--device", "cpu"]
RECIPE += ["--soft-labels.n", "3", "--soft-labels.model", "tests.cli.test_soft_labels.Coarse"]
RECIPE += ["--soft-labels.epochs", "8", "--soft-labels.lr", "0.1", "--soft-labels.lr_drops", "[7]"]
SHORT = ["--model", "tests.cli.test_soft_labels.Coarse", "--epochs", "1", "--method.noises", "2"]


def made(labels, *more):
    """The words that make labels, and nothing else, in a folder."""
    words = ["--soft-labels.folder", str(labels), "--soft-labels-only", "--out", f"{labels}-run"]
    return [*RECIPE, *words, *more]


@pytest.fixture(scope="module", autouse=True)
def true_labels(tmp_path_factory):
    """Of the images, which lie where every command looks for data."""
    place = tmp_path_factory.mktemp("data")
    labels = write_digits(place / "some.npz", SIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMOOTHCERT_DATA", str(place))
        yield labels


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made ahead") / "labels"
    main(made(folder))
    return folder


def contents(folder):
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def refusal(capsys, *arguments):
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    printed = capsys.readouterr()
    assert not printed.out
    (line,) = printed.err.splitlines()
    return line


def trained(labels, out):
    """The weights of a short training that reads these labels."""
    main([*RECIPE, *SHORT, "--soft-labels.folder", str(labels), "--out", str(out)])
    assert not (out / "soft-labels").exists()
    return (out / "weights.safetensors").read_bytes()


def test_labels_made_ahead_are_kept_and_are_those_that_train_reads(
    capsys, labels, true_labels, tmp_path
):
    before = contents(labels)
    main(made(labels))
    printed = capsys.readouterr().out
    counts = np.load(labels / "counts.npy")
    assert counts.sum(axis=1).tolist() == [3] * SIZE
    right = (counts.argmax(axis=1) == true_labels).mean()
    assert right > 0.5
    assert printed.splitlines() == [
        f"{labels}: soft labels of {SIZE} images of npz:some.npz, 3 votes each",
        f"the most-voted class is the label of {100 * right:.1f} % of the images",
    ]
    assert not labels.with_name("labels-run").exists()
    weights = trained(labels, tmp_path / "run")
    assert contents(labels) == before

    other = shutil.copytree(
        labels, tmp_path / "other"
    )  # votes for the wrong classes, under a true checksum
    np.save(other / "counts.npy", np.roll(counts, 1, axis=1))
    record = json.loads((other / "labels.json").read_text())
    (other / "labels.json").write_text(
        json.dumps({**record, "sha256": soft_labels.file_sha256(other / "counts.npy")})
    )
    assert trained(other, tmp_path / "misled") != weights
    assert trained(shutil.copytree(labels, tmp_path / "same"), tmp_path / "again") == weights


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["n", "4"],
            "holds other soft labels than this run needs (n: 3 there, 4 asked): give another folder",
        ),
        (["seed", "1"], "model belongs to another configuration (seed: 0 there, 1 asked)"),
        (
            ["sigma", "0.5"],
            "model belongs to another configuration (sigma: 0.25 there, 0.5 asked)",
        ),
        (
            ["model", "lenet"],
            "model belongs to another configuration (model: 'tests.cli.test_soft_labels.Coarse'",
        ),
    ],
)
def test_a_folder_of_other_labels_is_refused_by_the_command(capsys, labels, settings, message):
    before, changed, (name, value) = contents(labels), made(labels), settings
    if f"--soft-labels.{name}" in changed:
        changed[changed.index(f"--soft-labels.{name}") + 1] = value
    else:
        changed += [f"--soft-labels.{name}", value]
    assert message in refusal(capsys, *changed)
    assert contents(labels) == before


def test_labels_made_ahead_of_other_data_or_damaged_are_refused(capsys, labels, tmp_path):
    copy = shutil.copytree(labels, tmp_path / "copy")
    model = json.loads((copy / "model" / "model.json").read_text())
    (copy / "model" / "model.json").write_text(json.dumps({**model, "data": "0" * 64}))
    assert "model was trained on other data than given now" in refusal(capsys, *made(copy))
    (copy / "model" / "model.json").write_text(json.dumps(model))
    (copy / "counts.npy").write_bytes((labels / "counts.npy").read_bytes()[:-1])
    assert "is not the file that labels.json describes" in refusal(capsys, *made(copy))


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            "method: {name: gaussian}",
            "expected a method that reads soft labels, such as catrs, found gaussian",
        ),
        (
            "method: {name: catrs, lam: 0}",
            "found catrs, which as it is set reads none: give another recipe",
        ),
        (
            "method: {name: catrs}\nself_training: {path: x}",
            "no soft labels, which the method catrs needs",
        ),
    ],
)
def test_a_recipe_without_use_for_soft_labels_is_refused(capsys, tmp_path, recipe, message):
    (tmp_path / "own.yaml").write_text(f"dataset: mnist-mini\nmodel: lenet\nsigma: 0.5\n{recipe}\n")
    assert message in refusal(
        capsys, "train", tmp_path / "own.yaml", "--out", tmp_path / "run", "--soft-labels-only"
    )
    assert not (tmp_path / "run").exists()
