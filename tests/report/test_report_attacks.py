"""Stores of attacks in reports: read and checked, beside the certificates of the same classifier, in every form."""

import shutil
from dataclasses import replace

import pytest

from smoothcert.errors import ConfigError, StoreError
from smoothcert.report import (
    attack_families,
    attack_table,
    attack_values,
    base_table,
    empirical_rows,
    read_attack_stores,
    read_attacks,
    read_results,
)
from smoothcert.report.attack_values import alarms
from smoothcert.report.read.attacks import certificates_of
from smoothcert.runs.rows import NoCertificates
from tests.cli.commands import ends
from tests.report.attack_stores import (
    ABOUT,
    ABSTAIN,
    OLDER_COLUMNS,
    RIGHT,
    WRONG,
    both,
    write_attacks,
)
from tests.report.page import a_report, report_tables, write_report


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
    assert (high.radius, high.empirical, high.abstained, high.certified, high.alarms) == (
        0.75,
        0.5,
        0.0,
        0.5,
        (),
    )
    assert (low.base, low.noisy) == (1.0, 0.9)


def test_the_table_shows_both_bounds_and_what_the_attack_was(run):
    attacks, results = both(run)
    table = attack_table(attacks, results)
    assert table.radii == ("0.25", "0.75")
    assert table.rows == (
        ("run/test", "4", "certified", "-", "-", "1000", "75.0", "50.0"),
        ("run/test", "4", "under pgd", "20", "128", "1000", "75.0", "50.0"),
    )
    assert list(report_tables(a_report(results, attacks=attacks))) == ["accuracy", "attacks"]
    with pytest.raises(ConfigError, match="these runs have none: `smoothcert attack"):
        report_tables(a_report(results), ["attacks"])


def test_attacks_on_the_same_inputs_share_a_certified_row(run):
    write_attacks(run / "attack" / "vanilla", {(i, 0.5): RIGHT for i in range(4)}, attack="vanilla")
    attacks, results = both(run)
    kinds = [(row[2], row[4], *row[-3:]) for row in attack_table(attacks, results).rows]
    assert kinds == [
        ("certified", "-", "75.0", "75.0", "50.0"),
        ("under pgd", "128", "75.0", "", "50.0"),
        ("under vanilla", "-", "", "100.0", ""),
    ]


def test_lines_that_would_be_alike_name_their_stores(run):
    """`again` differs in its seed alone, `others` in its inputs, and `more` by what the table shows."""
    answers = {(i, 0.25): RIGHT if i else WRONG for i in range(4)}
    write_attacks(run / "attack" / "again", answers, seed=2)
    write_attacks(run / "attack" / "more", answers, steps=40)
    write_attacks(run / "attack" / "few", {(0, 0.25): RIGHT}, attack="ddn")
    write_attacks(run / "attack" / "others", {(3, 0.25): WRONG}, attack="ddn")
    assert [(row[2], row[-2]) for row in attack_table(*both(run)).rows] == [
        ("certified", "75.0"),
        ("under pgd (store again)", "75.0"),
        ("certified (inputs of few)", "100.0"),
        ("under ddn (store few)", "100.0"),
        ("under pgd", "75.0"),
        ("certified (inputs of others)", "0.0"),
        ("under ddn (store others)", "0.0"),
        ("under pgd (store pgd)", "75.0"),
    ]


def test_lines_of_runs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    stores = [
        write_attacks(tmp_path / name / "run" / "attack" / "pgd", {(0, 0.5): RIGHT})
        for name in "ab"
    ]
    rows = attack_table([read_attacks(store) for store in stores], []).rows
    assert [row[:3] for row in rows] == [
        ("run", "1", "under pgd (store a)"),
        ("run", "1", "under pgd (store b)"),
    ]


def test_radius_0_alone_is_no_attack(run):
    write_attacks(
        run / "attack" / "clean", {(i, 0.0): WRONG if i == 0 else RIGHT for i in range(4)}
    )
    write_attacks(
        run / "attack" / "more", {(i, r): RIGHT for i in range(4) for r in (0.0, 0.5)}, attack="ddn"
    )
    kinds = {row[2]: row[3:6] for row in attack_table(*both(run)).rows}
    assert kinds == {
        "certified": ("-", "-", "1000"),
        "attack: none": ("-", "-", "1000"),
        "under ddn": ("20", "128", "1000"),
        "under pgd": ("20", "128", "1000"),
    }
    (alarm,) = alarms(*both(run))
    assert "run/test, attack: none at radius 0: 1 of 4 inputs (idx 0)" in alarm


def test_the_network_itself_is_a_table_where_radius_0_was_measured(run):
    attacks, results = both(run)
    assert len(base_table(attacks, results).rows) == 2
    clean = {
        (0, 0.0): {"predict": 1, "base_predict": 3, "votes": 500},
        (1, 0.0): {"predict": -1, "votes": 400},
    }
    write_attacks(run / "attack" / "clean", clean)
    attacks, results = both(run)
    tables = report_tables(a_report(results, attacks=attacks))
    assert list(tables) == ["accuracy", "attacks"]
    assert tables["attacks"][1].rows[0] == (
        "run/test",
        "none",
        "0.00",
        "2",
        "50.0",
        "45.0",
        "50.0",
        "50.0",
    )


def test_stores_of_older_versions_know_nothing_of_the_network_itself(run):
    shutil.rmtree(run / "attack" / "pgd")
    write_attacks(
        run / "attack" / "old", {(0, 0.5): RIGHT}, columns=OLDER_COLUMNS, attack_version=2
    )
    attacks, results = both(run)
    (row,) = empirical_rows(attacks[0])
    assert (row.empirical, row.base, row.noisy) == (1.0, None, None)
    with pytest.raises(ConfigError, match="--radius 0"):
        base_table(attacks, results)
    write_report(results, run / "page.html", attacks=attacks)


def test_an_answer_inside_a_certified_radius_is_an_alarm_everywhere(run, tmp_path):
    write_attacks(
        run / "attack" / "strong",
        {(0, 0.5): WRONG, (1, 0.5): ABSTAIN, (2, 0.5): RIGHT},
        attack="ddn",
    )
    attacks, results = both(run)
    (told,) = [note for note in attack_table(attacks, results).notes if "ALARM" in note]
    assert told == (
        "SOUNDNESS ALARM: run/test, ddn at radius 0.5: 1 of 3 inputs (idx 0) answers otherwise inside its certified "
        "radius"
    )
    assert [
        row["alarms"] for entry in attack_values(attacks, results) for row in entry["attacked"]
    ] == [(), (), (0,)]
    write_report(results, tmp_path / "page.html", attacks=attacks)
    page = (tmp_path / "page.html").read_text()
    assert page.index('role="alert"') < page.index('id="accuracy"')
    assert page.count(told) == 2  # at the top, and in the section
    assert 'href="#attacks"' in page


def test_an_alarm_that_the_store_recorded_stays_when_its_certificates_are_gone(tmp_path):
    claimed = {"predict": WRONG, "certified_predict": 1, "certified_radius": 0.9}
    a = read_attacks(write_attacks(tmp_path / "attack" / "pgd", {(7, 0.5): claimed}))
    assert empirical_rows(a)[0].alarms == (7,)
    abstains = write_attacks(
        tmp_path / "attack" / "none", {(7, 0.5): {**claimed, "certified_predict": -1}}
    )
    with pytest.raises(StoreError, match="expected 0, since the certificate abstains"):
        read_attacks(abstains)
    far = {**claimed, "certified_radius": 0.5}  # at the radius itself nothing is proved
    assert (
        empirical_rows(read_attacks(write_attacks(tmp_path / "attack" / "far", {(7, 0.5): far})))[
            0
        ].alarms
        == ()
    )


def test_an_alarm_that_the_store_recorded_stays_when_certificates_are_made_anew(run):
    """Those beside it now say nothing of input 3."""
    claimed = {"predict": WRONG, "certified_predict": 1, "certified_radius": 0.9}
    a = read_attacks(write_attacks(run / "attack" / "strong", {(3, 0.5): claimed}))
    assert empirical_rows(a, certificates_of(a, read_results(run)))[0].alarms == (3,)


def test_a_radius_is_certified_up_to_itself_by_what_the_store_says(tmp_path):
    proved = {
        (idx, 0.5): {"predict": 1, "certified_predict": 1, "certified_radius": 0.4 + 0.1 * idx}
        for idx in (0, 1)
    }
    assert (
        empirical_rows(read_attacks(write_attacks(tmp_path / "attack" / "pgd", proved)))[
            0
        ].certified
        == 0.5
    )


def test_an_alarm_about_other_certificates_of_the_same_network_is_not_hidden(
    run, write_store, tmp_path
):
    """`more` stands beside the attack, since it knows as many inputs by more samples; `test` claims what is wrong."""
    write_store([(i, 1, 1, 0.1) for i in range(4)], name="more", n=5000, **ABOUT)
    write_attacks(run / "attack" / "strong", {(0, 0.5): WRONG})
    attacks, results = both(run)
    (alarm,) = alarms(attacks, results)
    assert "test, pgd at radius 0.5: 1 of 1 input (idx 0)" in alarm


@pytest.mark.parametrize(
    "again", [["--norm", "linf", "--dimension", 784], ["--alpha", 1e-20], ["--bound", "multiclass"]]
)
def test_an_alarm_stays_when_certificates_are_analysed_again(run, capsys, again):
    """What was claimed is contradicted, whatever is shown of it."""
    write_attacks(run / "attack" / "strong", {(0, 0.9): WRONG})
    status, said = ends(capsys, "report", run, *again)
    assert (status, said.err.startswith("SOUNDNESS ALARM: run")) == (0, True)


@pytest.mark.parametrize(
    "changed", [{"model": "other"}, {"data": "other"}, {"sigma": 0.25}, {"split": "train"}]
)
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
    assert (
        "radii of attacks are in l2 norm"
        in attack_table(attacks, [replace(c, norm="linf") for c in results]).notes
    )


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
    write_attacks(run / "attack" / "empty", {}, inputs=1)
    with pytest.warns(UserWarning, match="no input is attacked yet"):
        attacks = read_attack_stores(run)
    notes = attack_table(attacks, read_results(run)).notes
    assert "run/test, young: partial, 2 of 8 rows (inputs times radii)" in notes
    assert "run/test, young: part-0-of-1.tsv: unfinished last line left out" in notes
    assert [c.label for c in attack_families(attacks, read_results(run))[0].curves] == [
        "pgd"
    ]  # complete ones alone


def test_an_attack_that_nobody_knows_is_refused_in_plain_letters(run):
    write_attacks(run / "attack" / "x", {(0, 0.5): RIGHT}, attack="<script>\x1b[31m\n")
    with pytest.raises(StoreError, match="is damaged") as told:
        both(run)
    assert str(told.value).isprintable()
