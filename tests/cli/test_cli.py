"""The command line as a whole: help without PyTorch, mistakes answered in one line, the lists."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from smoothcert.cli import frame, main
from tests.cli.commands import ends, fails, options_of, run
from tests.refusals import cases

COMMANDS = [
    *("attack", "certify", "denoised", "doctor", "ensemble", "explain", "import", "list", "merge"),
    *("pack", "predict", "report", "reproduce", "status", "train", "try", "unpack", "verify"),
]
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


def test_help_names_every_command_and_needs_no_torch():
    assert frame.commands().keys() == set(COMMANDS)
    overview, *pages = printed_without_torch([], *([name, "--help"] for name in COMMANDS))
    assert set(re.findall(r"^  ([a-z]+)  ", overview, re.MULTILINE)) == set(COMMANDS)
    for name, page in zip(COMMANDS, pages, strict=True):
        assert page.startswith(f"Usage: smoothcert {name} ")


def test_looking_needs_no_torch(certified):
    looks = [[command, str(certified)] for command in ("status", "report", "verify")]
    status, report, verified, recipes = printed_without_torch(*looks, ["list", "recipes"])
    assert "verified: 6 rows recomputed" in verified
    assert "certify six: all 6 inputs done" in status
    assert "ACR" in report
    assert re.search(r"mnist/gaussian-0.50 +1.553", recipes)


def test_few_options_are_shown_unless_all_are_asked_for(capsys):
    few = set(re.findall(r"^  (--[a-z-]+)", run(capsys, "certify", "--help"), re.MULTILINE))
    assert {"--sigma", "--n", "--alpha", "--radius"} < few < options_of("certify").keys()
    assert len(few) < 13


def test_every_option_says_what_it_is_for():
    for command in COMMANDS:
        for option, text in options_of(command).items():
            assert len(text.split()) > 2, (command, option)


def test_the_page_of_all_options_is_as_they_are(monkeypatch):
    """After a change: make docs/commands.md."""
    monkeypatch.chdir("/")
    page = Path(__file__).parent.parent.parent / "docs" / "commands.md"
    assert page.read_text() == frame.reference()


def test_python_m_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "smoothcert", "--version"], capture_output=True, text=True
    )
    assert re.match(r"smoothcert \d+\.\d+", done.stdout)


def test_bash_completes_commands_options_words_and_recipes(tmp_path):
    """By the script that --install-completion writes, in a shell of its own."""
    home = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    home["PATH"] = f"{Path(sys.executable).parent}:{home['PATH']}"
    program = [sys.executable, "-m", "smoothcert", "--install-completion", "--shell", "bash"]
    subprocess.run(program, env=home, check=True, capture_output=True)
    (script,) = tmp_path.rglob("completions/smoothcert")
    asked = {
        "smoothcert cer": "certify",
        "smoothcert certify --skip": "--skip-wrong",
        "smoothcert certify a --noise un": "uniform",
        "smoothcert list rec": "recipes",
        "smoothcert train mnist/gaussian-0.5": "mnist/gaussian-0.50",
    }
    for line, wanted in asked.items():
        words = shlex.join(shlex.split(line))
        code = (
            f"source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
            f"COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; "
            "$(complete -p smoothcert | sed 's/.*-F \\([^ ]*\\).*/\\1/') smoothcert; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", code], env=home, capture_output=True, text=True)
        assert [word.strip() for word in done.stdout.split()] == [wanted], (line, done.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases("""
        trane | did you mean train
        certfy a | did you mean certify
        help certfy | did you mean certify
        frame | unknown command
        train | needs RECIPE
        train a | needs --out
        predict a | needs IMAGES
        attack a | needs --radius
        certify a --ever 3 | --ever: did you mean --every
        attack a --step=1 --radius 1 | did you mean --steps
        train a --out b --eta 5 | --method.eta
        train a --out b --method gaussian | --method.name
        train a --out b --method 5 --method 6 | --method
        train a --out b --method.lam | --method.lam takes a value
        train a --out b --method.lam '{' | --method.lam takes a value as YAML has it, found '{'
        train a --out b --lr-late maybe | no place for 'maybe'
        train a --out b --lr-late=maybe | --lr-late takes no value, found 'maybe'
        train a --out b --lr-late --no-lr-late | given twice
        train a --out b --epochs 1 --epochs 2 | --epochs is given twice
        train a --out b --method.lam 1 --method.lam 2 | --method.lam is given twice
        train a --out b --lr-drops 30,x | --lr-drops takes a whole number, found 'x'
        train a --out b --sigma much | --sigma takes a number, found 'much'
        train a --out s3://bucket/b | expected a path on this machine, found s3://bucket/b
        certify a --n | --n takes a value, found none
        certify a --radius | --radius
        certify a --n many | --n takes a whole number, found 'many'
        certify a --n 1.5 | --n takes a whole number, found '1.5'
        certify a --max '' | --max takes a whole number, found ''
        certify a --alpha nan | --alpha takes a number, found 'nan'
        certify a --skip-wrong=no --skip-wrong | given twice
        certify a --radius 0 one | --radius takes a number, found 'one'
        certify a --radius 1/0 | --radius takes a number, found '1/0'
        certify a --ray b c | --ray takes one value, found 2
        explain a --index 1.5 | --index takes a whole number, found '1.5'
        report --least-accuracy inf | --least-accuracy takes a number, found 'inf'
        report --port 99999 --serve | from 0 to 65535, found 99999
        list recipe | did you mean recipes
        list recipes mnist/gausian-0.50 | did you mean mnist/gaussian-0.50
        list methods gausian | did you mean gaussian
        list models lenett | did you mean lenet
        list data cifar | did you mean cifar10
        list recipes --data-dir {} | --data-dir
        train mnist-mini/gausian-0.50 --out {}/new | did you mean mnist-mini/gaussian-0.50
        train mnist-mini/gaussian-0.50 --out {}/new --data mnst | did you mean mnist
        train mnist-mini/gaussian-0.50 --out {}/new --model lenett | did you mean lenet
        train mnist-mini/gaussian-0.50 --out {}/new --method.name gauss | did you mean gaussian
        train mnist-mini/gaussian-0.50 --out {}/new --sigma -1 | sigma must not be negative, found -1.0
        train mnist-mini/gaussian-0.50 --out {}/new --seed -1 | for example 0, found -1
        train mnist-mini/gaussian-0.50 --out {}/new --seed 18446744073709551616 | 0, found 18446744073709551616
        train mnist-mini/gaussian-0.50 --out {}/new --device tpu | device must be auto, cpu, cuda
        train mnist-mini/gaussian-0.50 --out {}/new --data-dir {}/none | --data-dir is a folder
        train mnist-mini/gaussian-0.50 --out {run} --sigma 1 | belongs to another configuration
        certify | name one network
        certify {run} --model a.py:B | name one network
        certify {run} --mean 0.5 | --mean is of a network that --model names
        certify {}/nothing | no run folder at
        certify {} | is not a run folder: it has no config.yaml
        certify {run} --n 9 | n = 9 samples cannot certify anything
        certify {run} --alpha 2 | alpha is a failure probability
        certify {run} --sigma -0.5 | sigma, the standard deviation of the noise, must be above 0
        certify {run} --sigma 0 | must be above 0
        certify {run} --sigma 25 | did you mean 0.098
        certify {run} --max -1 | max must be at least 1, found -1
        certify {run} --seed -1 | seed must be a whole number from 0 to 2**63 - 1
        certify {run} --seed 9223372036854775808 | for example 0, found 9223372036854775808
        attack {run} --radius 1 --seed -1 | seed must be a whole number from 0 to 2**63 - 1
        attack {run} --radius 1 --n 5 | n = 5 samples cannot answer anything
        certify {run} --name a/b | --name is the name of one folder
        certify {run} --alpha 1e-310 | 1e-100
        train mnist-mini/gaussian-0.50 --out {}/new --model resnet20 | cannot take the data's images
        certify {run} --shard 3 | shard must be auto or i/N
        certify {run} --shard 4/4 | 0 <= i < N, found 4/4
        certify {run} --max 6 --n 300 --name six | n: 200 there, 300 asked
        status {}/nothing | no run folder at
        report {}/nothing | nothing
        try --n 0 --out {}/try | n = 0 samples cannot certify anything
        explain {run} --index 0 --ratios -1 | ratios
        explain {run} --index 0 --seed -1 --out {}/x | for example 0, found -1
        verify {run} --resample 1 --seed -5 | seed must be a whole number from 0 to 2**63 - 1
        verify {run} --seed 5 | --seed chooses the inputs of --resample, which is not given: add
        import {}/no.pth --out {}/x --sigma 0.5 --data cifar10 | no.pth
        import {}/no.pth --out {}/x --sigma 0.5 --data cifar | did you mean cifar10
        import {}/no.pth --out {}/x --sigma wide --data cifar10 | --sigma takes a number, found 'wide'
    """),
)
def test_mistakes_are_answered_in_one_line(capsys, certified, tmp_path, arguments, message):
    named = arguments.replace("{run}", str(certified)).replace("{}", str(tmp_path))
    error = fails(capsys, *shlex.split(named))
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


NEEDED = {
    "attack": ["a", "--radius", "1"],
    "denoised": ["--denoiser", "a", "--out", "b"],
    "predict": ["a", "b"],
    "train": ["a", "--out", "b"],
}


def test_a_word_that_is_none_of_a_few_is_answered_by_these_in_one_line(capsys):
    """Of every command, and of all options whose help says which words there are."""
    found = []
    for name in COMMANDS:
        for flag, rest in options_of(name).items():
            if not re.match("CHOICE ", rest):
                continue
            status, said = ends(capsys, name, *NEEDED.get(name, ["a"]), flag, "wrng")
            assert status == 2
            assert said.err.startswith(f"error: {flag} is one of ")
            assert "found 'wrng'" in said.err
            assert said.err.count("\n") == 1
            found.append((name, flag))
    assert {
        ("certify", "--noise"),
        ("certify", "--split"),
        ("train", "--optimizer"),
        ("attack", "--attack"),
    } < {*found}


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("certify a --n 1e5 --n0 100.0", {"n": 100_000, "n0": 100}),
        ("certify a --radius 0.5,1", {"radii": (0.5, 1.0)}),
        ("certify a --radius 0.5, 1", {"radii": (0.5, 1.0)}),
        ("certify a --radius 2/255 -1", {"radii": (2 / 255, -1.0)}),
        ("certify a --skip-wrong --sigma 2", {"skip_wrong": True, "sigma": 2.0}),
        ("certify a", {}),
        ("attack a --radius 1 --steps 1e1", {"radii": (1.0,), "steps": 10}),
        ("train a --out b --epochs 1e2 --lr 1e-3", {"epochs": 100, "lr": 0.001}),
        ("train a --out b --seed 9007199254740993", {"seed": 9007199254740993}),
        ("train a --out b --lr-drops 50,100", {"lr_drops": [50, 100]}),
        ("train a --out b --lr-drops '[50, 1e2]'", {"lr_drops": [50, 100]}),
        ("train a --out b --lr-late", {"lr_late": True}),
        ("train a --out b --no-lr-late", {"lr_late": False}),
        ("train a --out b --lr-late=FALSE", {"lr_late": False}),
        (
            "train a --out b --method.name x --method.eta 5 --method.drops=[1,2] --method.low none",
            {"method": {"name": "x", "eta": 5, "drops": [1, 2], "low": "none"}},
        ),
        (
            "train a --out b --soft-labels.folder f --soft-labels.settings.epochs 3",
            {"soft_labels": {"folder": "f", "settings": {"epochs": 3}}},
        ),
        (
            "train a --out b --soft-labels '{n: 250, folder: l}'",
            {"soft_labels": {"n": 250, "folder": "l"}},
        ),
        ("train a --out b", {}),
    ],
)
def test_values_are_read_as_people_write_them(words, read):
    found = frame.parsed(shlex.split(words)).keywords["settings"]
    assert found == read
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in read.items()
    }


def test_arguments_too():
    assert frame.parsed(shlex.split("explain a --index 3,17 1e2")).keywords["index"] == (3, 17, 100)
    assert frame.parsed(["certify", "s3://b/run"]).args == ("s3://b/run",)
    assert "ray" not in frame.parsed(["certify", "a"]).keywords
    assert frame.parsed(["certify", "a", "--ray"]).keywords["ray"] == ()
    assert frame.parsed(["certify", "a", "--ray", "b:1"]).keywords["ray"] == ("b:1",)


def test_lists(capsys):
    assert "gaussian" in run(capsys, "list", "methods")
    assert "hyperparameters: noises=2, lam=10.0, eta=0.5" in run(capsys, "list", "methods")
    assert "hyperparameters: noises=2, lam=10.0" in run(capsys, "list", "methods", "consistency")
    assert re.search(r"mnist/gaussian-0.50 +1.553", run(capsys, "list", "recipes"))
    assert "lr: 0.01" in run(capsys, "list", "recipes", "mnist/gaussian-0.50")
    assert re.search(
        r"mnist-mini +10 +1x28x28 +10000 \+ 1000 +/", run(capsys, "list", "data", "mnist-mini")
    )
    assert run(capsys, "list", "models", "resnet110").startswith("resnet110 ")


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
