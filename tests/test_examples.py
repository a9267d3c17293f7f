"""The notebook and the pages that a newcomer follows, run as they stand."""

import json
import re
import runpy
import shlex
import sys
import zipfile
from pathlib import Path

from smoothcert.cli import main

ROOT = Path(__file__).parent.parent


def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    """Its code cells in order, as a notebook runs them; outputs are not kept in the file."""
    notebook = json.loads((ROOT / "examples" / "own_model.ipynb").read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for cell in cells:
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["diagnosis"].fit
    assert names["certificate"].predict == names["test"].labels[0]
    assert names["certificate"].radius > 0.3
    assert "data:image/png" in names["certificate"]._repr_html_()
    assert names["accuracy"][0] > 0.7
    assert 0.3 < names["acr"] < names["diagnosis"].limits.largest_radius
    assert "My digits" in (tmp_path / "report.html").read_text()
    assert "certified accuracy at radius 0.25" in capsys.readouterr().out


def test_the_bound_of_noise_that_depends_on_the_input(tmp_path, monkeypatch, capsys):
    script = ROOT / "examples" / "input_noise.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "bound.svg")])
    runpy.run_path(str(script), run_name="__main__")
    assert "C = 814.017" in capsys.readouterr().out
    assert "input dimension" in (tmp_path / "bound.svg").read_text()


def shell(page):
    return "".join(re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL))


def followed(lines, capsys, monkeypatch, place):
    """Commands as they stand on a page, run in a folder: the name, the status, and what each has printed."""
    commands = [
        shlex.split(line, comments=True) for line in lines.replace("\\\n", " ").splitlines()
    ]
    monkeypatch.chdir(place)
    (place / "examples").symlink_to(ROOT / "examples")
    said = []
    for program, *words in commands:
        if program == "python":
            monkeypatch.setattr(sys, "argv", words)
            runpy.run_path(words[0], run_name="__main__")
            continue
        assert program == "smoothcert"
        few = ["--images", "40"] if words[0] == "doctor" else []  # for speed
        try:
            status = main([*words, *few]) or 0
        except SystemExit as stop:
            status = stop.code
        said.append((words[0], status, capsys.readouterr().out))
    return said


def test_the_tutorial_can_be_followed(tmp_path, monkeypatch, capsys):
    said = followed(shell("docs/tutorial.md"), capsys, monkeypatch, tmp_path)
    assert [(name, status) for name, status, _ in said] == [
        (name, 0) for name in ("doctor", "certify", "report", "predict")
    ]
    assert "certified radius" in said[-1][2]
    assert "data:image/png" in (tmp_path / "digits.html").read_text()
    names = {}
    page = (ROOT / "docs" / "tutorial.md").read_text()
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    votes, by_hand, *certificate = capsys.readouterr().out.splitlines()
    assert sum(json.loads(votes)) == 1000
    radius = float(by_hand.split()[-1])
    assert abs(radius - names["certificate"].radius) < 0.3  # other noise, the same digit
    assert names["certificate"].sentence() == certificate[-1]


def test_the_pictures_of_the_tutorial_can_be_drawn(tmp_path):
    pictures = runpy.run_path(str(ROOT / "docs" / "pictures.py"))
    pictures["main"](tmp_path, 200)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    page = (ROOT / "docs" / "tutorial.md").read_text()
    assert drawn == set(re.findall(r"images/(idea-[\w-]+\.png)", page))
    assert all((ROOT / "docs" / "images" / name).is_file() for name in drawn)


def test_the_page_about_your_own_network_can_be_followed(tmp_path, monkeypatch, capsys):
    said = followed(shell("docs/own-network.md"), capsys, monkeypatch, tmp_path)
    wrong, right, *others = said
    assert wrong[:2] == ("doctor", 1)
    assert re.search(r"ERROR .*normalisation looks wrong", wrong[2])
    assert right[:2] == ("doctor", 0)
    assert "ready: certify it with sigma 0.25" in right[2]
    assert [name for name, _, _ in others] == ["certify", "report", "predict", "verify", "pack"]
    assert all(status == 0 for _, status, _ in others)
    with zipfile.ZipFile(tmp_path / "runs" / "digits.zip") as pack:
        assert "trained elsewhere; weights: digits.ckpt" in pack.read("digits/card.md").decode()
    report = (tmp_path / "report.html").read_text()
    assert "<svg" in report
    assert "data:image/png" in report


def test_the_tables_of_costs_are_what_the_script_prints(capsys, monkeypatch):
    """`python benchmarks/costs.py` prints the tables of the page about sigma, n and alpha."""
    page = (ROOT / "docs" / "choosing.md").read_text()
    monkeypatch.setattr(sys, "argv", ["costs.py"])
    runpy.run_path(str(ROOT / "benchmarks" / "costs.py"), run_name="__main__")
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) == 3
    assert all(table in page for table in tables)
