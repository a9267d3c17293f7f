"""An alarm stands wherever the numbers of its run stand, whatever is asked for and however they are shown."""

import csv
import json

import pytest

from smoothcert.evaluation.reanalysis import reanalyse
from smoothcert.report import certificate_table, read_results, read_store
from tests.cli.commands import ends
from tests.report.attack_stores import ABOUT, RIGHT, WRONG, write_attacks
from tests.report.page import write_report

ALARM = "SOUNDNESS ALARM: {}, pgd at radius 0.75: 1 of 2 inputs (idx 0) answers otherwise inside its certified radius"
TABLES = ["accuracy", "confidence", "differences", "envelope", "attacks"]
DOUBLE = ("envelope", "attacks")  # views of two tables


@pytest.fixture
def pair(write_store, tmp_path):
    """Two runs of one network: an attack on `wrong` changes an answer inside the radius that `test` claims."""
    for run in ("wrong", "well"):
        rows = [(0, 1, 1, 1.0), (1, 2, 2, 0.5)]
        write_store(rows, run=run, inputs=2, **ABOUT | {"model": run, "dimension": 4})
    answers = {(0, 0.75): WRONG, (1, 0.75): {"predict": 2, "label": 2}}
    write_attacks(tmp_path / "wrong" / "attack" / "pgd", answers, model="wrong")
    return tmp_path


@pytest.mark.parametrize(
    "again", [[], ["--alpha", 1e-12], ["--bound", "multiclass"], ["--norm", "linf"]]
)  # fmt: skip
def test_it_is_in_every_table_file_and_page(pair, capsys, again):
    told, flagged = ALARM.format("wrong"), "(SOUNDNESS ALARM)"
    names = TABLES if "linf" not in again else [name for name in TABLES if name != "confidence"]
    files = [
        word for kind in ("html", "markdown", "latex", "csv") for word in (f"--{kind}", pair / kind)
    ]
    words = ["report", pair / "wrong", pair / "well", *again, "--tables", *names, *files]
    status, said = ends(capsys, *words, "--figure", pair / "f.svg")
    assert (status, said.err.count(told)) == (0, 1)
    files = [f"-{name}" if name != "accuracy" else "" for name in names]
    files += [f"-{name}-2" for name in DOUBLE]
    assert said.out.count(f"note: {told}") == len(files)
    assert (pair / "markdown").read_text().count(f"- {told}") == len(files)
    assert (pair / "latex").read_text().count(told) == len(files)
    assert flagged in (pair / "f.svg").read_text()
    page = (pair / "html").read_text()
    assert page.index('role="alert"') < page.index(told) < page.index('id="accuracy"')
    for name in files:
        with (pair / f"csv{name}").open() as file:
            rows = [row[0] for row in csv.reader(file)]
        assert any(flagged in row for row in rows)
        assert all(flagged in row for row in rows if row.startswith("wrong"))
    status, said = ends(capsys, *words[:3], *again, "--json")
    wrong, well = json.loads(said.out)["rows"]
    assert (wrong["alarms"], well["alarms"]) == ([told], [])
    (attack,) = json.loads(said.out)["attacks"]
    assert told in attack["notes"]
    if attack["certificates"]:  # there are none in the norm of the attack beside l-infinity radii
        assert [row["alarms"] for row in attack["attacked"]] == [[0]]


def test_it_is_told_by_the_store_alone(pair, capsys, tmp_path):
    """As `certify` prints it, as a pack has it, and where only the store is named."""
    store, told = pair / "wrong" / "certify" / "test", ALARM.format("wrong/test")
    assert told in certificate_table([read_store(store)]).notes
    assert told in certificate_table([reanalyse(store, alpha=1e-12)]).notes
    status, said = ends(capsys, "report", store, "--alpha", 1e-12)
    assert (status, told in said.err, f"note: {told}" in said.out) == (0, True, True)
    ends(capsys, "report", pair / "wrong", "--draw", "attacks", "--figure", pair / "f.svg")
    assert "wrong/test (SOUNDNESS ALARM): certified, 2 inputs<" in (pair / "f.svg").read_text()
    write_report(read_results(store), tmp_path / "page.html")
    assert "A certificate is contradicted" in (tmp_path / "page.html").read_text()


def test_attacks_of_the_network_that_lie_elsewhere_count(pair, capsys):
    answers = {(1, 0.25): {"predict": 3, "label": 2}}
    other = write_attacks(pair / "else" / "attack" / "pgd", answers, model="well")
    (well,) = read_results(pair / "well")
    assert well.alarms == ()
    _, said = ends(capsys, "report", pair / "well", other, "--csv", pair / "t.csv")
    assert "well/test, pgd at radius 0.25: 1 of 1 input (idx 1) answers otherwise" in said.err
    assert "well/test (SOUNDNESS ALARM),0.5,2," in (pair / "t.csv").read_text()


def test_an_attack_that_cannot_be_read_costs_no_certificate(pair):
    write_attacks(pair / "well" / "attack" / "bad", {(0, 0.5): RIGHT}, model="well", tail="x\ty\n")
    (note,) = read_store(pair / "well" / "certify" / "test").warnings
    assert note.startswith("whether attacks contradict it is not known: ")
    assert "expected 11 columns, found 2" in note
