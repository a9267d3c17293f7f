"""`smoothcert try`: ten digits with certificates that hold, a page, a run; also from the wheel."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothcert import load_dataset, load_model, read_results
from smoothcert.evaluation.trial import DIGITS, Trial
from smoothcert.statistics.certificate import ABSTAIN
from tests.cli.commands import fails, run

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """The trial of a folder of its own, and its digits with what attacks have found."""
    trial = Trial(tmp_path_factory.mktemp("try"), 500)
    return trial, trial.attacked([*trial.certified()])


def test_digits_are_certified_right_and_attacks_break_them_outside_of_their_radius_alone(tried):
    trial, digits = tried
    assert len(digits) == DIGITS
    right = [digit for digit in digits if digit.certificate.predict == digit.label]
    assert len(right) >= 8
    assert not any(digit.contradicted for digit in digits)
    assert sum(digit.outside is not None for digit in right) >= 5
    for index, digit in enumerate(digits):
        if not digit.outside:
            continue
        radius = digit.certificate.radius
        assert digit.inside.distance <= radius < digit.outside.distance
        assert digit.inside.predict in (ABSTAIN, digit.label) != digit.outside.predict
        for one in (digit.inside, digit.outside):
            change = (one.image.astype(float) - digit.image) / 255
            assert np.linalg.norm(change) == pytest.approx(one.distance)
            assert trial.smoothed.predict(torch.from_numpy(one.image), index) == one.predict


def test_the_noisy_copy_is_one_of_those_that_vote(tried):
    trial, digits = tried
    config, image = trial.config, torch.from_numpy(digits[3].image)
    (first,) = trial.smoothed.count(image, 1, "selection", 3)[None]
    noisy = torch.from_numpy(digits[3].noisy).float() / 255
    assert torch.unique(noisy).numel() > 50
    assert int(trial.smoothed.model(noisy[None]).argmax()) == int(first.argmax())
    assert (
        abs(float((noisy - image / 255).std()) - config.sigma) < 0.25
    )  # what is shown is cut to [0, 1]


def test_the_page_and_the_run_have_the_certificates_that_were_printed(capsys, tmp_path):
    out = tmp_path / "out"
    printed = run(capsys, "try", "--out", out, "--n", 500)
    rows = re.findall(r"^ +(\d) +(\d|none) [ #]+ (\d+) of 500 +(\S+)$", printed, re.MULTILINE)
    (stored,) = read_results(out / "mini")
    assert [int(row[0]) for row in rows] == stored.label.tolist()
    for (_, answer, votes, radius), predict, counts, proved in zip(
        rows, stored.predict, stored.counts, stored.radius, strict=True
    ):
        if answer == "none":
            assert predict == ABSTAIN
            continue
        assert int(answer) == predict
        assert f"{predict}:{votes}" in str(counts).split(",")
        assert 0 <= proved - float(radius) < 0.01
    page = (out / "report.html").read_text()
    assert page.count("data:image/png") >= 3 * DIGITS
    assert printed.isascii()
    capsys.readouterr()
    assert "verified: 10 rows" in run(capsys, "verify", out / "mini")
    again = run(capsys, "try", "--out", out, "--n", 500)  # into the same folder
    assert again == printed


def test_a_folder_of_something_else_is_left_alone(capsys, tmp_path):
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini" / "notes.txt").write_text("mine")
    assert "new folder" in fails(capsys, "try", "--out", tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["mini", "notes.txt"]


def test_the_small_network_is_small_and_certifies_most_digits():
    folder = ROOT / "smoothcert" / "models" / "mini"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 120_000
    model, test = load_model("mini"), load_dataset("mnist-mini", "test")
    with torch.inference_mode():
        answers = model(torch.from_numpy(test.images).float() / 255).argmax(1).numpy()
    assert (answers == test.labels).mean() > 0.95


@pytest.mark.long
def test_it_works_from_the_wheel_in_an_empty_folder(tmp_path):
    """In an environment that has the packages of this one, and smoothcert from the wheel alone."""
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", tmp_path, ROOT]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    unpacked, place = tmp_path / "unpacked", tmp_path / "empty"
    shutil.unpack_archive(wheel, unpacked, "zip")
    place.mkdir()
    code = f"import sys; sys.path.insert(0, {str(unpacked)!r}); from smoothcert.cli import main; main(['try'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=True
    )
    assert "wrote smoothcert-try" in done.stdout
    assert (place / "smoothcert-try" / "report.html").stat().st_size > 50_000


@pytest.mark.long
def test_the_demo_ends_with_a_page_of_both_methods(tmp_path):
    """The lines of examples/demo.sh, with fewer epochs: each can be typed by hand."""
    text = (ROOT / "examples" / "demo.sh").read_text()
    program = f"{sys.executable} -m smoothcert"
    text = re.sub(r"^smoothcert", program, text, flags=re.MULTILINE)
    text = re.sub(r"^(.* train .*)$", r"\1 --epochs 1", text, flags=re.MULTILINE)
    subprocess.run(["sh", "-c", text], cwd=tmp_path, check=True, capture_output=True)
    page = (tmp_path / "smoothcert-demo" / "report.html").read_text()
    assert "gaussian" in page
    assert "consistency" in page
