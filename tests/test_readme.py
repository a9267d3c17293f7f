"""README's commands and code, run as they stand there; the options, links and tables of README and the pages."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from smoothcert.cli import frame
from tests.cli.commands import options_of
from tests.test_examples import followed

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md"]
PAGES += [f"docs/{page.name}" for page in sorted(ROOT.glob("docs/*.md"))]
FOREIGN = {"--index-url", "--nproc-per-node", "--pre-commit", "--resolution"}  # of other programs
FOREIGN |= {"--max-restarts", "--node-rank", "--nnodes", "--standalone"}  # of torchrun
FOREIGN |= {"--rdzv-backend", "--rdzv-endpoint", "--rdzv-id"}
FOREIGN |= {"--head", "--address"}  # of Ray
FOREIGN |= {"--index-url"}  # of pip
FOREIGN |= {"--recursive"}  # of the programs of cloud providers
FOREIGN |= {"--array", "--gpus", "--gpus-per-node", "--job-name", "--nodes"}  # of Slurm
FOREIGN |= {"--ntasks-per-node", "--requeue", "--signal", "--time"}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_readme_is_short():
    assert len(README.splitlines()) <= 120


def test_the_lines_that_train_end_in_a_report(readme_folder):
    _, shell = blocks("sh")
    assert len(shell.strip().splitlines()) == 4
    assert "<svg" in (readme_folder / "report.html").read_text()


def test_the_lines_about_your_own_model_end_in_a_report(tmp_path, monkeypatch, capsys):
    said = followed(blocks("sh")[0], capsys, monkeypatch, tmp_path)
    assert [found[:2] for found in said] == [("doctor", 0), ("certify", 0), ("report", 0)]
    assert "data:image/png" in (tmp_path / "digits.html").read_text()


def test_the_five_lines_of_python_certify_an_image(tmp_path):
    (code,) = blocks("python")
    assert len(code.strip().splitlines()) == 5
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"7 \d\.\d+\n", done.stdout)


def test_every_extra_has_its_size():
    """In the one table of extras: as many sizes in a row as names."""
    table = README.split("| extra, as")[1].split("\n\n")[0].splitlines()[2:]
    rows = [line.split("|")[1:-1] for line in table]
    named = [name for cells in rows for name in re.findall(r"`([\w-]+)`", cells[0])]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(named) == sorted(project["optional-dependencies"].keys() - {"dev", "docs"})
    assert [cells[0].count("`") // 2 for cells in rows] == [
        cells[2].count(",") + 1 for cells in rows
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("docs/adding-a-")])
def test_every_command_and_option_named_exists(page):
    """The pages of worked examples are not among these: tests/test_contributing.py runs their commands."""
    parsers = {name: options_of(name) for name in frame.commands()}
    text = (ROOT / page).read_text()
    code = re.findall(r"```\w*\n.*?```|`[^`]+`", text, re.DOTALL)
    for name in re.findall(r"^`?smoothcert +([a-z][a-z-]*)", "\n".join(code), re.MULTILINE):
        assert name in (*parsers, "help"), f"{page}: smoothcert {name}"
    options = set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*)", text)) - FOREIGN
    known = {option for options in parsers.values() for option in options}
    known |= {"--help", "--help-all", "--version", "--install-completion"}
    benchmarks = {
        option
        for path in ROOT.glob("benchmarks/*.py")
        for option in re.findall(r'"(--[a-z][a-z0-9-]*)"', path.read_text())
    }
    assert options <= known | benchmarks


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target.replace("\n", "")).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_lines_of_text_are_not_long(page):
    lines = enumerate((ROOT / page).read_text().splitlines(), 1)
    assert not [
        number for number, line in lines if len(line) > 100 and not line.startswith(("|", "<!--"))
    ]


@pytest.mark.parametrize(
    ("page", "tables"), [("README.md", 2), ("results/README.md", 3), ("docs/ledger.md", 1)]
)
def test_tables_are_those_of_the_results(page, tables):
    """`python results/tables.py` would change nothing."""
    text = (ROOT / page).read_text()
    assert text.count("<!-- end -->") == tables
    assert "reproduced |" in text
    code = (
        f"from tables import *; text = (ROOT / {page!r}).read_text(); assert filled(text) == text; "
        "assert filled(text.replace('reproduced |', 'different |')) == text"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "results", check=True)


def test_the_differences_of_the_readme_are_to_the_means():
    number = r"([+-]?\d\.\d{4})"
    rows = re.findall(rf"\| {number} \| {number} ± {number} \(5 seeds\) \| {number} ±", README)
    assert len(rows) == 6
    for ours, mean, _, difference in rows:
        assert (
            abs(float(ours) - float(mean) - float(difference)) < 0.00015
        )  # each of them is rounded


def test_the_readme_shows_six_results_and_the_results_page_all():
    rows = r"^\| `(?:mnist|fashion-mnist)/"
    assert len(re.findall(rows, README, re.MULTILINE)) == 6
    assert len(re.findall(rows, (ROOT / "results" / "README.md").read_text(), re.MULTILINE)) >= 54
