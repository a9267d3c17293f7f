"""`smoothcert predict`: pictures and arrays are answered with a radius, unusable ones are named."""

import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.data import load_dataset
from smoothcert.runs.data_of import data_of_run
from smoothcert.runs.folder import RunFolder
from smoothcert.statistics.printed import UNITS
from tests.cli.commands import fails, run


def test_predict_reads_pictures_and_arrays(capsys, certified, tmp_path):
    test = load_dataset("mnist-mini", "test")
    Image.fromarray(test.image(0)[0]).save(tmp_path / "digit.png")
    np.save(tmp_path / "digit.npy", test.image(0))
    np.save(tmp_path / "grey.npy", np.full((1, 28, 28), 0.5, np.float32))
    lines = run(
        capsys, "predict", certified, tmp_path / "digit.png", tmp_path / "digit.npy", "--n", 500
    ).splitlines()
    assert "28x28" in lines.pop(-2)
    assert lines.pop() == f"each with n0 = 100, n = 500, alpha = 0.001, exact noise; {UNITS}"
    answers = [line.split(": ", 1)[1] for line in lines]
    assert re.fullmatch(r"\w+, certified radius \d\.\d{4} \(p >= 0\.\d{6}\)", answers[0])
    assert answers[0].split(",")[0] == answers[1].split(",")[0]
    assert "needs an 8-bit image" in fails(
        capsys, "predict", certified, tmp_path / "grey.npy", "--n", 500
    )
    answer, _, _, note = run(
        capsys, "predict", certified, tmp_path / "digit.png", "--n", 500, "--noise", "float"
    ).splitlines()
    assert "certified radius" in answer
    assert note == "note: float noise: not formally sound"
    assert "note" in run(
        capsys, "predict", certified, tmp_path / "grey.npy", "--n", 20, "--noise", "float"
    )
    line, *_ = run(
        capsys, "predict", certified, tmp_path / "digit.png", "--n", 500, "--noise", "laplace"
    ).splitlines()
    assert ", certified l1 radius " in line


def test_printed_numbers_never_exceed_the_proved_ones(capsys, certified, tmp_path):
    test = load_dataset("mnist-mini", "test")
    model, spec = RunFolder(certified).load_model()
    smoothed = SmoothedClassifier(model, CertifyConfig(spec.sigma, n=500), device="cpu")
    paths = [tmp_path / f"{i}.npy" for i in range(8)]
    for i, path in enumerate(paths):
        np.save(path, test.image(i))
    words = ["predict", certified, *paths, "--n", 500, "--device", "cpu"]
    *lines, _ = run(capsys, *words).splitlines()
    told = json.loads(run(capsys, *words, "--json"))
    assert (told["n"], told["alpha"], told["noise"], told["note"]) == (500, 0.001, "exact", None)
    certificates = [smoothed.certify(test.image(i), i) for i in range(8)]
    for path, answer, proved in zip(paths, told["images"], certificates, strict=True):
        assert (answer["path"], answer["norm"], answer["abstained"]) == (
            str(path),
            "l2",
            proved.abstained,
        )
        assert (answer["radius"], answer["p_lower"]) == (
            proved.radius,
            proved.p_lower,
        )  # to the last digit
        assert answer["predict"] == (None if proved.abstained else proved.predict)
        assert answer["class"] == (None if proved.abstained else test.class_names[proved.predict])
        assert sum(answer["counts"].values()) == 500
    for line, proved in zip(lines, certificates, strict=True):
        if found := re.search(r"radius ([\d.]+) \(p >= ([\d.]+)\)", line):
            assert 0 <= proved.radius - float(found[1]) < 1e-4
            assert 0 <= proved.p_lower - float(found[2]) < 1e-6
    assert sum("radius" in line for line in lines) >= 4


def test_a_photo_is_prepared_as_those_of_the_run_itself(capsys, certified, tmp_path, monkeypatch):
    """As `certify` does it: the centre of 30 pixels, not all of the picture in 28."""
    pixels = np.random.default_rng(0).integers(0, 256, (60, 45, 3)).astype(np.uint8)
    (tmp_path / "photos" / "test").mkdir(parents=True)
    photo = tmp_path / "photos" / "test" / "a.png"
    Image.fromarray(pixels).save(photo)
    run_folder = shutil.copytree(certified, tmp_path / "run")
    about = json.loads((run_folder / "model.json").read_text())
    about["dataset"] = "folder:photos,size=28,resize=30,grey"
    (run_folder / "model.json").write_text(json.dumps(about))
    monkeypatch.chdir(tmp_path)
    found = load_dataset("folder:photos,size=28,resize=30,grey")
    np.save("as_certified.npy", found.image(0))
    words = ["predict", "run", "--n", 200, "--seed", 1]
    *_, told, _ = run(capsys, *words, photo).splitlines()
    assert "shorter side to 30" in told
    answers = [
        json.loads(run(capsys, *words, path, "--json")) for path in (photo, "as_certified.npy")
    ]
    assert answers[0]["images"][0]["counts"] == answers[1]["images"][0]["counts"]
    assert "shorter side to 30" in answers[0]["preparation"]


@pytest.mark.parametrize(
    "own", ["mnist-mini", "folder:photos", "npz:digits.npz", "hf-dataset:photos", "tar:photos.tar"]
)
def test_a_photo_becomes_what_certify_made_of_it_whatever_the_run_was_made_for(
    capsys, certified, tmp_path, monkeypatch, own
):
    """A coloured photo of another size, which `certify RUN --data folder:photos` takes, too."""
    pixels = np.random.default_rng(0).integers(0, 256, (49, 57, 3)).astype(np.uint8)
    (tmp_path / "photos" / "test").mkdir(parents=True)
    photo = tmp_path / "photos" / "test" / "a.jpg"
    Image.fromarray(pixels).save(photo)
    run_folder = shutil.copytree(certified, tmp_path / "run")
    about = json.loads((run_folder / "model.json").read_text())
    (run_folder / "model.json").write_text(json.dumps({**about, "dataset": own}))
    monkeypatch.chdir(tmp_path)
    spec = RunFolder("run").spec()
    np.save("as_certified.npy", data_of_run(spec, "test", None, "folder:photos").image(0))
    words = ["predict", "run", "--n", 200, "--seed", 1]
    answers = [
        json.loads(run(capsys, *words, path, "--json"))["images"][0]["counts"]
        for path in (photo, "as_certified.npy")
    ]
    assert answers[0] == answers[1]


def test_a_run_without_noise_is_predicted_with_the_noise_that_is_named(capsys, certified, tmp_path):
    run_folder = shutil.copytree(certified, tmp_path / "run")
    about = json.loads((run_folder / "model.json").read_text())
    (run_folder / "model.json").write_text(json.dumps({**about, "sigma": 0.0}))
    np.save(tmp_path / "digit.npy", load_dataset("mnist-mini", "test").image(0))
    words = ["predict", run_folder, tmp_path / "digit.npy", "--n", 100]
    assert "sigma" in fails(capsys, *words)
    assert "certified radius" in run(capsys, *words, "--sigma", 0.25)


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("no.png", None, "no image file at"),
        ("text.png", lambda path: path.write_text("not a picture"), "expected a readable picture"),
        (
            "deep.png",
            lambda path: Image.fromarray(np.full((28, 28), 300, np.uint16)).save(path),
            "8 bits per channel",
        ),
        (
            "float.tif",
            lambda path: Image.fromarray(np.zeros((28, 28), np.float32)).save(path),
            "8 bits per channel",
        ),
        ("text.npy", lambda path: path.write_text("not an array"), "is not a readable .npy array"),
        (
            "nan.npy",
            lambda path: np.save(path, np.full((1, 28, 28), np.nan)),
            "NaN or infinite pixels",
        ),
        (
            "rgb.npy",
            lambda path: np.save(path, np.zeros((3, 28, 28), np.uint8)),
            r"found \[3, 28, 28\]",
        ),
        ("empty.npy", lambda path: path.write_bytes(b""), "is not a readable .npy array"),
        ("clear.png", lambda path: Image.new("LA", (28, 28)).save(path), "has transparent pixels"),
        (
            "objects.npy",
            lambda path: np.save(path, np.array([{}]), allow_pickle=True),
            "is not a readable .npy array",
        ),
    ],
)
def test_unusable_images_are_named(capsys, certified, tmp_path, name, make, message):
    path = tmp_path / name
    if make:
        make(path)
    error = fails(capsys, "predict", certified, path, "--n", 100)
    assert str(path) in error
    assert error.count("\n") == 1
    assert re.search(message, error)
