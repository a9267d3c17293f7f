"""The command line as a user has it: real subcommands on real (small) data, errors as one line."""

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image

from smoothcert.cli import main
from smoothcert.data import load_dataset
from smoothcert.models import build_model

COMMANDS = ["demo", "train", "soft-labels", "certify", "predict", "attack", "explain", "report", "status", "reproduce"]
COMMANDS += ["input-noise", "selftest-noise", "import", "models", "methods", "recipes", "datasets"]


def run(capsys, *arguments):
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def fails(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "a"
    main(["train", "mnist-mini/gaussian-0.50", "--out", str(out), "--epochs", "1", "--evaluate-every", "0"])
    return out


@pytest.fixture(scope="module")
def certified(trained):
    main(["certify", str(trained), "--max", "6", "--n", "200", "--name", "six"])
    return trained


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_needs_no_torch(command):
    code = f"import sys; sys.argv = ['smoothcert', *{command!r}, '--help']\nfrom smoothcert.cli import main\n"
    code += "try: main()\nexcept SystemExit as stop: assert not stop.code\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage: smoothcert" in done.stdout


@pytest.mark.parametrize("command", ["status", "report"])
def test_looking_needs_no_torch(certified, command):
    code = (
        f"import sys; from smoothcert.cli import main; main([{command!r}, {str(certified)!r}])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_python_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "smoothcert", "--version"], capture_output=True, text=True)
    assert re.match(r"smoothcert \d+\.\d+", done.stdout)


def test_train_certify_status_report(capsys, certified, tmp_path):
    status = run(capsys, "status", certified)
    assert "gaussian on mnist-mini, sigma 0.5: trained, epoch 1 of 1" in status
    assert "certify six: all 6 inputs done (n 200, alpha 0.001, quantised noise)" in status
    files = {kind: tmp_path / f"report.{kind}" for kind in ("html", "markdown", "latex", "csv")} | {
        "figure": tmp_path / "curves.svg"
    }
    options = [part for kind, path in files.items() for part in (f"--{kind}", path)]
    printed = run(capsys, "report", certified, *options, "--radii", 0, 0.5)
    assert "ACR" in printed
    assert "r=0.5" in printed
    for path in files.values():
        assert path.stat().st_size > 50
        assert str(path) in printed
    assert "<svg" in files["html"].read_text()


def test_a_certification_goes_on_where_it_was_stopped(capsys, certified):
    part = certified / "certify" / "six" / "part-0-of-1.tsv"
    whole = part.read_text()
    part.write_text("".join(whole.splitlines(keepends=True)[:3]) + "3\t1")
    assert "2 of 6 inputs done, 4 missing" in run(capsys, "status", certified)
    run(capsys, "certify", certified, "--max", 6, "--n", 200, "--name", "six")
    without_time = [re.sub(r"\d+:\d\d:\d\d\.?\d*", "", text) for text in (part.read_text(), whole)]
    assert without_time[0] == without_time[1]


def test_a_shard_without_inputs_is_no_failure(capsys, trained):
    assert "no input for shard 1/2" in run(
        capsys, "certify", trained, "--max", 1, "--n", 100, "--shard", "1/2", "--name", "one"
    )


def test_status_goes_on_after_a_bad_place(capsys, trained, tmp_path):
    with pytest.raises(SystemExit):
        main(["status", str(tmp_path), str(trained)])
    printed = capsys.readouterr()
    assert "trained, epoch 1 of 1" in printed.out
    assert "is not a run folder" in printed.err


def test_predict_reads_pictures_and_arrays(capsys, trained, tmp_path):
    test = load_dataset("mnist-mini", "test")
    Image.fromarray(test.image(0)[0]).save(tmp_path / "digit.png")
    np.save(tmp_path / "digit.npy", test.image(0))
    np.save(tmp_path / "grey.npy", np.full((1, 28, 28), 0.5, np.float32))
    lines = run(capsys, "predict", trained, tmp_path / "digit.png", tmp_path / "digit.npy", "--n", 500).splitlines()
    answers = [line.split(": ", 1)[1] for line in lines]
    assert re.fullmatch(r"\w+, certified radius \d\.\d{4} \(p >= 0\.\d{6}\)", answers[0])
    assert answers[0].split(",")[0] == answers[1].split(",")[0]
    assert "needs an 8-bit image" in fails(capsys, "predict", trained, tmp_path / "grey.npy", "--n", 500)
    assert ": " in run(capsys, "predict", trained, tmp_path / "grey.npy", "--n", 20, "--noise", "float")
    (line,) = run(capsys, "predict", trained, tmp_path / "digit.png", "--n", 500, "--noise", "laplace").splitlines()
    assert ", certified l1 radius " in line


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("no.png", None, "no image file at"),
        ("wide.png", lambda path: Image.fromarray(np.zeros((28, 30), np.uint8)).save(path), r"found \[1, 28, 30\]"),
        ("text.png", lambda path: path.write_text("not a picture"), "is not a readable picture"),
        ("deep.png", lambda path: Image.fromarray(np.full((28, 28), 300, np.uint16)).save(path), "8 bits per channel"),
        ("float.tif", lambda path: Image.fromarray(np.zeros((28, 28), np.float32)).save(path), "8 bits per channel"),
        ("text.npy", lambda path: path.write_text("not an array"), "is not a readable .npy array"),
        ("nan.npy", lambda path: np.save(path, np.full((1, 28, 28), np.nan)), "NaN or infinite pixels"),
        ("rgb.npy", lambda path: np.save(path, np.zeros((3, 28, 28), np.uint8)), r"found \[3, 28, 28\]"),
        ("empty.npy", lambda path: path.write_bytes(b""), "is not a readable .npy array"),
        ("clear.png", lambda path: Image.new("LA", (28, 28)).save(path), "has transparent pixels"),
        ("objects.npy", lambda path: np.save(path, np.array([{}]), allow_pickle=True), "is not a readable .npy array"),
    ],
)
def test_unusable_images_are_named(capsys, trained, tmp_path, name, make, message):
    path = tmp_path / name
    if make:
        make(path)
    error = fails(capsys, "predict", trained, path, "--n", 100)
    assert name in error or "NaN" in message
    assert re.search(message, error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "mnist-mini/gausian-0.50", "--out", "{}/new"], "did you mean mnist-mini/gaussian-0.50"),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--dataset", "mnst"], "did you mean mnist"),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--model", "lenett"], "did you mean lenet"),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--method.name", "gauss"], "did you mean gaussian"),
        (
            ["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--sigma", "-1"],
            "sigma must be above 0, found -1.0",
        ),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--device", "tpu"], "device must be auto, cpu, cuda"),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{run}", "--sigma", "1"], "belongs to another configuration"),
        (["certify", "{}/nothing"], "no run folder at"),
        (["certify", "{}"], "is not a run folder: it has no config.yaml"),
        (["certify", "{run}", "--n", "9"], "n = 9 samples cannot certify anything"),
        (["certify", "{run}", "--alpha", "2"], "alpha is a failure probability"),
        (["certify", "{run}", "--sigma", "-0.5"], "sigma, the standard deviation of the noise, must be above 0"),
        (["certify", "{run}", "--sigma", "0"], "must be above 0"),
        (["certify", "{run}", "--name", "a/b"], "--name is the name of one folder"),
        (["certify", "{run}", "--alpha", "1e-310"], "at least 1e-100"),
        (
            ["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--model", "resnet20"],
            "cannot take the data's images",
        ),
        (["certify", "{run}", "--shard", "3"], "--shard takes i/N"),
        (["certify", "{run}", "--shard", "4/4"], "0 <= i < N, found 4/4"),
        (["certify", "{run}", "--max", "6", "--n", "300", "--name", "six"], "n: 200 there, 300 asked"),
        (["status", "{}/nothing"], "no run folder at"),
        (["report", "{}/nothing"], "nothing"),
        (["demo", "--images", "0", "--out", "{}/demo"], "the demo can certify 1 to 1000 images, found 0"),
        (["import", "{}/no.pth", "--out", "{}/x", "--sigma", "0.5", "--dataset", "cifar10"], "no.pth"),
        (["import", "{}/no.pth", "--out", "{}/x", "--sigma", "0.5", "--dataset", "cifar"], "did you mean cifar10"),
    ],
)
def test_mistakes_are_answered_in_one_line(capsys, certified, tmp_path, arguments, message):
    places = [argument.replace("{run}", str(certified)).replace("{}", str(tmp_path)) for argument in arguments]
    error = fails(capsys, *places)
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("*/weights*"))


@pytest.mark.parametrize(
    "arguments", [["trane"], ["train"], ["certify", "a", "--ever", "3"], ["certify", "a", "--n", "many"]]
)
def test_misspelt_options_are_refused(capsys, arguments):
    assert "error: " in fails(capsys, *arguments)


def test_damaged_weights_never_certify(capsys, trained, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.yaml", "model.json", "weights.safetensors"):
        (copy / name).write_bytes((trained / name).read_bytes())
    weights = (copy / "weights.safetensors").read_bytes()
    for damage in (weights[: len(weights) // 2], b"", b"x" * 100):
        (copy / "weights.safetensors").write_bytes(damage)
        assert "damaged" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    (copy / "weights.safetensors").unlink()
    assert "is missing though model.json is there" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    (copy / "model.json").write_text(json.dumps({"architecture": "lenet"}))
    assert "missing entry of" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    (copy / "model.json").write_text("{")
    assert "damaged" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    (copy / "model.json").unlink()
    assert "has no finished model" in fails(capsys, "certify", copy, "--n", 100, "--max", 1)
    assert not (copy / "certify").exists()


def test_a_published_checkpoint_becomes_a_run(capsys, tmp_path):
    model = build_model("lenet", seed=3)
    torch.save({"arch": "LeNet", "state_dict": model.state_dict(), "epoch": 90}, tmp_path / "checkpoint.pth.tar")
    arguments = ["--sigma", 0.5, "--dataset", "mnist-mini"]
    run(capsys, "import", tmp_path / "checkpoint.pth.tar", "--out", tmp_path / "run", *arguments)
    assert "ACR" in run(capsys, "certify", tmp_path / "run", "--n", 100, "--max", 1)
    assert "imported model" in run(capsys, "status", tmp_path / "run")
    assert "is not empty" in fails(
        capsys, "import", tmp_path / "checkpoint.pth.tar", "--out", tmp_path / "run", *arguments
    )


def test_attack_prints_both_accuracies_and_draws_them(capsys, certified, tmp_path):
    arguments = ["--radius", 0.5, "--noises", 4, "--steps", 3, "--n", 100, "--max", 3, "--against", "six"]
    printed = run(capsys, "attack", certified, *arguments, "--svg", tmp_path / "attack.svg")
    assert re.search(r"0\.5 +3 +\d+\.\d +\d+\.\d +\d+\.\d", printed)
    assert "SOUNDNESS ALARM" not in printed
    assert "under attack: pgd" in (tmp_path / "attack.svg").read_text()
    assert (certified / "attack" / "pgd" / "manifest.json").exists()
    again = ["--radius", 0.5, "--noises", 4, "--steps", 3, "--n", 100, "--max", 3, "--against", "none", "--name", "b"]
    assert "draws certificates too" in fails(capsys, "attack", certified, *again, "--svg", tmp_path / "b.svg")


def test_an_alarm_is_printed_loudly(capsys, certified, tmp_path):
    """A store whose radii claim far too much: the attack contradicts it."""
    folder = certified / "certify" / "wrong"
    folder.mkdir()
    source = certified / "certify" / "six"
    (folder / "manifest.json").write_bytes((source / "manifest.json").read_bytes())
    header, *lines = (source / "part-0-of-1.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    inflated = ["\t".join([*row[:3], "99.0", *row[4:]]) for row in rows]
    (folder / "part-0-of-1.tsv").write_text("\n".join([header, *inflated]) + "\n")
    arguments = [
        "--radius",
        4.0,
        "--noises",
        4,
        "--steps",
        5,
        "--n",
        100,
        "--max",
        6,
        "--against",
        "wrong",
        "--name",
        "w",
    ]
    assert "SOUNDNESS ALARM at radius 4: inputs" in run(capsys, "attack", certified, *arguments)
    for path in (*folder.iterdir(), folder):
        path.rmdir() if path.is_dir() else path.unlink()


def test_explain_draws_paths_and_ratios(capsys, trained, tmp_path):
    arguments = ["--index", 0, "--ratios", 3, "--noises", 4, "--steps", 2, "--out", tmp_path]
    assert run(capsys, "explain", trained, *arguments).count("wrote") == 3
    assert "smoothed confidence" in (tmp_path / "a-0.svg").read_text()
    assert (tmp_path / "mixing-ratios.tsv").read_text().startswith("run\tratio\na\t")
    assert "nothing to explain" in fails(capsys, "explain", trained, "--out", tmp_path)
    assert "images 0 to 999, found index 1000" in fails(capsys, "explain", trained, "--index", 1000, "--out", tmp_path)


def test_input_noise_computes_the_bound(capsys, tmp_path):
    settings = ["--p", 0.9, "--sigma", 0.5, "--tau", 0.6, "--epsilon", 0.1]
    printed = run(capsys, "input-noise", *settings, "--svg", tmp_path / "bound.svg")
    assert "C = 814.017" in printed
    assert "input dimension" in (tmp_path / "bound.svg").read_text()


def test_selftest_noise_passes_and_says_what_it_tested(capsys):
    printed = run(capsys, "selftest-noise", "--noise", "quantised", "--samples", 2**18, "--device", "cpu")
    assert printed.startswith("quantised noise on cpu, 262144 values\n")
    assert printed.count("\n") > 5


def test_certify_at_fixed_radii_with_fewer_samples(capsys, trained):
    arguments = ["--max", 4, "--n", 2000, "--radius", 0, 0.25, "--name", "radii", "--skip-wrong", "--noise", "exact"]
    assert "ACR" in run(capsys, "certify", trained, *arguments)
    rows = (trained / "certify" / "radii" / "part-0-of-1.tsv").read_text().splitlines()[1:]
    assert sum(int(row.split("\t")[7]) for row in rows) < 4 * 2000
    with_commas = [*arguments[:4], "--radius", "0,0.25", *arguments[7:]]
    assert "ACR" in run(capsys, "certify", trained, *with_commas)  # the same procedure: the store is complete
    said = fails(capsys, "certify", trained, "--radius", "half", "--name", "radii2")
    assert "--radius takes numbers, for example --radius 0 0.5 1, found 'half'" in said


def test_report_judges_stored_counts_again(capsys, certified):
    lines = run(capsys, "report", certified / "certify" / "six", "--alpha", 0.2).splitlines()
    usual = run(capsys, "report", certified / "certify" / "six").splitlines()
    assert float(lines[2].split()[3]) > float(usual[2].split()[3])  # a larger alpha proves larger radii
    linf = run(capsys, "report", certified / "certify" / "six", "--norm", "linf").splitlines()
    _, _, norm, _, acr = linf[2].split()[:5]
    assert norm == "linf"
    assert float(acr) == pytest.approx(float(usual[2].split()[3]) / 28, abs=0.002)


def test_lists(capsys):
    assert "gaussian" in run(capsys, "methods")
    assert "hyperparameters: noises=2, lam=10.0, eta=0.5" in run(capsys, "methods")
    assert re.search(r"mnist/gaussian-0.50 +1.553", run(capsys, "recipes"))
    assert re.search(r"mnist-mini +10 +1x28x28 +10000 \+ 1000 +/", run(capsys, "datasets"))
    assert "resnet110" in run(capsys, "models")


def test_control_c_says_how_to_go_on(capsys, monkeypatch):
    monkeypatch.setattr("smoothcert.cli.commands.models", lambda options: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(SystemExit) as stop:
        main(["models"])
    assert stop.value.code == 130
    assert "the same command goes on from here" in capsys.readouterr().err


def test_the_demo_tells_the_whole_story(capsys, tmp_path):
    started = time.time()
    printed = run(capsys, "demo", "--out", tmp_path / "demo", "--images", 5, "--n", 100, "--epochs", 1)
    assert "gaussian" in printed
    assert "consistency" in printed
    assert (tmp_path / "demo" / "report.html").stat().st_mtime >= started - 1
    again = run(capsys, "demo", "--out", tmp_path / "demo", "--images", 5, "--n", 100, "--epochs", 1)
    assert again.splitlines()[:4] == printed.splitlines()[:4]
