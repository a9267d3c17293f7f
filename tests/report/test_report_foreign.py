"""Run folders of other people's models: an unknown network, no class names, no config.yaml, data that is not here."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert import CertifyConfig, certify_dataset
from smoothcert.cli import main
from smoothcert.data import Dataset
from smoothcert.report import read_results
from smoothcert.runs.folder import ModelSpec, RunFolder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "theirs"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(75, 3)).eval()
    images = np.random.default_rng(0).integers(0, 256, (8, 3, 5, 5), np.uint8)
    data = Dataset("their-photos", "all", images, np.arange(8) % 3, 3)
    RunFolder(run).save_model(
        model, ModelSpec("their.package:Net", 3, "none", 0.5, "their-photos", (3, 5, 5))
    )
    certify_dataset(
        model, data, run / "certify" / "test", CertifyConfig(sigma=0.5, n=200), device="cpu", quiet=True
    )  # fmt: skip
    return run


def printed(capsys, *words):
    capsys.readouterr()
    main([str(word) for word in words])
    return capsys.readouterr().out


def test_it_is_reported_with_all_that_is_known(capsys, foreign, tmp_path):
    text = printed(capsys, "report", foreign, "--html", tmp_path / "page.html")
    assert text.splitlines()[2].split()[:3] == ["theirs/test", "0.5", "8"]
    page = (tmp_path / "page.html").read_text()
    for part in ("their-photos all", "not recorded", f"smoothcert certify {foreign} --name test"):
        assert part in page
    assert "smoothcert train" not in page  # nobody knows how it was trained
    assert 'id="gallery"' not in page
    (row,) = json.loads(printed(capsys, "report", foreign, "--json"))["rows"]
    assert (row["dataset"], row["training_seed"], row["published"], row["inputs"]) == (
        "their-photos",
        None,
        None,
        8,
    )


def test_its_state_is_told(capsys, foreign):
    assert f"{foreign}: imported model\n  certify test: all 8 inputs done" in printed(
        capsys, "status", foreign
    )
    (run,) = json.loads(printed(capsys, "status", foreign.parent, "--json"))["runs"]
    assert (run["state"], run["training"], run["finished"]) == ("imported", None, True)


@pytest.mark.parametrize("content", ["{}", "[", '{"architecture": 3, "class_names": null}', ""])
def test_a_report_needs_nothing_of_model_json(foreign, content):
    path = foreign / "model.json"
    before = path.read_text()
    path.write_text(content)
    try:
        assert read_results(foreign)[0].rows == 8
    finally:
        path.write_text(before)
