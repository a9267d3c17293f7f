"""Stores of attacks in reports: read and checked, beside the certificates of the same classifier, in every form."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from smoothcert.errors import ConfigError, StoreError
from smoothcert.report import (
    Material,
    attack_families,
    attack_table,
    attack_values,
    base_table,
    empirical_rows,
    read_attack_stores,
    read_attacks,
    read_results,
    report_tables,
    save_figure,
    write_report,
)
from smoothcert.report.charts.attacks import attack_chart
from smoothcert.report.charts.chart import chart_svg
from smoothcert.report.charts.drawings import Scene, draw
from smoothcert.report.measures.attack_curves import setting_labels
from smoothcert.report.read.attacks import certificates_of
from smoothcert.report.tables.attacks import alarms
from smoothcert.runs.rows import NoCertificates
from tests.cli.commands import ends
from tests.report.attack_stores import ABOUT, OLDER_COLUMNS, attack_row, write_attacks

RIGHT, WRONG, ABSTAIN = 1, 2, -1


@pytest.fixture
def run(tmp_path, write_store):
    """Four inputs with radii of about 1, 1, 0.5 and none, and PGD on them at 0.25 and 0.75."""
    write_store([(0, 1, 1, 1.0), (1, 1, 1, 1.0), (2, 1, 1, 0.5), (3, 1, -1, 0)], **ABOUT)
    answers = {(0, 0.25): RIGHT, (1, 0.25): RIGHT, (2, 0.25): RIGHT, (3, 0.25): ABSTAIN}
    answers |= {(0, 0.75): RIGHT, (1, 0.75): RIGHT, (2, 0.75): WRONG, (3, 0.75): WRONG}
    write_attacks(tmp_path / "run" / "attack" / "pgd", answers)
    return tmp_path / "run"


def both(*places):
    return read_attack_stores(*places), read_results(*places)


def test_a_run_has_its_attacks_beside_its_certificates(run):
    attacks, results = both(run)
    (low, high) = empirical_rows(attacks[0], certificates_of(attacks[0], results))
    assert (low.radius, low.inputs, low.empirical, low.abstained, low.certified, low.alarms) == (
        0.25,
        4,
        0.75,
        0.25,
        0.75,
        (),
    )
    assert (high.radius, high.empirical, high.abstained, high.certified, high.alarms) == (0.75, 0.5, 0.0, 0.5, ())
    assert (low.base, low.noisy) == (1.0, 0.9)


def test_the_table_shows_both_bounds_and_what_the_attack_was(run):
    attacks, results = both(run)
    table = attack_table(attacks, results)
    assert table.radii == ("0.25", "0.75")
    assert table.rows == (
        ("run/test", "4", "certified", "-", "-", "1000", "75.0", "50.0"),
        ("run/test", "4", "under pgd", "20", "128", "1000", "75.0", "50.0"),
    )
    assert list(report_tables(Material(results, attacks=attacks))) == ["certified", "attacks"]
    with pytest.raises(ConfigError, match="these runs have none: `smoothcert attack"):
        report_tables(Material(results), ["attacks"])


def test_attacks_on_the_same_inputs_share_a_certified_row(run):
    write_attacks(run / "attack" / "vanilla", {(i, 0.5): RIGHT for i in range(4)}, attack="vanilla")
    attacks, results = both(run)
    kinds = [(row[2], row[4], *row[-3:]) for row in attack_table(attacks, results).rows]
    assert kinds == [
        ("certified", "-", "75.0", "75.0", "50.0"),
        ("under pgd", "128", "75.0", "", "50.0"),
        ("under vanilla", "-", "", "100.0", ""),
    ]


def test_the_network_itself_is_a_table_where_radius_0_was_measured(run):
    attacks, results = both(run)
    assert len(base_table(attacks, results).rows) == 2
    clean = {(0, 0.0): {"predict": 1, "base_predict": 3, "votes": 500}, (1, 0.0): {"predict": -1, "votes": 400}}
    write_attacks(run / "attack" / "clean", clean)
    attacks, results = both(run)
    tables = report_tables(Material(results, attacks=attacks))
    assert list(tables) == ["certified", "attacks", "base"]
    assert tables["base"][0].rows[0] == ("run/test", "none", "0.00", "2", "50.0", "45.0", "50.0", "50.0")


def test_stores_of_older_versions_know_nothing_of_the_network_itself(run):
    shutil.rmtree(run / "attack" / "pgd")
    write_attacks(run / "attack" / "old", {(0, 0.5): RIGHT}, columns=OLDER_COLUMNS, attack_version=2)
    attacks, results = both(run)
    (row,) = empirical_rows(attacks[0])
    assert (row.empirical, row.base, row.noisy) == (1.0, None, None)
    with pytest.raises(ConfigError, match="--radius 0"):
        base_table(attacks, results)
    write_report(results, run / "page.html", attacks=attacks)


def test_an_answer_inside_a_certified_radius_is_an_alarm_everywhere(run, tmp_path):
    write_attacks(run / "attack" / "strong", {(0, 0.5): WRONG, (1, 0.5): ABSTAIN, (2, 0.5): RIGHT}, attack="ddn")
    attacks, results = both(run)
    (told,) = [note for note in attack_table(attacks, results).notes if "ALARM" in note]
    assert told == (
        "SOUNDNESS ALARM: run/test, ddn at radius 0.5: 1 of 3 inputs (idx 0) answer otherwise inside their certified "
        "radius"
    )
    assert [row["alarms"] for entry in attack_values(attacks, results) for row in entry["attacked"]] == [(), (), (0,)]
    write_report(results, tmp_path / "page.html", attacks=attacks)
    page = (tmp_path / "page.html").read_text()
    assert page.index('role="alert"') < page.index('id="results"')
    assert page.count(told) == 2  # at the top, and in the section
    assert 'href="#attacks-head"' in page


def test_an_alarm_that_the_store_recorded_stays_when_its_certificates_are_gone(tmp_path):
    claimed = {"predict": WRONG, "certified_predict": 1, "certified_radius": 0.9}
    a = read_attacks(write_attacks(tmp_path / "attack" / "pgd", {(7, 0.5): claimed}))
    assert empirical_rows(a)[0].alarms == (7,)
    abstains = write_attacks(tmp_path / "attack" / "none", {(7, 0.5): {**claimed, "certified_predict": -1}})
    with pytest.raises(StoreError, match="expected 0, since the certificate abstains"):
        read_attacks(abstains)
    far = {**claimed, "certified_radius": 0.5}  # at the radius itself nothing is proved
    assert empirical_rows(read_attacks(write_attacks(tmp_path / "attack" / "far", {(7, 0.5): far})))[0].alarms == ()


def test_an_alarm_that_the_store_recorded_stays_when_certificates_are_made_anew(run):
    """Those beside it now say nothing of input 3."""
    claimed = {"predict": WRONG, "certified_predict": 1, "certified_radius": 0.9}
    a = read_attacks(write_attacks(run / "attack" / "strong", {(3, 0.5): claimed}))
    assert empirical_rows(a, certificates_of(a, read_results(run)))[0].alarms == (3,)


def test_a_radius_is_certified_up_to_itself_by_what_the_store_says(tmp_path):
    proved = {(idx, 0.5): {"predict": 1, "certified_predict": 1, "certified_radius": 0.4 + 0.1 * idx} for idx in (0, 1)}
    assert empirical_rows(read_attacks(write_attacks(tmp_path / "attack" / "pgd", proved)))[0].certified == 0.5


def test_an_alarm_about_other_certificates_of_the_same_network_is_not_hidden(run, write_store, tmp_path):
    """`more` stands beside the attack, since it knows as many inputs by more samples; `test` claims what is wrong."""
    write_store([(i, 1, 1, 0.1) for i in range(4)], name="more", n=5000, **ABOUT)
    write_attacks(run / "attack" / "strong", {(0, 0.5): WRONG})
    attacks, results = both(run)
    (alarm,) = alarms(attacks, results)
    assert "test, pgd at radius 0.5: 1 of 1 inputs (idx 0)" in alarm


def test_models_of_other_data_are_no_best_model_of_a_method(tmp_path, write_store):
    """Runs of one method on two data sets: those of each answer for themselves."""
    for data, name in (("a", "1"), ("a", "2"), ("b", "3"), ("b", "4")):
        about = {**ABOUT, "dataset": f"set-{data}", "data": data, "model": name}
        write_store([(i, 1, 1, 0.1 if data == "a" else 1.0) for i in range(4)], run=f"gaussian-{name}", **about)
        write_attacks(tmp_path / f"gaussian-{name}" / "attack" / "pgd", {(i, 0.5): 1 for i in range(4)}, **about)
    families = attack_families(*both(tmp_path))
    assert [(family.name, len(family.models)) for family in families] == [
        ("gaussian set-a test", 2),
        ("gaussian set-b test", 2),
    ]
    assert [family.certified[0].max() < 0.5 for family in families] == [True, False]


@pytest.mark.parametrize("again", [["--norm", "linf", "--dimension", 4], ["--alpha", 1e-20], ["--bound", "multiclass"]])
def test_an_alarm_stays_when_certificates_are_analysed_again(run, capsys, again):
    """What was claimed is contradicted, whatever is shown of it."""
    write_attacks(run / "attack" / "strong", {(0, 0.9): WRONG})
    status, said = ends(capsys, "report", run, *again)
    assert (status, said.err.startswith("SOUNDNESS ALARM: run")) == (0, True)


@pytest.mark.parametrize("changed", [{"model": "other"}, {"data": "other"}, {"sigma": 0.25}, {"split": "train"}])
def test_certificates_of_another_classifier_are_not_beside_an_attack(run, changed):
    write_attacks(run / "attack" / "other", {(0, 0.5): RIGHT}, **changed)
    attacks, results = both(run)
    other = next(a for a in attacks if a.name == "other")
    assert certificates_of(other, results) is None
    assert any("other: no l2 certificates" in note for note in attack_table(attacks, results).notes)
    assert len(attack_families(attacks, results)[0].curves) == 1
    with pytest.raises(ConfigError, match="certify the run too"):
        attack_families([other], results)


def test_radii_of_attacks_are_named_l2_beside_another_norm(run):
    attacks, results = both(run)
    assert "radii of attacks are in l2 norm" not in attack_table(attacks, results).notes
    assert "radii of attacks are in l2 norm" in attack_table(attacks, [replace(c, norm="linf") for c in results]).notes


def test_certificates_that_disagree_on_labels_are_not_beside_it(run):
    write_attacks(run / "attack" / "other", {(0, 0.5): {"predict": 1, "label": 2}})
    attacks, results = both(run)
    assert [certificates_of(a, results) is None for a in attacks] == [True, False]


def test_a_store_is_found_by_its_own_name_but_is_no_certificate(run):
    assert [a.name for a in read_attack_stores(run / "attack" / "pgd", run)] == ["pgd"]
    assert read_attack_stores(run / "certify" / "test") == []
    assert len(read_results(run / "certify" / "test", run / "attack" / "pgd")) == 1
    with pytest.raises(NoCertificates, match="attacks are shown beside them"):
        read_results(run / "attack" / "pgd")
    assert [a.name for a in read_attack_stores(run.parent)] == ["pgd"]  # of all runs below a folder


def test_what_is_not_finished_is_told(run):
    rows = {(0, 0.5): RIGHT, (1, 0.5): RIGHT}
    write_attacks(run / "attack" / "young", rows, inputs=8, tail="2\t1\t0.5")
    write_attacks(run / "attack" / "empty", {})
    with pytest.warns(UserWarning, match="no input is attacked yet"):
        attacks = read_attack_stores(run)
    notes = attack_table(attacks, read_results(run)).notes
    assert "run/test, young: partial, 2 of 8 rows (inputs times radii)" in notes
    assert "run/test, young: part-0-of-1.tsv: unfinished last line left out" in notes
    assert [c.label for c in attack_families(attacks, read_results(run))[0].curves] == ["pgd"]  # complete ones alone


# ---- damaged and hostile stores


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("idx", "-1", "index from 0 on"),
        ("idx", "1e3", "whole number"),
        ("label", "10", "one of 10 classes"),
        ("label", "-1", "one of 10 classes"),
        ("radius", "0.3", "one of the radii of the manifest"),
        ("radius", "nan", "one of the radii of the manifest"),
        ("distance", "0.51", "a distance from 0 to the radius"),
        ("distance", "nan", "a distance from 0 to the radius"),
        ("distance", "", "a number"),
        ("predict", "-2", "-1 for an abstention"),
        ("predict", "10", "-1 for an abstention"),
        ("correct", "0", "1 exactly where predict equals label"),
        ("correct", "7", "1 exactly where predict equals label"),
        ("certified_predict", "3", "finite radius"),  # a class without a radius
        ("certified_radius", "0.5", "nothing in both columns"),
        ("certified_radius", "inf", "nothing in both columns"),
        ("base_predict", "-1", "a class"),
        ("votes", "1001", "from 0 to n = 1000"),
        ("votes", "many", "whole number"),
    ],
)
def test_a_bad_value_names_file_line_and_column(tmp_path, column, value, words):
    folder = write_attacks(tmp_path / "attack" / "x", {(0, 0.5): RIGHT, (1, 0.5): {"predict": 1, column: value}})
    if column == "radius":  # the manifest knows 0.5 alone
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["identity"]["radii"] = [0.5]
        (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=f"part-0-of-1.tsv, line 3: column .*{words}"):
        read_attacks(folder)


def test_rows_and_headers_that_no_attack_writes(tmp_path):
    folder = write_attacks(tmp_path / "attack" / "a", {(0, 0.5): RIGHT}, tail="1\t1\t0.5\n")
    with pytest.raises(StoreError, match="line 3: expected 11 columns, found 3"):
        read_attacks(folder)
    folder = write_attacks(tmp_path / "attack" / "b", {(0, 0.5): RIGHT}, columns=(*OLDER_COLUMNS, "time"))
    with pytest.raises(StoreError, match="does not start with the header of a store of attacks"):
        read_attacks(folder)


def test_a_row_may_be_there_twice_if_both_say_the_same(tmp_path):
    one, other = attack_row(0, 0.5, RIGHT), attack_row(0, 0.5, {"predict": RIGHT, "votes": 3})
    twice = write_attacks(tmp_path / "attack" / "a", {(0, 0.5): RIGHT}, parts=[[one], [{**one, "time": "0:00:09"}]])
    assert len(read_attacks(twice).idx) == 1
    differs = write_attacks(tmp_path / "attack" / "b", {(0, 0.5): RIGHT}, parts=[[one], [other]])
    with pytest.raises(StoreError, match=r"index 0 is attacked twice at radius 0.5 .*votes 900 and 3"):
        read_attacks(differs)
    labels = [attack_row(0, 0.5, RIGHT), attack_row(0, 1.0, {"predict": RIGHT, "label": 2})]
    with pytest.raises(StoreError, match="index 0 has two different labels"):
        read_attacks(write_attacks(tmp_path / "attack" / "c", {(0, 0.5): 1, (0, 1.0): 1}, parts=[labels]))


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({"attack": 3}, "expected attack as text"),
        ({"steps": "20"}, "expected steps as a whole number"),
        ({"noises": 10**400}, "expected noises as a whole number"),
        ({"classes": None}, r"lacks settings of an attack \(classes\)"),
        ({"n": 0}, "n of at least 1"),
        ({"steps": -1}, "steps of at least 1"),
        ({"radii": [float("inf")]}, "expected radii as finite numbers"),
        ({"radii": None}, r"lacks settings of an attack \(radii\)"),
    ],
)
def test_a_manifest_that_anyone_could_have_written(tmp_path, identity, words):
    with pytest.raises(StoreError, match=words):
        read_attacks(write_attacks(tmp_path / "attack" / "x", {(0, 0.5): RIGHT}, **identity))


def test_texts_of_a_store_are_escaped_in_a_page(run, tmp_path):
    write_attacks(run / "attack" / "x", {(0, 0.5): RIGHT}, attack="<script>\x1b[31m\n")
    attacks, results = both(run)
    write_report(results, tmp_path / "page.html", attacks=attacks)
    page = (tmp_path / "page.html").read_text()
    assert "&lt;script&gt;[31m" in page
    assert "<script>[31m" not in page
    assert "\x1b" not in attack_table(attacks, results).to_text(terminal=False)


# ---- curves


def points(svg):
    lines = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}polyline")
    return [np.array([[float(v) for v in p.split(",")] for p in line.get("points").split()]) for line in lines]


def test_the_attacked_accuracy_is_drawn_over_the_certified_curve(run):
    attacks, results = both(run)
    (chart,) = draw("attacks", Scene(results, attacks=attacks))
    certified, empirical = points(chart_svg(chart))
    assert empirical[0, 1] == certified[0, 1]  # both start at the clean accuracy
    assert empirical[-1, 0] > certified[-1, 0]  # what is left at the last radius is left beyond it at most
    bound = [empirical[empirical[:, 0] <= x, 1].max() for x in certified[:-1, 0]]
    assert all(certified[:-1, 1] >= np.array(bound) - 1e-9)  # y grows downwards
    assert "pgd: 75.0 % at 0, 75.0 % at 0.25, 50.0 % at 0.75." in chart.description
    assert [line.label for line in chart.lines] == ["run/test: certified", "pgd"]


@pytest.fixture
def two_models(tmp_path, write_store):
    """One certified better near 0, one far out; both attacked at 0.25 and 1 by PGD, with other answers."""
    for name, radii in (("near", [0.4, 0.4, 0.4, 0.4]), ("far", [1.2, 1.2, 0.2, 0.2])):
        about = {**ABOUT, "model": name}
        write_store([(i, 1, 1, r) for i, r in enumerate(radii)], run=name, **about)
        left = {0.25: 4, 1.0: 3} if name == "near" else {0.25: 2, 1.0: 2}
        answers = {(i, r): RIGHT if i < k else WRONG for r, k in left.items() for i in range(4)}
        write_attacks(tmp_path / name / "attack" / "pgd", answers, model=name)
    return tmp_path


def test_of_several_models_the_best_certified_one_is_attacked(two_models):
    """At r = 1 `near` looks better under attack (75 %), but nothing of it is certified there: `far` is the one."""
    attacks, results = both(two_models / "near", two_models / "far")
    results = [_of_gaussian(c) for c in results]
    (family,) = attack_families(attacks, results)
    (curve,) = family.curves
    assert family.name == "gaussian"
    assert curve.radii.tolist() == [0.0, 0.25, 1.0]
    assert curve.accuracy.tolist() == [1.0, 1.0, 0.5]
    radii, share = family.certified
    assert [float(share[np.searchsorted(radii, r)]) for r in (0.1, 0.3, 1.0)] == [1.0, 1.0, 0.5]
    assert "the best certified of 2 models at each radius" in attack_chart([family]).description


def _of_gaussian(c):
    return replace(c, config={"method": "gaussian"})


def test_a_best_model_that_was_not_attacked_leaves_a_gap(two_models):
    (two_models / "far" / "attack" / "pgd").rename(two_models / "far" / "attack" / "strong")
    _change(two_models / "far" / "attack" / "strong", steps=40)
    attacks, results = both(two_models / "near", two_models / "far")
    (family,) = attack_families(attacks, [_of_gaussian(c) for c in results])
    assert {c.label: c.radii.tolist() for c in family.curves} == {
        "pgd, T=20": [0.0, 0.25],
        "pgd, T=40": [0.0, 1.0],
    }
    assert "gaussian: the best certified run at r = 1 was not attacked there by pgd, T=20" in family.notes


def test_methods_have_curves_of_their_own(two_models):
    attacks, results = both(two_models / "near", two_models / "far")
    families = attack_families(attacks, results)
    assert [(f.name, len(f.models)) for f in families] == [("near", 1), ("far", 1)]
    chart = attack_chart(families)
    assert [line.label for line in chart.lines] == ["near: certified", "near: pgd", "far: certified", "far: pgd"]
    assert chart.lines[0].style.colour == chart.lines[1].style.colour != chart.lines[2].style.colour


def test_curves_are_about_the_inputs_that_all_attacks_share(run):
    answers = {(i, 0.25): RIGHT for i in (0, 1)}
    write_attacks(run / "attack" / "few", answers, noises=1)
    attacks, results = both(run)
    (family,) = attack_families(attacks, results)
    assert family.models[0].rows == 2
    assert {c.label: c.accuracy.tolist() for c in family.curves} == {
        "pgd, m=1": [1.0, 1.0],
        "pgd, m=128": [1.0, 1.0, 1.0],
    }
    write_attacks(run / "attack" / "others", {(3, 0.25): RIGHT}, noises=2)
    attacks, results = both(run)
    with pytest.raises(ConfigError, match="no input in common"):
        attack_families(attacks, results)
    write_report(results, run / "page.html", attacks=attacks)  # its table stands without the curves
    assert "<li>the attacks have no input in common" in (run / "page.html").read_text()


def test_labels_of_attacks_say_what_differs():
    settings = [("pgd", 128, 20, 1000, "exact"), ("pgd", 1, 20, 1000, "exact"), ("vanilla", None, 20, 100, "exact")]
    assert setting_labels(settings) == ["pgd, m=128, n=1000", "pgd, m=1, n=1000", "vanilla, n=100"]
    assert setting_labels(settings[:1]) == ["pgd"]


def test_figures_of_attacks(run, tmp_path):
    attacks, results = both(run)
    for kind in ("svg", "png"):
        save_figure(results, tmp_path / f"a.{kind}", drawing="attacks", attacks=attacks)
        assert (tmp_path / f"a.{kind}").stat().st_size > 1000
    with pytest.raises(ConfigError, match="found no attack: `smoothcert attack` makes one"):
        save_figure(results, tmp_path / "b.svg", drawing="attacks")
    assert not (tmp_path / "b.svg").exists()


def _change(folder, **identity):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["identity"] |= identity
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_the_page_keeps_its_lines_apart_from_those_of_the_runs(run, tmp_path):
    """The legend of the page hides lines by the place of a run: those of attacks have places after all runs."""
    attacks, results = both(run)
    write_report(results, tmp_path / "page.html", attacks=attacks)
    page = (tmp_path / "page.html").read_text()
    section = page[page.index('id="attacks-head"') :].split("</section>")[0]
    assert re.findall(r'data-run="(\d+)"', section) == ["1", "2"]


def test_a_manifest_writes_no_control_characters_into_a_drawing(run):
    answers = {(i, 0.25): RIGHT for i in range(4)}
    write_attacks(run / "attack" / "other", answers, noise="float\x00\n<b>" + "x" * 500)
    attacks, results = both(run)
    text = chart_svg(attack_chart(attack_families(attacks, results)))
    ET.fromstring(text)
    assert "x" * 50 not in text
