"""`smoothcert doctor`: what a newcomer sees before hours are spent."""

import json
import shutil

import numpy as np
import pytest

from smoothcert.cli import main
from tests.cli.commands import fails, given, run
from tests.cli.test_json import named_in_the_docs

QUICK = ["--images", 30, "--n", 1000, "--device", "cpu"]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(
        "smoothcert.evaluation.doctor.examine.__kwdefaults__", {"images": 200, "seconds": 0.3}
    )


def test_a_run_is_examined(capsys, certified):
    printed = run(capsys, "doctor", certified, *QUICK)
    assert "lenet, 10 classes" in printed
    assert printed.splitlines()[-1].startswith("result   ready: certify it with sigma 0.5")
    assert "1,000 images will take about" in printed
    assert "in units of images whose pixels lie in [0, 1]" in printed


def test_a_run_that_was_trained_without_noise_is_examined_too(capsys, certified, tmp_path):
    run_folder = shutil.copytree(
        certified, tmp_path / "plain", ignore=shutil.ignore_patterns("certify")
    )
    path = run_folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sigma": 0.0}))
    assert "under noise of sigma 0.25" in run(capsys, "doctor", run_folder, *QUICK)


def test_the_same_for_programs(capsys, certified):
    found = json.loads(run(capsys, "doctor", certified, *QUICK, "--json", "--radius", 0.25))
    assert found.keys() == named_in_the_docs()["doctor"] | {"smoothcert"}
    assert found["fit"]
    assert [row["sigma"] for row in found["levels"]] == [0.0, 0.12, 0.25, 0.5, 1.0]
    assert found["levels"][0]["certified"] is None
    assert found["limits"]["largest_radius"] > 1
    assert found["radii"] == [0.25]
    assert 0 < found["radii_seconds"] < found["seconds"]


def test_a_fault_shows_in_the_exit_status(capsys, certified, tmp_path):
    data = tmp_path / "noise.npz"
    rng = np.random.default_rng(0)
    np.savez(
        data, images=rng.integers(0, 256, (40, 28, 28), dtype=np.uint8), labels=np.arange(40) % 10
    )
    with pytest.raises(SystemExit) as stop:
        main(["doctor", str(certified), "--data", f"npz:{data}", *map(str, QUICK)])
    assert stop.value.code == 1
    printed = capsys.readouterr().out
    assert "ERROR" in printed
    assert "not ready: " in printed.splitlines()[-1]
    assert "ready: certify" not in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "mnist-mini"], "name one network"),
        (["--model", "lenet"], "also needs --data"),
        (["--model", "lenet", "--data", "mnist-mini"], "has no weights of its own"),
    ],
)
def test_what_is_missing_is_named(capsys, words, message):
    assert message in fails(capsys, "doctor", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--n0", -3], "found -3"),
        (["--alpha", 0], "found 0"),
        (["--n", 5], "use n >= 10"),
        (["--radius", -0.25], "found [-0.25]"),
        (["--sigma", 25], "0.098"),
    ],
)
def test_settings_are_judged_before_anything_is_loaded(capsys, tmp_path, words, message):
    assert message in fails(capsys, "doctor", tmp_path / "no run", *words)


@pytest.mark.parametrize(
    "words",
    [
        ("doctor", "{run}"),
        ("certify", "{run}"),
        ("attack", "{run}", "--radius", 0.5),
        ("train", "mnist-mini/gaussian-0.50", "--out", "{new}"),
        ("certify", "--model", "lenet", "--data", "mnist-mini", "--out", "{new}"),
        ("import", "weights.pth", "--data", "mnist", "--out", "{new}"),
    ],
)
def test_a_sigma_of_grey_levels_is_asked_about(capsys, certified, tmp_path, words):
    places = {"run": certified, "new": tmp_path / "new"}
    said = fails(capsys, *(str(word).format(**places) for word in words), "--sigma", 25)
    assert all(part in said for part in ("[0, 1]", "found 25", "8-bit", "0.098"))
    assert not places["new"].exists()


def test_limits_are_those_of_the_noise(capsys, certified):
    printed = run(
        capsys, *given(["doctor", certified, *QUICK], "--noise", "uniform", "--n", 100_000)
    )
    assert "no radius exceeds 0.866" in printed
    assert "l1 norm" in printed
