"""`smoothcert train`: what is refused in words, before anything is written."""

import shutil

import pytest

from tests.cli.commands import fails

SMALL = ["mnist-mini/gaussian-0.50", "--epochs", 1, "--evaluate-every", 0, "--device", "cpu"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--optimizer", "adam", "--momentum", 1.5], "momentum must be below 1"),
        (["--momentum", 1.5], "momentum must be below 1"),
        (["--augment", "imagenet"], "'imagenet' is for image folders"),
        (["--data-dir", "nowhere"], "--data-dir is a folder"),
        (["--soft-labels.fold", "x"], "'fold': did you mean folder"),
        (["--normalisation", "cifar10"], "the normalisation is of 3 channels"),
        (["--model", "resnet20", "--model-options.depth", 22], "the arguments depth"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing_behind(
    capsys, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    error = fails(capsys, "train", *SMALL, "--out", "new", *words)
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder_is_not_a_full_disk(capsys, tmp_path):
    (tmp_path / "file").touch()
    error = fails(capsys, "train", *SMALL, "--out", tmp_path / "file")
    assert "free some space" not in error
    assert "choose a folder that can be written" in error


@pytest.mark.parametrize("content", ["x", "", '{"epoch": 0}\n'])
def test_a_finished_run_with_damaged_metrics_says_so(capsys, certified, tmp_path, content):
    run = shutil.copytree(certified, tmp_path / "run")
    epochs = len((run / "metrics.jsonl").read_text().splitlines())
    (run / "metrics.jsonl").write_text(content)
    error = fails(capsys, "train", run / "config.yaml", "--out", run)
    assert f"metrics.jsonl is damaged: expected {epochs} epochs" in error


def test_verify_takes_no_data_directory_that_is_not_there(capsys, certified):
    assert "--data-dir is a folder" in fails(capsys, "verify", certified, "--data-dir", "nowhere")
