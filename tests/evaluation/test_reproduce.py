"""`smoothcert reproduce`: what it runs, takes up, measures and refuses."""

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
from smoothcert.evaluation.plan import plan, targets
from smoothcert.evaluation.reproduce import (
    Certification,
    Given,
    Job,
    _say,
    missing_data,
    run_jobs,
)
from smoothcert.published.measured import read_measured
from smoothcert.statistics.value import ACR, CERTIFIED_ACCURACY
from smoothcert.verification.unpack import unpack

PACK = Path(__file__).parents[2] / "results" / "mnist-gaussian-0.50.zip"
SMALL = ["--train=--epochs 1 --evaluate-every 0", "--certify=--n 100 --max 4"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The place of 16 images for training and 4 to certify; nearly all are of one class, which is soon learnt."""
    place, rng = tmp_path_factory.mktemp("tiny") / "tiny.npz", np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8), np.full(20, 3)
    labels[7] = 9
    arrays = {"train_images": images[:16], "train_labels": labels[:16]}
    np.savez(place, **arrays, test_images=images[16:], test_labels=labels[16:])
    return f"npz:{place}"


def fails(capsys, *arguments):
    with pytest.raises(SystemExit):
        main(list(arguments))
    return capsys.readouterr().err


def lines(folder):
    return read_measured([folder / "results.jsonl"])


@pytest.fixture
def certified(shared_run, tmp_path):
    """A trained run with certificates of six images, where nobody would look for it."""
    run = shutil.copytree(shared_run, tmp_path / "somewhere" / "run")
    (run / "certify" / "six").rename(run / "certify" / "test")
    return run


@pytest.mark.parametrize(
    ("name", "rows", "count"),
    [
        ("smoothmix-supplement/table-11", ["Gaussian", "m = [12]"], 3),
        ("consistency-supplement/table-4", ["*lambda = 5"], 3),
        ("catrs-supplement/table-7", ["Gaussian", "CAT-RS, lambda = 0"], 2),
    ],
)
def test_ablation_tables_are_made_at_small_size(
    capsys, monkeypatch, tmp_path, tiny, name, rows, count
):
    """In this process, since each command would load PyTorch anew; a test below has the whole command."""
    jobs = []

    def in_this_process(job, command, place, parallel):
        jobs.append(command[0])
        main(command)

    monkeypatch.setattr("smoothcert.evaluation.reproduce._run", in_this_process)
    out = ["--out", str(tmp_path), "--data", tiny]
    main(["reproduce", name, "--rows", *rows, *out, *SMALL])
    printed = capsys.readouterr().out
    assert jobs == ["train"] * count + ["certify"] * count
    found = lines(tmp_path)
    assert len(found) == count
    assert {run.settings["images"] for run in found} == {4}
    assert {run.settings["dataset"] for run in found} == {"npz:tiny.npz"}
    for run in found:
        assert run.made.changes["epochs"] == 1
        assert run.made.commands[0].startswith(f"smoothcert train {run.made.recipe} ")
        radii = [v.r for v in run.values if v.measure == CERTIFIED_ACCURACY]
        assert radii[0] == 0
        assert str(tmp_path) not in json.dumps([run.config, run.settings, run.made.commands])
    # the runs are on other data than the rows: they are recorded, and nothing is said of the rows
    assert "published" in printed
    assert "difference" not in printed.replace("differences", "")
    main(["reproduce", name, "--rows", *rows, *out, *SMALL])
    assert len(jobs) == 2 * count  # nothing was run again
    assert "0 lines added" in capsys.readouterr().out


@pytest.mark.long
def test_the_command_makes_rows_in_processes_of_their_own_and_again_without_work(capsys, tmp_path):
    arguments = ["reproduce", "mnist-mini", "--out", str(tmp_path), *SMALL]
    main([*arguments, "--rows", "gaussian-*", "--seeds", "2", "--jobs", "2"])
    printed = capsys.readouterr().out
    folder = tmp_path / "mnist-mini" / "gaussian-0.50"
    assert f"{folder / 'seed1'}: train done\n" in printed
    assert (folder / "seed1.log").read_text().startswith("$ smoothcert train ")
    first = lines(tmp_path)
    assert [(run.made.recipe, run.made.seed) for run in first] == [
        ("mnist-mini/gaussian-0.50", 0),
        ("mnist-mini/gaussian-0.50", 1),
    ]
    assert all(run.made.seconds["train"] > 0 for run in first)
    assert "| `mnist-mini/gaussian-0.50` | 2 | 4 |" in printed
    states = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name == "state.pt"}
    main([*arguments, "--rows", "gaussian-*", "consistency-0.50"])
    assert len(lines(tmp_path)) == 3
    assert {path: path.stat().st_mtime_ns for path in states} == states


def test_certified_runs_are_judged_without_weights_wherever_they_lie(capsys, certified, tmp_path):
    for name in ("weights.safetensors", "model.json", "state.pt"):
        (certified / name).unlink()
    other = tmp_path / "somewhere" / "mnist"
    unpack(PACK, tmp_path).rename(other)
    results = tmp_path / "lines.jsonl"
    words = ["--judge", str(tmp_path / "somewhere"), "--results", str(results)]
    main(["reproduce", "mnist-mini", *words])
    printed = capsys.readouterr().out
    assert f"left out: {other / 'certify' / 'test'}: dataset = mnist here, mnist-mini" in printed
    main(["reproduce", "smoothmix-workshop/table-2", *words])
    printed = capsys.readouterr().out
    assert "ours, 1 seed: difference" in printed
    mini, whole = read_measured([results])
    assert (mini.made.recipe, mini.settings["n"]) == ("mnist-mini/gaussian-0.50", 200)
    assert (whole.made.recipe, whole.made.changes) == ("mnist/gaussian-0.50", {})
    acr = next(value for value in whole.values if value.measure == ACR)
    assert (round(acr.value, 4), acr.images) == (1.5602, 10_000)
    assert whole.made.checked == "counts"
    assert str(tmp_path) not in results.read_text()


def test_what_cannot_be_judged_is_named(capsys, certified, tmp_path):
    part = next((certified / "certify" / "test").glob("part-*.tsv"))
    words = ["reproduce", "mnist-mini", "--out", str(tmp_path), "--judge", str(tmp_path)]
    whole = part.read_text()
    part.write_text("".join(whole.splitlines(keepends=True)[:-2]))
    assert "no certified run" in fails(capsys, *words)
    part.write_text(whole)
    (certified / "config.yaml").rename(certified / "kept.yaml")
    assert "no certified run of a row of mnist-mini was found" in fails(capsys, *words)
    (certified / "kept.yaml").rename(certified / "config.yaml")
    metrics = certified / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:-1]))
    assert "no certified run" in fails(capsys, *words)
    assert not (tmp_path / "results.jsonl").exists()
    assert "cannot be searched for runs" in fails(capsys, *words[:-1], str(tmp_path / "nothing"))


def test_a_run_with_the_same_settings_is_taken_up_and_only_judged(
    capsys, monkeypatch, certified, tmp_path
):
    monkeypatch.setattr("smoothcert.evaluation.reproduce._run", None)  # nothing is to be started
    (certified / "weights.safetensors").unlink()
    row = ["reproduce", "mnist-mini/gaussian-0.50", "--out", str(tmp_path)]
    main([*row, "--certify=--n 200 --max 6"])
    assert "| `mnist-mini/gaussian-0.50` | 1 | 6 |" in capsys.readouterr().out
    assert len(lines(tmp_path)) == 1
    assert not (tmp_path / "mnist-mini").exists()
    main([*row, "--certify=--n 200 --max 6", "--dry-run"])
    assert f"{certified}: done, is only judged" in capsys.readouterr().out


def test_certificates_of_other_settings_are_told_before_training(capsys, certified, tmp_path):
    command = ["reproduce", "mnist-mini/gaussian-0.50", "--out", str(tmp_path), "--certify"]
    assert "was certified with n = 200, not 300: give" in fails(capsys, *command, "--n 300")
    said = fails(capsys, *command, "--n 300 --every 1 --radius 0.5")
    assert "n = 200, not 300 and radii = None, not [0.5]: give" in said


def test_a_failed_run_is_named_and_its_older_run_is_not_measured(capsys, certified, tmp_path):
    """A first look lies where the whole row would: it stays, and is not taken for that row."""
    place = tmp_path / "mnist-mini" / "gaussian-0.50" / "seed0"
    place.parent.mkdir(parents=True)
    certified.rename(place)
    words = ["reproduce", "mnist-mini", "--rows", "gaussian-0.50", "--out", str(tmp_path)]
    said = fails(capsys, *words, "--train=--epochs 7", "--certify=--n 200 --max 6")
    assert "mnist-mini/gaussian-0.50, seed 0: `train` failed (error: " in said
    assert "belongs to another configuration (epochs" in said
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize(
    "what", ["mnist-mini", "smoothmix-supplement/table-8", "smoothadv/table-1"]
)
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--train=--epochs 0", "epochs must be at least 1, found 0"),
        ("--train=--epochs", "--epochs takes a value, found none"),
        ("--train=--epoch 3", "did you mean --epochs"),
        ("--train=--out x", "--train: --out is given by reproduce itself"),
        ("--train='", "--train cannot be read: No closing quotation"),
        ("--certify=--every 0", "every must be at least 1"),
        ("--certify=--n 0", "n = 0 samples cannot certify anything"),
        ("--certify=--name a", "--certify: --name is given by reproduce itself"),
        ("--jobs=0", "jobs must be at least 1, found 0"),
        ("--seeds=0", "--seeds takes how many seeds, from 1 to 1000, found 0"),
        ("--seeds=0,-1", "--seeds must be a whole number from 0 to 2**63 - 1"),
        (f"--seeds=0,{2**63}", f"for example 0, found {2**63}"),
        ("--seeds=a", "takes whole numbers"),
    ],
)
def test_what_train_and_certify_refuse_is_refused_at_once(capsys, tmp_path, what, option, said):
    data = ["--data", "mnist-mini"] if "/" in what else []
    error = fails(capsys, "reproduce", what, *data, "--out", str(tmp_path / "new"), option)
    assert said in error
    assert "Traceback" not in error
    assert not (tmp_path / "new").exists()


def test_runs_are_put_into_a_folder(capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in ("file", "file/below"):
        said = fails(capsys, "reproduce", "mnist-mini", "--out", str(tmp_path / out))
        assert said.startswith("error: --out must be a folder")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["smoothadv-logs/imagenet"], "imagenet: "),
        (["smoothadv/table-2", "--rows", "+ semi*"], "ti_500K_pseudo_labeled.pickle, which is not"),
        (["smoothmix-supplement/table-8", "--data", "mnistmini"], "unknown dataset 'mnistmini'"),
        (["smoothadv/table-6", "--data", "folder:nowhere"], "nowhere: no such file or folder"),
        (["smoothadv/table-6", "--data", "mnist-mini"], "augment 'imagenet' does not suit"),
    ],
)
def test_missing_data_is_said_by_name_before_anything_is_written(
    capsys, monkeypatch, tmp_path, words, said
):
    monkeypatch.setenv("HOME", str(tmp_path))  # below which data is looked for too
    monkeypatch.setenv("SMOOTHCERT_DATA", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert said in fails(capsys, "reproduce", *words, "--out", "new")
    main(["reproduce", *words, "--out", "new", "--dry-run"])
    printed = capsys.readouterr().out
    assert said in printed
    assert "missing: " in printed
    assert not (tmp_path / "new").exists()


def test_a_dry_run_says_runs_and_hours(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SMOOTHCERT_DATA", str(tmp_path / "none"))
    words = ["reproduce", "mnist-mini", "--seeds", "3", "--out", str(tmp_path / "new"), "--dry-run"]
    main(words)
    printed = capsys.readouterr().out
    assert printed.count("smoothcert train mnist-mini/gaussian-0.50 --seed") == 3
    assert "runs that no line of results/ has the time of" in printed
    assert not (tmp_path / "new").exists()


def test_a_run_whose_beginning_failed_is_not_trained(monkeypatch, tmp_path):
    """What the command said of its error is quoted from its first line to its last."""
    monkeypatch.setenv("HOME", str(tmp_path))  # below which data is looked for too
    given = Given(train=("--data-dir", str(tmp_path)))
    first = Job("imagenet32/smoothadv-1.00", 0, tmp_path / "first" / "seed0")
    second = Job("mnist/gaussian-0.50", 0, tmp_path / "second" / "seed0", starts_from=first)
    lost = run_jobs([second], given, 1)
    assert set(lost) == {first.folder, second.folder}
    failure = lost[first.folder]
    assert failure.startswith(
        "imagenet32/smoothadv-1.00, seed 0: `train` failed (error: imagenet32: the train split"
    )
    assert f"\n  {tmp_path / 'imagenet32'}\n" in failure  # where it was looked for
    assert failure.endswith(f"; see {tmp_path / 'first' / 'seed0.log'}")
    assert not (tmp_path / "second").exists()


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

    def job(*kinds):
        stores = tuple(Certification(corruption=(kind, None)) for kind in kinds)
        return Job("mnist/gaussian-0.25", 0, tmp_path / "run", certifications=stores)

    assert missing_data([job("fog")], Given(), tmp_path) == []
    (said,) = missing_data([job("fog", "zigzag")], Given(), tmp_path)
    assert said.startswith("mnist-c is not complete; not found:\n")
    assert "zigzag" in said


def test_certifications_are_told_apart_and_the_training_has_the_log_of_its_run(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("smoothcert.evaluation.reproduce._CHILD", "")  # does nothing, and ends well
    run = tmp_path / "gaussian-0.25" / "seed0"
    stores = tuple(Certification(corruption=(kind, None)) for kind in ("fog", "zigzag"))
    assert run_jobs([Job("mnist/gaussian-0.25", 0, run, certifications=stores)], Given(), 1) == {}
    assert capsys.readouterr().out.splitlines() == [
        f"{run}: train begins, its progress is in {run}.log",
        f"{run}: train done",
        f"{run}.fog: certify done",
        f"{run}.zigzag: certify done",
    ]
    logs = [run.with_suffix(end) for end in (".log", ".fog.log", ".zigzag.log")]
    assert [len(log.read_text().splitlines()) for log in logs] == [1] * 3


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


def test_a_run_starts_from_the_weights_of_the_one_before(tmp_path, tiny):
    (job,) = plan(targets("mnist/gaussian-0.50"), tmp_path, data=tiny)
    first = Job("mnist/gaussian-0.25", 0, tmp_path / "first", {"dataset": tiny})
    job = Job(job.recipe, 0, job.folder, job.changes, starts_from=first)
    small = ["--epochs", "1", "--evaluate-every", "0"]
    main([*first.train, *small])
    main([*job.train, *small, "--lr", "1e-9"])  # which leaves them as they were
    from safetensors.numpy import load_file

    before, after = (load_file(run / "weights.safetensors") for run in (first.folder, job.folder))
    for name, values in before.items():
        np.testing.assert_allclose(after[name], values, atol=1e-6)
