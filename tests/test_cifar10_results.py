"""results/cifar10.py on small runs of ours beside logs in the authors' format; numbers are computed here anew."""

import csv
import json
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from smoothcert.cli import main

SCRIPT = Path(__file__).parents[1] / "results" / "cifar10.py"
LOGS = {
    sigma: f"cifar10/noise_{sigma:g}/cohen/noise_{sigma:g}.tsv" for sigma in (0.25, 0.5)
}  # of Gaussian training
LABELS = [3, 3, 3, 9] * 2  # of enough images that differences have intervals
SMALL = ["--epochs", "6", "--evaluate-every", "0", "--lr", "0.01"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Gaussian training at sigma 0.25, and at sigma 0.5 with two seeds, certified on the same eight images.

    The second seed with fewer samples: both learn their images by heart, and would have the same radii else.
    """
    folder, rng = tmp_path_factory.mktemp("cifar10"), np.random.default_rng(0)
    images, labels = (
        rng.integers(0, 256, (16, 28, 28), dtype=np.uint8),
        np.array([*LABELS, *[3] * 8]),
    )
    arrays = {
        "train_images": images,
        "train_labels": labels,
        "test_images": images[:8],
        "test_labels": labels[:8],
    }
    np.savez(folder / "tiny.npz", **arrays)
    for name, seed, n in (
        ("gaussian-0.25", 0, 200),
        ("gaussian-0.50/seed0", 0, 200),
        ("gaussian-0.50/seed1", 1, 100),
    ):
        words = [
            "train",
            f"mnist/{name.partition('/')[0]}",
            "--data",
            f"npz:{folder / 'tiny.npz'}",
            *SMALL,
        ]
        main([*words, "--seed", str(seed), "--out", str(folder / "runs" / name)])
        main(["certify", str(folder / "runs" / name), "--n", str(n), "--seed", "0"])
    return folder / "runs"


@pytest.fixture
def runs(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "runs")


def radii(run):
    """Of each image as the field's logs print it, 0 where the answer is not the label; from the rows as they lie."""
    with (run / "certify" / "test" / "part-0-of-1.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [
        float(format(float(row["radius"]), ".3")) * (row["predict"] == row["label"]) for row in rows
    ]


def write_log(folder, sigma, rows):
    """Rows of (idx, label, radius), all of them answered correctly, as the authors write them."""
    path = folder / LOGS[sigma]
    path.parent.mkdir(parents=True)
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    lines += [
        f"{index}\t{label}\t{label}\t{radius:.3}\t1\t0:00:12.345678"
        for index, label, radius in rows
    ]
    path.write_text("\n".join(lines) + "\n")


def compare(monkeypatch, runs):
    """What the script writes for runs beside the logs in the folder above them."""
    out = runs.parent / "out.json"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(runs), str(runs.parent), "--out", str(out)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return json.loads(out.read_text())


def test_runs_beside_their_logs(monkeypatch, runs):
    """The logs have images that we have not certified; those count for nothing but `acr_on_all_images`."""
    seeds = [radii(runs / "gaussian-0.50" / f"seed{seed}") for seed in (0, 1)]
    single, mean = np.mean(radii(runs / "gaussian-0.25")), np.mean(seeds)
    far, near = round(single + 0.05, 2), round(mean - 0.01, 2)  # at most 0.005 from what is meant
    for sigma, radius in ((0.25, far), (0.5, near)):
        rows = [(index, label, radius) for index, label in enumerate(LABELS)]
        write_log(runs.parent, sigma, [*rows, (11, 1, 1.75), (13, 2, 1.75)])
    first, second = compare(monkeypatch, runs)

    assert (first["recipe"], first["inputs"]) == ("cifar10/gaussian-0.25", 8)
    assert (first["acr"], first["log"]["acr"]) == pytest.approx((single, far), abs=6e-5)
    assert first["difference"] == pytest.approx(single - far, abs=6e-5)
    assert (first["reproduced"], first["allowed_difference"]) == (False, 0.02)
    assert first["log"]["acr_on_all_images"] == pytest.approx((8 * far + 2 * 1.75) / 10, abs=6e-5)
    assert first["log"]["certified_accuracy"] == {
        f"{r / 4:g}": float(r / 4 <= far) for r in range(11)
    }

    assert (second["recipe"], second["inputs"], second["reproduced"]) == (
        "cifar10/gaussian-0.50",
        8,
        True,
    )
    assert second["acr"] == pytest.approx(mean, abs=6e-5)
    assert second["difference"] == pytest.approx(mean - near, abs=6e-5)
    assert [each["seed"] for each in second["seeds"]] == [0, 1]
    for each, found in zip(second["seeds"], seeds, strict=True):
        assert each["acr"] == pytest.approx(np.mean(found), abs=6e-5)
        assert each["difference"]["value"] == pytest.approx(np.mean(found) - near, abs=6e-5)
        assert (
            each["difference"]["low"] <= each["difference"]["value"] <= each["difference"]["high"]
        )
        assert each["certified_accuracy"]["0.25"] == np.mean(np.array(found) >= 0.25)
        assert (each["training"]["epochs"], each["certification"]["every"]) == (6, 1)
    assert [each["certification"]["n"] for each in second["seeds"]] == [200, 100]
    assert seeds[0] != seeds[1]  # else a mean over seeds would show nothing
    assert max(map(np.mean, seeds)) > 0.2


def test_rows_whose_certificates_are_elsewhere_stay(monkeypatch, runs):
    for sigma in LOGS:
        write_log(runs.parent, sigma, [(index, label, 0.5) for index, label in enumerate(LABELS)])
    whole = compare(monkeypatch, runs)
    shutil.rmtree(runs / "gaussian-0.50")
    assert compare(monkeypatch, runs) == whole
    (runs.parent / "out.json").unlink()
    alone = compare(monkeypatch, runs)
    assert alone == whole[:1]


@pytest.mark.parametrize(
    ("indices", "labels", "said"),
    [
        (range(8, 16), LABELS, "no input in common"),
        (range(8), [*LABELS[:-1], 8], "other labels at the same indices"),
        (range(1, 8), LABELS[1:], "images were certified that the log does not have"),
    ],
)
def test_what_cannot_be_paired_is_refused_and_nothing_is_written(
    monkeypatch, runs, indices, labels, said
):
    shutil.rmtree(runs / "gaussian-0.50")
    write_log(
        runs.parent,
        0.25,
        [(index, label, 0.5) for index, label in zip(indices, labels, strict=True)],
    )
    with pytest.raises(
        SystemExit, match=f"cifar10/gaussian-0.25 cannot be compared with .*: {said}$"
    ):
        compare(monkeypatch, runs)
    assert not (runs.parent / "out.json").exists()


def test_seeds_of_different_images_have_no_mean(monkeypatch, runs):
    shutil.rmtree(runs / "gaussian-0.50" / "seed1" / "certify")
    main(
        [
            "certify",
            str(runs / "gaussian-0.50" / "seed1"),
            "--n",
            "200",
            "--seed",
            "0",
            "--max",
            "2",
        ]
    )
    for sigma in LOGS:
        write_log(runs.parent, sigma, [(index, label, 0.5) for index, label in enumerate(LABELS)])
    with pytest.raises(
        SystemExit, match=r"gaussian-0.50 cannot .*: its seeds were certified on different images$"
    ):
        compare(monkeypatch, runs)


def test_a_folder_without_certificates_is_refused(monkeypatch, tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(SystemExit, match="has certificates in"):
        compare(monkeypatch, tmp_path / "runs")
