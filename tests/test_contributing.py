"""The worked examples of docs/adding-a-*.md, carried out on a copy of the package.

A block of code whose first line is a comment with a path is that file. A diff is applied. The lines of an `sh` block
are run, and a `text` block after it is what they print. So whoever follows a page gets what it says.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import smoothcert

ROOT = Path(__file__).parent.parent
PACKAGE = Path(smoothcert.__file__).parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page):
    return BLOCK.findall((ROOT / "docs" / page).read_text())


def write_file(block, place):
    """A file whose path its first line names."""
    first, _, code = block.partition("\n")
    path = place / re.fullmatch(r"# ([\w/.-]+\.(?:py|yaml))", first)[1]
    assert not path.exists(), f"{path} is there already: choose another name for the example"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    return path


def apply_diff(block, place):
    """Each hunk's old lines must stand in the file exactly once."""
    old, new, *rest = block.splitlines()
    name = old.removeprefix("--- a/")
    assert new == f"+++ b/{name}"
    text = (place / name).read_text()
    for hunk in "\n".join(rest).split("@@\n")[1:]:
        lines = hunk.splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if line[:1] in (" ", "-"))
        after = "".join(f"{line[1:]}\n" for line in lines if line[:1] in (" ", "+"))
        assert text.count(before) == 1, (
            f"{name} has these lines {text.count(before)} times:\n{before}"
        )
        text = text.replace(before, after)
    (place / name).write_text(text)


def run_line(line, place):
    program, *words = shlex.split(line)
    tests = ["-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={place / 'tests.xml'}"]
    start = {"smoothcert": ["-m", "smoothcert"], "pytest": tests, "python": []}
    environment = {**os.environ, "PYTHONPATH": str(place), "COLUMNS": "200"}
    command = [sys.executable, *start[program], *words]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
    return done.stdout


def follow(page, place):
    """Do what a page says, block by block; returns all that its commands printed."""
    shutil.copytree(PACKAGE, place / "smoothcert", ignore=shutil.ignore_patterns("__pycache__"))
    printed, last, written = [], "", []
    for language, block in blocks(page):
        if language in ("python", "yaml"):
            written.append(write_file(block, place))
        elif language == "diff":
            apply_diff(block, place)
        elif language == "sh":
            lines = block.replace("\\\n", "").strip().splitlines()
            last = "".join(run_line(line, place) for line in lines)
            printed.append(last)
        else:
            assert language == "text"
            assert last == block
    return "".join(printed), written


def passed(place):
    """How many tests pytest's own report counts as run, none of them failed or skipped."""
    (suite,) = ElementTree.parse(place / "tests.xml").iter("testsuite")
    assert {suite.get(kind) for kind in ("failures", "errors", "skipped")} == {"0"}
    return int(suite.get("tests"))


def lint(files, place):
    """Files of the package and its tests keep to the project's rules; those of the reader may be shorter."""
    ours = [
        str(path.relative_to(place))
        for path in files
        if path.relative_to(place).parts[0] in ("smoothcert", "tests")
    ]
    python = [path for path in ours if path.endswith(".py")]
    for check in (["check"], ["format", "--check", "--line-length", "100"]):  # as wide as the pages
        command = [
            sys.executable,
            "-m",
            "ruff",
            *check,
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
            *python,
        ]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_a_method_is_added_as_the_page_says(tmp_path):
    printed, written = follow("adding-a-method.md", tmp_path)
    assert passed(tmp_path) == 2
    assert re.search(r"^ *averaged\b", printed, re.MULTILINE)
    assert printed.count("1 epoch done; loss") == 2
    assert (
        "name: mymethods.Averaged\n  noises: 4\n"
        in (tmp_path / "runs/mine/config.yaml").read_text()
    )
    assert (
        len((tmp_path / "runs/averaged/certify/test/part-0-of-1.tsv").read_text().splitlines()) == 6
    )
    lint(written, tmp_path)


@pytest.mark.long
def test_a_data_set_is_added_as_the_page_says(tmp_path):
    printed, written = follow("adding-a-dataset.md", tmp_path)
    assert passed(tmp_path) == 3
    assert re.search(r"^ *stripes\b", printed, re.MULTILINE)
    assert "1 epoch done; loss" in printed
    for store in ("certificates", "runs/stripes/certify/test"):
        assert len((tmp_path / store / "part-0-of-1.tsv").read_text().splitlines()) == 6
    lint(written, tmp_path)


def test_a_command_is_added_as_the_page_says(tmp_path):
    printed, written = follow("adding-a-command.md", tmp_path)
    assert passed(tmp_path) == 2
    assert re.search(r"^ *radius\b", printed, re.MULTILINE)
    lint(written, tmp_path)


def test_a_kernel_is_added_as_the_page_says(tmp_path):
    pytest.importorskip("triton")
    _, written = follow("adding-a-kernel.md", tmp_path)
    assert passed(tmp_path) == 6
    lint(written, tmp_path)
