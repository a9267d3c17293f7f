"""`smoothcert certify` and `status`: stopped and resumed, in shards, at fixed radii; damaged weights never certify."""

import json
import re
import shutil

import numpy as np
import pytest

from smoothcert.cli import main
from smoothcert.data.corruptions import CORRUPTIONS
from smoothcert.models import build_model
from smoothcert.runs.counts import class_counts
from smoothcert.runs.folder import ModelSpec, RunFolder
from tests.cli.commands import fails, run
from tests.refusals import cases


def test_a_certification_goes_on_where_it_was_stopped(capsys, certified):
    part = certified / "certify" / "six" / "part-0-of-1.tsv"
    whole = part.read_text()
    part.write_text("".join(whole.splitlines(keepends=True)[:3]) + "3\t1")
    assert "2 of 6 inputs done, 4 missing" in run(capsys, "status", certified)
    run(capsys, "certify", certified, "--max", 6, "--n", 200, "--name", "six")
    timed = r"\d+:\d\d:\d\d\.?\d*|\w{16}$"  # the time, and the check that depends on it
    without_time = [
        re.sub(timed, "", text, flags=re.MULTILINE) for text in (part.read_text(), whole)
    ]
    assert without_time[0] == without_time[1]


def test_a_shard_without_inputs_is_no_failure(capsys, certified):
    assert "no input for shard 1/2" in run(
        capsys, "certify", certified, "--max", 1, "--n", 100, "--shard", "1/2", "--name", "one"
    )


def test_status_goes_on_after_a_bad_place(capsys, certified, tmp_path):
    with pytest.raises(SystemExit):
        main(["status", str(tmp_path), str(certified)])
    printed = capsys.readouterr()
    assert "trained, epoch 8 of 8" in printed.out
    assert "is not a run folder" in printed.err


def test_certify_at_fixed_radii_with_fewer_samples(capsys, certified):
    arguments = [
        "--max",
        4,
        "--n",
        2000,
        "--radius",
        0,
        0.25,
        "--name",
        "radii",
        "--skip-wrong",
        "--noise",
        "exact",
    ]
    assert "ACR" in run(capsys, "certify", certified, *arguments)
    rows = (certified / "certify" / "radii" / "part-0-of-1.tsv").read_text().splitlines()[1:]
    assert sum(sum(class_counts(row.split("\t")[7]).values()) for row in rows) < 4 * 2000
    with_commas = [*arguments[:4], "--radius", "0,0.25", *arguments[7:]]
    assert "ACR" in run(
        capsys, "certify", certified, *with_commas
    )  # the same procedure: the store is complete
    said = fails(capsys, "certify", certified, "--radius", "half", "--name", "radii2")
    assert "--radius takes a number, found 'half'" in said


def test_damaged_weights_never_certify(capsys, certified, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.yaml", "model.json", "weights.safetensors"):
        (copy / name).write_bytes((certified / name).read_bytes())
    weights = (copy / "weights.safetensors").read_bytes()
    for damage in (weights[: len(weights) // 2], b"", b"x" * 100):
        (copy / "weights.safetensors").write_bytes(damage)
        assert "damaged" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    (copy / "weights.safetensors").unlink()
    assert "is missing though model.json is there" in fails(
        capsys, "certify", copy, "--n", 100, "--max", 1
    )
    (copy / "model.json").write_text(json.dumps({"architecture": "lenet"}))
    assert "missing entry of" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    (copy / "model.json").write_text("{")
    assert "damaged" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    (copy / "model.json").unlink()
    assert "has no finished model" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    assert not (copy / "certify").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--name", "x" * 300], "--name has at most 200 bytes and no control characters"),
        (
            ["--name", "a\x1b[2Jb"],
            "--name has at most 200 bytes and no control characters, found 'a\\x1b[2Jb'",
        ),
    ],
)
def test_what_no_store_can_be_called_and_what_would_change_nothing_is_refused(
    capsys, certified, words, said
):
    assert said in fails(capsys, "certify", certified, "--max", 1, "--n", 100, *words)


@pytest.fixture
def cifar_run(tmp_path, monkeypatch):
    """A small network for CIFAR-10, and CIFAR-10-C with fog alone; its images are zeros, stored sparsely."""
    folder = tmp_path / "data" / "CIFAR-10-C"
    folder.mkdir(parents=True)
    np.lib.format.open_memmap(folder / "fog.npy", "w+", np.uint8, (50_000, 32, 32, 3)).flush()
    np.save(folder / "labels.npy", np.zeros(50_000, np.uint8))
    monkeypatch.setenv("SMOOTHCERT_DATA", str(folder.parent))
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    spec = ModelSpec("resnet8", 10, "cifar10", 0.5, "cifar10", (3, 32, 32))
    run.save_model(build_model("resnet8", 10, "cifar10", seed=0), spec)
    return run.path


def test_a_corruption_without_a_severity_is_certified_at_all_of_them(capsys, cifar_run):
    words = ["certify", cifar_run, "--max", 1, "--n", 50]
    run(capsys, *words, "--data", "cifar10-c:fog/3")
    assert {path.name for path in (cifar_run / "certify").iterdir()} == {"fog-3"}
    run(capsys, *words, "--data", "cifar10-c:fog")
    assert {path.name for path in (cifar_run / "certify").iterdir()} == {
        f"fog-{i}" for i in (1, 2, 3, 4, 5)
    }
    said = fails(capsys, *words, "--data", "cifar10-c:fog", "--name", "mine")
    assert "--name mine is for one store, but cifar10-c:fog is 5" in said


def test_all_corruptions_are_looked_for_before_the_first_is_certified(capsys, cifar_run):
    folder = cifar_run.parent / "data" / "CIFAR-10-C"
    (folder / "fog.npy").rename(
        folder / f"{CORRUPTIONS['cifar10-c'][0]}.npy"
    )  # so the first could be certified
    said = fails(capsys, "certify", cifar_run, "--data", "cifar10-c:all", "--max", 1, "--n", 50)
    assert "cifar10-c is not complete; not found:" in said
    assert re.findall(r"(\w+)\.npy$", said, re.MULTILINE) == list(CORRUPTIONS["cifar10-c"][1:])
    assert not (cifar_run / "certify").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    cases("""
        cifar10-c:fog --split train | cifar10-c:fog is of test images, found --split train
        cifar10-c:fog/0 | severities 1 to 5, found 0
        cifar10-c:fog/6 | severities 1 to 5, found 6
        cifar10-c:fog/x | such as cifar10-c:fog/3, found 'cifar10-c:fog/x'
        cifar10-c:fog/ | such as cifar10-c:fog/3, found 'cifar10-c:fog/'
        cifar10-c:fgo | did you mean fog
        cifar10-c: | unknown corruption of cifar10-c ''
        cifar10-d:fog | unknown dataset 'cifar10-d:fog'
        mnist-c:fog/1 | mnist-c has no severities
        mnist-c:fog | mnist-c was not found
    """),
)
def test_corruptions_that_cannot_be_had_are_refused(capsys, cifar_run, words, said):
    words = ["--max", 1, "--n", 50, "--data", *words.split()]
    assert said in fails(capsys, "certify", cifar_run, *words)
    assert not (cifar_run / "certify").exists()


def test_corruptions_of_other_images_than_the_network_takes_are_refused(
    capsys, certified, cifar_run
):
    words = ["--data", "cifar10-c:fog/1", "--max", 1, "--n", 50]
    assert "takes [1, 28, 28]" in fails(capsys, "certify", certified, *words)
    named = json.loads((cifar_run / "model.json").read_text())
    named["class_names"] = ["cat", "dog", *(f"other{i}" for i in range(8))]
    (cifar_run / "model.json").write_text(json.dumps(named))
    assert "labels would mean other classes" in fails(capsys, "certify", cifar_run, *words)
    assert not (cifar_run / "certify").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("certify {run} --n 5", "use n >= 10"),
        ("certify {run} --alpha 2", "found 2"),
        ("certify {run} --radius 9", "radius 9"),
        ("certify {run} --radius 0.5 --tolerance 0.1", "exclude each other"),
        ("certify {run} --tolerance -1", "found -1"),
        ("certify {run} --batch-size 0", "found 0"),
        ("certify {run} --device other", "other"),
        ("certify {run} --name ..", "found '..'"),
        ("certify {run} --data cifar10-c:fog --n 5", "use n >= 10"),
        ("certify --model lenet --data folder:nowhere --sigma 1 --n 5 --out new", "use n >= 10"),
        ("doctor {run} --radius 9", "radius 9"),
        ("attack {run} --radius 1 --noises 0", "noises >= 1"),
        ("attack {run} --radius 1 --alpha 2", "found 2"),
        ("attack {run} --radius 1 --device other", "other"),
        ("attack {run} --radius 1 --shard 3", "i/N"),
    ],
)
def test_settings_are_judged_before_data_is_looked_for(capsys, certified, tmp_path, words, said):
    folder = shutil.copytree(certified, tmp_path / "run")
    text = (folder / "model.json").read_text()
    (folder / "model.json").write_text(text.replace("mnist-mini", "folder:nowhere"))
    assert "nowhere" in fails(capsys, "certify", folder)  # as it is with settings that are right
    assert said in fails(capsys, *words.format(run=folder).split())
