"""Whole tables: what is planned, skipped, tabulated, and what counts as reproduced."""

import gzip
import io
import json
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from smoothcert.cli import main
from smoothcert.errors import ConfigError, DataError
from smoothcert.evaluation.reproduce import (
    Job,
    _say,
    check_data,
    outcome,
    plan,
    published_outcome,
    results_table,
    run_jobs,
)
from smoothcert.recipes import recipe_names
from smoothcert.recipes.published import published_rows
from smoothcert.report.read.certificates import Certificates
from smoothcert.verification.unpack import unpack

PACK = Path(__file__).parents[2] / "results" / "mnist-gaussian-0.50.zip"


def test_denoisers_are_no_rows_of_a_table(tmp_path):
    assert "mnist/denoiser-0.50" in recipe_names()
    assert not [job for job in plan("mnist", tmp_path) if "denoiser" in job.recipe]
    with pytest.raises(ConfigError, match="denoisers have no certificates"):
        plan("mnist", tmp_path, ["denoiser-*"])


def test_rows_and_seeds_are_planned(tmp_path):
    jobs = plan("mnist", tmp_path, ["gaussian-*", "smoothmix-0.50"], [0, 3])
    assert [(job.recipe, job.seed) for job in jobs][:4] == [
        ("mnist/gaussian-0.25", 0),
        ("mnist/gaussian-0.25", 3),
        ("mnist/gaussian-0.50", 0),
        ("mnist/gaussian-0.50", 3),
    ]
    assert len(jobs) == 8
    assert jobs[0].train == [
        "train",
        jobs[0].recipe,
        "--seed",
        "0",
        "--out",
        str(tmp_path / "gaussian-0.25" / "seed0"),
    ]
    assert len(plan("mnist", tmp_path)) == 33 + 3  # the table of the papers, and settings of ours


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mnst",), "did you mean mnist"),
        (("mnist", ["gausian-0.50"]), "did you mean gaussian-0.50"),
        (
            ("table-8",),
            "unknown published table 'table-8': did you mean .*smoothmix-supplement/table-8",
        ),
    ],
)
def test_unknown_rows_are_refused(tmp_path, arguments, message):
    with pytest.raises(ConfigError, match=message):
        plan(arguments[0], tmp_path, *arguments[1:])


@pytest.mark.long
def test_a_table_is_made_row_by_row_and_made_again_without_work(capsys, tmp_path):
    small = ["--epochs", "1", "--max", "3", "--n", "50"]
    arguments = ["reproduce", "mnist-mini", "--out", str(tmp_path), *small]
    main([*arguments, "--rows", "gaussian-*"])
    main([*arguments, "--rows", "consistency-*"])
    printed = capsys.readouterr().out
    folder = tmp_path / "mnist-mini"
    results = json.loads((folder / "results.json").read_text())
    assert [(entry["recipe"], entry["inputs"], entry["n"]) for entry in results] == [
        ("mnist-mini/consistency-0.50", 3, 50),
        ("mnist-mini/gaussian-0.50", 3, 50),
    ]
    assert all(entry["train_seconds"] > 0 and entry["published"] is None for entry in results)
    assert results[0]["commands"][0].startswith(
        "smoothcert train mnist-mini/consistency-0.50 --seed 0"
    )
    assert (
        printed.count("| `mnist-mini/gaussian-0.50` | 0 | 3 |") == 2
    )  # alone, and beside the other
    files = {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.name in ("state.pt", "part-0-of-1.tsv")
    }
    assert len(files) == 4
    main([*arguments, "--jobs", "2"])
    assert json.loads((folder / "results.json").read_text()) == results
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_a_failed_run_is_named_and_the_others_are_tabulated(capsys, shared_run, tmp_path):
    run = shutil.copytree(
        shared_run, tmp_path / "mnist-mini" / "gaussian-0.50" / "seed0"
    )  # trained already
    (run / "certify" / "six").rename(run / "certify" / "test")
    printed = fails(
        capsys,
        "reproduce",
        "mnist-mini",
        "--out",
        str(tmp_path),
        "--rows",
        "gaussian-0.50",
        "--n",
        "200",
    )
    assert "mnist-mini/gaussian-0.50, seed 0: `certify` failed (error: " in printed
    assert "there, 0 asked" in printed  # of noise_seed
    assert not (tmp_path / "mnist-mini" / "results.json").exists()
    assert "takes whole numbers" in fails(
        capsys, "reproduce", "mnist-mini", "--seeds", "a", "--out", str(tmp_path)
    )


def test_certificates_of_other_settings_are_told_before_training(capsys, shared_run, tmp_path):
    store = tmp_path / "mnist-mini" / "gaussian-0.50" / "seed0" / "certify" / "test"
    shutil.copytree(shared_run / "certify" / "six", store)  # of a run that has yet to be trained
    command = [
        "reproduce",
        "mnist-mini",
        "--out",
        str(tmp_path),
        "--rows",
        "gaussian-0.50",
        "--n",
        "300",
        "--every",
    ]
    assert f"{store} was certified with n = 200, not 300: give" in fails(capsys, *command, "1")
    assert "with n = 200, not 300 and every = 1, not 2: give" in fails(capsys, *command, "2")
    assert not (store.parents[1] / "config.yaml").exists()


@pytest.mark.parametrize(
    "what", ["mnist-mini", "smoothmix-supplement/table-8", "smoothadv/table-1"]
)
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--epochs", "0", "--epochs must be at least 1, found 0"),
        ("--epochs", "-1", "--epochs must be at least 1, found -1"),
        ("--every", "0", "--every must be at least 1, found 0"),
        ("--max", "0", "--max must be at least 1, found 0"),
        ("--n", "0", "n = 0 samples cannot certify anything"),
        ("--jobs", "0", "jobs must be at least 1, found 0"),
        (
            "--seeds",
            "0,-1",
            "--seeds must be a whole number from 0 to 2**63 - 1, for example 0, found -1",
        ),
        ("--seeds", f"0,{2**63}", f"for example 0, found {2**63}"),
    ],
)
def test_numbers_that_nothing_can_be_made_with_are_refused_at_once(
    capsys, tmp_path, what, option, value, said
):
    data = ["--data", "mnist-mini"] if "/" in what else []
    error = fails(capsys, "reproduce", what, *data, "--out", str(tmp_path / "new"), option, value)
    assert error.startswith("error: ")
    assert said in error
    assert not (tmp_path / "new").exists()


def test_results_are_put_into_a_folder(capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in ("file", "file/below"):
        said = fails(capsys, "reproduce", "mnist-mini", "--out", str(tmp_path / out))
        assert said.startswith("error: --out must be a folder")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_result_names_the_commits_that_it_was_made_with(shared_run, tmp_path):
    run = shutil.copytree(shared_run, tmp_path / "gaussian-0.50" / "seed0")
    (run / "certify" / "six").rename(run / "certify" / "test")
    starts = [
        "0123456789",
        "",
        "fedcba9876",
        "0123456789",
    ]  # it was resumed three times, once without a checkout
    (run / "environment.jsonl").write_text(
        "".join(f'{{"commit": "{commit}"}}\n' for commit in starts)
    )
    certified = json.loads((run / "certify" / "test" / "manifest.json").read_text())["environment"][
        "commit"
    ]
    (job,) = plan("mnist-mini", tmp_path, ["gaussian-0.50"])
    expected = {"train": ["0123456", "fedcba9"], "certify": [certified[:7]] if certified else []}
    assert outcome(job)["commits"] == expected


def test_a_run_of_other_settings_is_not_tabulated_as_what_was_asked(capsys, shared_run, tmp_path):
    """A first look lies where the whole row would: it stays, and is not taken for that row."""
    run = shutil.copytree(shared_run, tmp_path / "mnist-mini" / "gaussian-0.50" / "seed0")
    (run / "certify" / "six").rename(run / "certify" / "test")
    (job,) = plan("mnist-mini", tmp_path / "mnist-mini", ["gaussian-0.50"])
    assert outcome(job)["inputs"] == 6
    earlier = tmp_path / "mnist-mini" / "results.json"
    earlier.write_text("[]")
    words = [
        "reproduce",
        "mnist-mini",
        "--rows",
        "gaussian-0.50",
        "--epochs",
        "7",
        "--n",
        "200",
        "--out",
        str(tmp_path),
    ]
    assert "belongs to another configuration (epochs" in fails(capsys, *words)
    assert earlier.read_text() == "[]"


def fails(capsys, *arguments):
    with pytest.raises(SystemExit):
        main(list(arguments))
    return capsys.readouterr().err


def test_unfinished_jobs_have_no_outcome(tmp_path):
    (job,) = plan("mnist-mini", tmp_path, ["gaussian-0.50"])
    assert outcome(job) is None
    with pytest.raises(ConfigError, match="jobs must be at least 1"):
        run_jobs([job], [], [], 0)


@pytest.mark.parametrize(
    ("acr", "inputs", "reproduced"),
    [(1.556, 10_000, True), (1.5625, 10_000, True), (1.57, 10_000, False), (1.535, 500, None)],
)
def test_reproduced_means_near_a_published_value_on_the_same_inputs(acr, inputs, reproduced):
    """Gaussian at sigma 0.5: 1.553 for one run, 1.5581 +- 0.0016 over five, so 0.0048 is allowed."""
    (row,) = [
        r
        for r in published_rows()
        if (r.dataset, r.sigma, r.method) == ("mnist", 0.5, {"name": "gaussian"})
    ]
    ones = np.ones(inputs, dtype=np.int64)
    # radii of three digits whose mean is the ACR: 1.0 and 2.0 in the right shares
    radius = np.where(np.arange(inputs) < round((acr - 1) * inputs), 2.0, 1.0)
    found = Certificates(
        "x", np.arange(inputs), ones, ones, radius, ones.astype(bool), 0.5, 100, 100_000, 0.001
    )
    assert published_outcome(row, found)["reproduced"] is reproduced


def test_a_single_published_run_is_met_less_closely():
    (row,) = [
        r
        for r in published_rows()
        if (r.dataset, r.sigma, r.method) == ("fashion-mnist", 0.5, {"name": "gaussian"})
    ]
    assert (row.acr, row.std) == (1.056, None)
    ones = np.ones(10_000, dtype=np.int64)
    for twos, reproduced in ((640, True), (680, False)):  # 0.008 and 0.012 from it
        radius = np.where(np.arange(10_000) < twos, 2.0, 1.0)
        found = Certificates(
            "x", np.arange(10_000), ones, ones, radius, ones.astype(bool), 0.5, 100, 100_000, 0.001
        )
        assert published_outcome(row, found)["reproduced"] is reproduced


def test_no_verdict_where_epochs_were_given(capsys, monkeypatch, tmp_path):
    """Neither for a data set: a first look is told to be no comparison, whatever its epochs."""
    run = tmp_path / "mnist" / "gaussian-0.50" / "seed0"
    run.parent.mkdir(parents=True)
    unpack(PACK, tmp_path).rename(run)
    monkeypatch.setattr("smoothcert.cli.reproduce._run", lambda options, jobs, *_: (jobs, []))
    for given, verdict in (((), "yes"), (("--epochs", "90"), "-")):
        main(["reproduce", "mnist", "--rows", "gaussian-0.50", "--out", str(tmp_path), *given])
        printed = capsys.readouterr().out
        assert printed.splitlines()[2].endswith(f"| {verdict} |")
        assert ("not comparable" in printed) == bool(given)
        (tmp_path / "mnist" / "results.json").unlink()


def test_the_table_is_markdown():
    entry = {"recipe": "mnist/a-0.50", "seed": 0, "inputs": 10_000, "acr": 1.5551}
    row = {"acr": 1.553, "mean": 1.5581, "std": 0.0016, "reproduced": True}
    one_run, unlike = {**row, "mean": None, "std": None}, {**row, "reproduced": None}
    lines = results_table(
        [{**entry, "published": each} for each in (row, None, one_run, unlike)]
    ).splitlines()
    assert lines[0] == "| recipe | seed | inputs | ACR | published | difference | reproduced |"
    assert (
        lines[2]
        == "| `mnist/a-0.50` | 0 | 10000 | 1.5551 | 1.553; 1.5581 ± 0.0016 | -0.0030 | yes |"
    )
    assert lines[3] == "| `mnist/a-0.50` | 0 | 10000 | 1.5551 | - | - | - |"
    assert lines[4] == "| `mnist/a-0.50` | 0 | 10000 | 1.5551 | 1.553 | +0.0021 | yes |"
    assert lines[5] == "| `mnist/a-0.50` | 0 | 10000 | 1.5551 | 1.553; 1.5581 ± 0.0016 | - | - |"


def test_what_jobs_say_side_by_side_are_whole_lines(monkeypatch):
    class Slow(io.StringIO):
        def write(self, text):
            time.sleep(0.001)
            return super().write(text)

    said = Slow()
    monkeypatch.setattr(sys, "stdout", said)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_say, "abcdefgh"))
    assert sorted(said.getvalue().splitlines()) == list("abcdefgh")


def test_every_missing_file_of_a_corruption_benchmark_is_told_before_training(tmp_path):
    (tmp_path / "mnist").mkdir()
    for name, count in (("train", 60_000), ("t10k", 10_000)):  # black images, as many as MNIST has
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            head = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes()
            with gzip.open(tmp_path / "mnist" / f"{name}-{kind}-ubyte.gz", "wb", 1) as file:
                file.write(head + bytes(int(np.prod(shape))))
    fog = tmp_path / "mnist_c" / "fog"
    fog.mkdir(parents=True)
    np.save(fog / "test_images.npy", np.zeros((2, 28, 28, 1), np.uint8))
    np.save(fog / "test_labels.npy", np.arange(2))
    jobs = [
        Job("mnist/gaussian-0.25", 0, tmp_path / "run", corruption=(kind, None))
        for kind in ("fog", "zigzag")
    ]
    check_data(jobs[:1], tmp_path)
    with pytest.raises(DataError, match=r"mnist-c is not complete; not found:\n.*zigzag"):
        check_data(jobs, tmp_path)


def test_certifications_on_corruptions_are_told_apart_and_the_training_has_the_log_of_its_run(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("smoothcert.evaluation.reproduce._CHILD", "")  # does nothing, and ends well
    run = tmp_path / "gaussian-0.25" / "seed0"
    jobs = [
        Job("mnist/gaussian-0.25", 0, run, corruption=(kind, None)) for kind in ("fog", "zigzag")
    ]
    assert run_jobs(jobs, [], [], 1) == (jobs, [])
    assert capsys.readouterr().out.splitlines() == [
        f"{run}: train begins, its progress is in {run}.log",
        f"{run}: train done",
        f"{run}.fog: certify done",
        f"{run}.zigzag: certify done",
    ]
    assert [
        len(job.log(step).read_text().splitlines()) for step in ("train", "certify") for job in jobs
    ] == [1] * 4
