"""The command line as a whole: help without PyTorch, mistakes answered in one line, the lists."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from smoothcert.cli import build_parser, commands, main
from smoothcert.cli.options import read_numbers, read_settings, read_whole_numbers
from smoothcert.config import AttackConfig, CertifyConfig
from tests.cli.commands import fails, run
from tests.refusals import cases

COMMANDS = [
    "demo",
    "train",
    "soft-labels",
    "certify",
    "predict",
    "attack",
    "explain",
    "report",
    "status",
    "reproduce",
]
COMMANDS += ["input-noise", "selftest-noise", "import", "models", "methods", "recipes", "datasets"]
COMMANDS += ["verify", "pack", "unpack", "doctor", "denoised", "ensemble", "tables", "merge"]
WITHOUT_TORCH = """
import contextlib, io, json, sys
from smoothcert.cli import main
printed = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["smoothcert", *words]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as stop:
            assert not stop.code, (words, stop.code)
    assert "torch" not in sys.modules, words
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def printed_without_torch(*commands):
    command = [sys.executable, "-c", WITHOUT_TORCH, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_help_needs_no_torch():
    assert set(COMMANDS) == commands().keys()
    texts = printed_without_torch(["--help"], *([name, "--help"] for name in COMMANDS))
    for name, text in zip(["", *COMMANDS], texts, strict=True):
        about = commands()[name].ABOUT if name else "classifiers whose answers come with a proof"
        assert about in " ".join(text.split())


def test_looking_needs_no_torch(certified):
    looks = [[command, str(certified)] for command in ("status", "report", "verify")]
    status, report, verified = printed_without_torch(*looks)
    assert "verified: 6 rows recomputed" in verified
    assert "certify six: all 6 inputs done" in status
    assert "ACR" in report


def test_python_m_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "smoothcert", "--version"], capture_output=True, text=True
    )
    assert re.match(r"smoothcert \d+\.\d+", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases("""
        train mnist-mini/gausian-0.50 --out {}/new | did you mean mnist-mini/gaussian-0.50
        train mnist-mini/gaussian-0.50 --out {}/new --dataset mnst | did you mean mnist
        train mnist-mini/gaussian-0.50 --out {}/new --model lenett | did you mean lenet
        train mnist-mini/gaussian-0.50 --out {}/new --method.name gauss | did you mean gaussian
        train mnist-mini/gaussian-0.50 --out {}/new --sigma -1 | sigma must not be negative, found -1.0
        train mnist-mini/gaussian-0.50 --out {}/new --seed -1 | for example 0, found -1
        train mnist-mini/gaussian-0.50 --out {}/new --seed 18446744073709551616 | 0, found 18446744073709551616
        train mnist-mini/gaussian-0.50 --out {}/new --device tpu | device must be auto, cpu, cuda
        train mnist-mini/gaussian-0.50 --out {run} --sigma 1 | belongs to another configuration
        certify {}/nothing | no run folder at
        certify {} | is not a run folder: it has no config.yaml
        certify {run} --n 9 | n = 9 samples cannot certify anything
        certify {run} --alpha 2 | alpha is a failure probability
        certify {run} --sigma -0.5 | sigma, the standard deviation of the noise, must be above 0
        certify {run} --sigma 0 | must be above 0
        certify {run} --seed -1 | seed must be a whole number from 0 to 2**63 - 1
        certify {run} --seed 9223372036854775808 | for example 0, found 9223372036854775808
        attack {run} --radius 1 --seed -1 | seed must be a whole number from 0 to 2**63 - 1
        attack {run} --radius 1 --seed 18446744073709551616 | for example 0, found 18446744073709551616
        attack {run} --radius 1 --n 5 | n = 5 samples cannot answer anything
        certify {run} --name a/b | --name is the name of one folder
        certify {run} --alpha 1e-310 | at least 1e-100
        train mnist-mini/gaussian-0.50 --out {}/new --model resnet20 | cannot take the data's images
        certify {run} --shard 3 | --shard takes auto or i/N
        certify {run} --shard 4/4 | 0 <= i < N, found 4/4
        certify {run} --max 6 --n 300 --name six | n: 200 there, 300 asked
        status {}/nothing | no run folder at
        report {}/nothing | nothing
        demo --images 0 --out {}/demo | the demo can certify 1 to 1000 images, found 0
        demo --n 0 --out {}/demo | n = 0 samples cannot certify anything
        demo --epochs 0 --out {}/demo | epochs must be at least 1, found 0
        explain {run} --index 0 --ratios -1 | --ratios is a number of images, found -1
        explain {run} --index 0 --seed -1 --out {}/x | for example 0, found -1
        explain {run} --index 0 --seed 9223372036854775808 --out {}/x | 0, found 9223372036854775808
        verify {run} --resample 1 --seed -5 | seed must be a whole number from 0 to 2**63 - 1
        verify {run} --resample 1 --seed 9223372036854775808 | for example 0, found 9223372036854775808
        verify {run} --seed 5 | --seed chooses the inputs of --resample, which is not given: add
        import {}/no.pth --out {}/x --sigma 0.5 --dataset cifar10 | no.pth
        import {}/no.pth --out {}/x --sigma 0.5 --dataset cifar | did you mean cifar10
    """),
)
def test_mistakes_are_answered_in_one_line(capsys, certified, tmp_path, arguments, message):
    named = arguments.replace("{run}", str(certified)).replace("{}", str(tmp_path))
    error = fails(capsys, *shlex.split(named))
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("*/weights*"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["trane"], "trane"),
        (["train"], "arguments are required: recipe, --out\n"),
        (["reproduce"], "arguments are required: what\n"),
        (["predict"], "arguments are required: run, images\n"),
        (["attack", "a"], "arguments are required: --radius\n"),
        (
            ["certify", "a", "--ever", "3"],
            "unrecognized arguments: --ever 3\n  did you mean --every?\n",
        ),
        (["reproduce", "mnist", "--job=1"], "did you mean --jobs?"),
    ],
)
def test_misspelt_options_are_refused_and_named(capsys, arguments, named):
    assert named in fails(capsys, *arguments)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["certify", "a", "--n", "1e5"], "n", 100_000),
        (["certify", "a", "--max", "1e3", "--n0", "100.0"], "max", 1000),
        (["predict", "a", "b.png", "--n", "2e4"], "n", 20_000),
        (["attack", "a", "--radius", "1", "--steps", "1e1"], "steps", 10),
        (["reproduce", "mnist", "--jobs", "1e1"], "jobs", 10),
        (["selftest-noise", "--samples", "1e6"], "samples", 1_000_000),
        (["train", "a", "--out", "b", "--epochs", "1e2"], "epochs", 100),
        (["train", "a", "--out", "b", "--lr-drops", "50,100"], "lr_drops", [50, 100]),
        (["train", "a", "--out", "b", "--lr-drops", "[50, 1e2]"], "lr_drops", [50, 100]),
    ],
)
def test_numbers_are_read_as_people_write_them(words, name, value):
    found = build_parser().parse_args(words)[words[0]][name]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("words", [["0.5,1"], ["0.5", "1"], ["0.5,", "1"], ["0.5, 1"]])
def test_lists_have_commas_or_spaces(words):
    certify = build_parser().parse_args(["certify", "a", "--radius", *words]).certify
    assert read_settings(certify, CertifyConfig, sigma=1.0).radii == (0.5, 1.0)
    attack = build_parser().parse_args(["attack", "a", "--radius", *words]).attack
    assert read_settings(attack, AttackConfig, sigma=1.0).radii == (0.5, 1.0)
    report = build_parser().parse_args(["report", "a", "--radii", *words]).report
    assert read_numbers(report.radii, "--radii") == (0.5, 1.0)


def test_lists_of_whole_numbers_too(capsys):
    explain = build_parser().parse_args(["explain", "a", "--index", "3,17", "1e2"]).explain
    assert read_whole_numbers(explain.index, "--index") == (3, 17, 100)
    assert "--index takes whole numbers, for example 0 1 2, found '1.5'" in fails(
        capsys, "explain", "a", "--index", 1.5
    )


def test_lists(capsys):
    assert "gaussian" in run(capsys, "methods")
    assert "hyperparameters: noises=2, lam=10.0, eta=0.5" in run(capsys, "methods")
    assert re.search(r"mnist/gaussian-0.50 +1.553", run(capsys, "recipes"))
    assert re.search(r"mnist-mini +10 +1x28x28 +10000 \+ 1000 +/", run(capsys, "datasets"))
    assert "resnet110" in run(capsys, "models")


def test_a_word_that_is_none_of_a_few_is_answered_by_these_in_one_line(capsys):
    """Of every command, and of all options whose usage has words in braces but true and false."""
    found = []
    for name, parser in build_parser().commands.items():
        usage = " ".join(parser.format_usage().split())
        for flag, words in re.findall(r"(--[\w-]+) \{(?!true,)([^}]+)\}", usage):
            with pytest.raises(SystemExit) as ended:
                main([name, flag, "wrng"])
            assert ended.value.code == 2
            listed = words.replace(",", ", ")
            assert (
                capsys.readouterr().err
                == f"error: {flag} is one of {listed}, found 'wrng'; choose one of them\n"
            )
            found.append((name, flag))
    assert {
        ("certify", "--noise"),
        ("certify", "--split"),
        ("train", "--optimizer"),
        ("attack", "--attack"),
    } < {*found}


@pytest.mark.parametrize(
    ("words", "said"),
    cases("""
        train --lr-late maybe | --lr-late takes true or false, found 'maybe'; write for example --lr-late true
        train --lr-late 1 | --lr-late takes true or false, found '1'
        certify --n many | --n takes a whole number, found 'many'; write for example --n 100
        certify --n 1.5 | --n takes a whole number, found '1.5'
        certify --max '' | --max takes a whole number, found ''
        train --lr-drops 30,x | --lr-drops takes whole numbers with commas between them, found '30,x'
        train --sigma much | --sigma takes a number, found 'much'; write for example --sigma 0.25
        certify --alpha nan | --alpha takes a number, found 'nan'
        report --least-accuracy inf | --least-accuracy takes a number, found 'inf'
        import --sigma wide | --sigma takes a number, found 'wide'
        certify --skip-wrong=no | --skip-wrong takes no value, found 'no'; give it alone to turn it on, or leave
    """),
)
def test_a_wrong_value_is_told_in_one_line(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(words))
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {said}")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["--lr-late", "true"], {"lr_late": True}),
        (["--lr-late", "Yes"], {"lr_late": True}),
        (["--lr-late=FALSE"], {"lr_late": False}),
        (["--lr-late", "off"], {"lr_late": False}),
        (
            ["--epochs", "1e2", "--seed", "9007199254740993"],
            {"epochs": 100, "seed": 9007199254740993},
        ),
        (["--lr", "1e-3", "--sigma", "2"], {"lr": 0.001, "sigma": 2.0}),
        (["--lr-drops", "[30, 60]"], {"lr_drops": [30, 60]}),
        ([], {"lr_late": None, "epochs": None, "lr": None, "lr_drops": None}),
    ],
)
def test_values_are_read_by_their_type(words, read):
    parsed = (
        build_parser(None, ["train"]).parse_args(["train", "recipe", "--out", "run", *words]).train
    )
    found = {name: parsed[name] for name in read}
    assert found == read
    assert [type(value) for value in found.values()] == [type(value) for value in read.values()]


def test_a_wrong_word_is_told_alike_on_the_command_line_and_in_a_file(capsys, tmp_path):
    """Some words have a near one among the few, some have none."""
    for setting, word in (
        ("optimizer", "sdg"),
        ("augment", "crop_flip"),
        ("kernels", "xyz"),
        ("precision", "float"),
    ):
        told = []
        file = tmp_path / f"{setting}.yaml"
        file.write_text(
            f"dataset: mnist\nmodel: lenet\nsigma: 0.5\nmethod: {{name: gaussian}}\n{setting}: {word}\n"
        )
        for words in (["mnist/gaussian-0.50", f"--{setting}", word], [str(file)]):
            with pytest.raises(SystemExit):
                main(["train", *words, "--out", str(tmp_path / "run")])
            told.append(capsys.readouterr().err.partition(f"{setting} is one of ")[2])
        assert told[0]
        assert told[0] == told[1]
    assert not (tmp_path / "run").exists()


def test_a_wrong_word_is_told_to_programs_too(capsys):
    with pytest.raises(SystemExit):
        main(["predict", "run", "picture.png", "--noise", "wrng", "--json"])
    assert json.loads(capsys.readouterr().out)["error"].startswith("--noise is one of exact, ")
