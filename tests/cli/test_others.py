"""The command explain, and doctor of a machine."""

import dataclasses
import json
import re
import shutil

import pytest
import torch

from smoothcert.models import build_model
from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, run


def test_explain_draws_paths_and_ratios(capsys, certified, tmp_path):
    arguments = ["--index", 0, "--ratios", 3, "--noises", 4, "--steps", 2, "--out", tmp_path]
    assert run(capsys, "explain", certified, *arguments).count("wrote") == 3
    assert "smoothed confidence" in (tmp_path / "a-0.svg").read_text()
    assert (tmp_path / "mixing-ratios.tsv").read_text().startswith("run\tratio\na\t")
    assert "nothing to explain" in fails(capsys, "explain", certified, "--out", tmp_path)
    for words, message in (
        (["--index", 1000], "images 0 to 999, found index 1000"),
        (["--ratios", 1001], "ratios = 1001 is of mnist-mini, which has 1000 test images"),
    ):
        assert message in fails(capsys, "explain", certified, *words, "--out", tmp_path)


def test_explain_tells_runs_of_one_name_apart(capsys, certified, tmp_path):
    """As `reproduce` makes them: FOLDER/seed0 of each row."""
    runs = [
        shutil.copytree(certified, tmp_path / row / "seed0") for row in ("gaussian", "smoothmix")
    ]
    other = RunFolder(runs[1])
    other.save_model(build_model("lenet", seed=0), dataclasses.replace(other.spec(), weights=""))
    out = tmp_path / "out"
    arguments = ["--index", 1, "--ratios", 3, "--noises", 2, "--steps", 1, "--out", out]
    printed = run(capsys, "explain", *runs, *arguments)
    figures = [out / "gaussian-1.svg", out / "smoothmix-1.svg"]
    assert printed.splitlines()[:2] == [f"wrote {path}" for path in figures]
    for path, name in zip(figures, ("gaussian", "smoothmix"), strict=True):
        assert f"{name}, image 1 (" in path.read_text()
    drawn = (out / "mixing-ratios.svg").read_text()
    assert "gaussian: median" in drawn
    assert "smoothmix: median" in drawn
    assert (
        run(capsys, "explain", runs[0], runs[0], *arguments).count("seed0-1.svg") == 1
    )  # given twice, made once


@pytest.mark.parametrize(
    ("places", "files"),
    [
        (["a/x/seed0", "b/x/seed0"], ["a", "b"]),
        (["a/x", "b/y"], ["a-x", "b-y"]),
        (["a/b", "a-b"], ["a-b-1", "a-b-2"]),
        (["Row/seed0", "row/seed0"], ["Row-1", "row-2"]),
        (["a: 1?/seed0", "größe/seed0"], ["a-1", "größe"]),
    ],
)
def test_files_of_explain_have_safe_names_of_their_own(capsys, certified, tmp_path, places, files):
    for place in places:
        shutil.copytree(certified, tmp_path / place, ignore=shutil.ignore_patterns("certify"))
    arguments = ["--index", 0, "--noises", 1, "--steps", 1, "--out", tmp_path / "out"]
    run(capsys, "explain", *(tmp_path / place for place in places), *arguments)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        f"{name}-0.svg" for name in files
    )


def test_doctor_without_a_model_describes_the_machine_and_tests_its_noise(capsys):
    words = ["doctor", "--device", "cpu", "--samples", 2**18]
    printed = run(capsys, *words)
    assert "mnist-mini" in re.search(r"^data +(.*)$", printed, re.MULTILINE)[1]
    assert f"torch {torch.__version__}" in printed
    assert re.findall(r"^(\w+) noise, 262144 values$", printed, re.MULTILINE) == [
        *("exact", "uniform", "laplace", "float")
    ]
    found = json.loads(run(capsys, *words, "--noise", "exact", "--json"))
    assert found["noise"].keys() == {"exact"}
    assert len(found["noise"]["exact"]) > 5
    assert all(check["ok"] for check in found["noise"]["exact"])
    assert "at least" in fails(capsys, "doctor", "--device", "cpu", "--samples", 5)
