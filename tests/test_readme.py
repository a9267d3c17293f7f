"""README's commands and code, run as they stand there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from smoothcert.cli import build_parser

README = (Path(__file__).parent.parent / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the shell block has run."""
    place = tmp_path_factory.mktemp("readme")
    (shell,) = blocks("sh")
    for line in shell.strip().splitlines():
        command = shlex.split(line)
        assert command[0] == "smoothcert"
        done = subprocess.run([sys.executable, "-m", *command], cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return place


def test_the_shell_lines_end_in_a_report(folder):
    assert "<svg" in (folder / "report.html").read_text()


def test_the_five_lines_of_python_certify_an_image(folder):
    code = blocks("python")[0]
    assert len(code.strip().splitlines()) == 5
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"class 7: nothing within \d\.\d{3} changes that\n", done.stdout)


def test_the_method_of_your_own_trains(folder):
    code = blocks("python")[1]
    assert len([line for line in code.splitlines() if line.strip() and not line.startswith("#")]) <= 15
    (folder / "mymethods.py").write_text(code)
    command = [
        "train",
        "mnist-mini/gaussian-0.50",
        "--out",
        "runs/mine",
        "--method.name",
        "mymethods.Smoothed",
        "--epochs",
        "1",
    ]
    done = subprocess.run([sys.executable, "-m", "smoothcert", *command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 epochs done; loss" in done.stdout


def test_every_command_and_option_named_exists():
    helps = {}
    for line in re.findall(r"^smoothcert +(.*)", README, re.MULTILINE):
        names = line.split("  ")[0].split()
        for name in [names[0]] if "|" not in names else [name for name in names if name != "|"]:
            if name not in helps:
                with pytest.raises(SystemExit):
                    build_parser().parse_args([name, "--help"])
                helps[name] = True
    options = set(re.findall(r"(--[a-z][a-z0-9-]*)", README)) - {"--method"}
    known = {option for parser in _parsers() for option in parser._option_string_actions}
    assert options <= known


def _parsers():
    parser = build_parser()
    return [parser, *next(a for a in parser._actions if hasattr(a, "_name_parser_map"))._name_parser_map.values()]


def test_links_lead_somewhere():
    root = Path(__file__).parent.parent
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (root / target.replace("\n", "")).exists(), target


def test_tables_are_those_of_the_results():
    """`python results/tables.py` would change nothing."""
    code = "from tables import *; text = (ROOT / 'README.md').read_text(); assert '| yes |' in text; "
    code += "assert filled(text) == text"
    place = Path(__file__).parent.parent / "results"
    subprocess.run([sys.executable, "-c", code], cwd=place, check=True)
