"""Curves of accuracy under attack, over one model and over several."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.report import (
    attack_families,
    save,
)
from smoothcert.report.measures.attack_curves import setting_labels, setting_of
from smoothcert.report.views.attacks import attack_figure
from tests.cli.commands import ends
from tests.report.attack_stores import ABOUT, RIGHT, WRONG, both, write_attacks
from tests.report.drawn import labels, lines
from tests.report.page import a_report, draw, write_report


def test_the_attacked_accuracy_is_drawn_over_the_certified_curve(run):
    attacks, results = both(run)
    figure = draw("attacks", a_report(results, attacks=attacks))
    certified, empirical = lines(figure)
    assert empirical.y[0] == certified.y[0]  # both start at the clean accuracy
    assert empirical.x[-1] > certified.x[-1]  # what is left at the last radius is left beyond it
    for x, y in zip(certified.x, certified.y, strict=True):
        assert y <= empirical.y[empirical.x <= x].min()
    assert "pgd: 75.0 % at 0, 75.0 % at 0.25, 50.0 % at 0.75." in figure.get_label()
    assert labels(figure) == ["run/test: certified, 4 inputs", "pgd"]


def test_attacked_radii_have_points(run):
    """0 has none: nothing was attacked there. Nor have the corners where a line goes down to the next radius."""
    attacks, results = both(run)
    certified, pgd = lines(draw("attacks", a_report(results, attacks=attacks)))
    assert (certified.marker, pgd.marker) == ("", "o")
    assert [(pgd.x[i], pgd.y[i]) for i in pgd.marked] == [(0.25, 0.75), (0.75, 0.5)]


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
    assert "the best certified of 2 models at each radius" in attack_figure([family]).get_label()


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
    assert (
        "gaussian: the best certified run at r = 1 was not attacked there by pgd, T=20"
        in family.notes
    )


def test_methods_have_curves_of_their_own(two_models):
    attacks, results = both(two_models / "near", two_models / "far")
    families = attack_families(attacks, results)
    assert [(f.name, len(f.models)) for f in families] == [("near", 1), ("far", 1)]
    drawn = lines(attack_figure(families))
    certified = [f"{name}: certified, 4 inputs" for name in ("near", "far")]
    assert [line.label for line in drawn] == [
        certified[0],
        "near: pgd",
        certified[1],
        "far: pgd",
    ]
    assert drawn[0].colour == drawn[1].colour != drawn[2].colour


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


@pytest.mark.parametrize("other", ["other", "zz"])  # whether it comes before `pgd` or after it
def test_an_input_must_withstand_all_attacks_of_one_kind(run, other):
    """Another seed breaks input 0 at 0.75 where `pgd` breaks 2 and 3, and has a radius of its own."""
    answers = {(i, r): RIGHT if i else WRONG for i in range(4) for r in (0.75, 1.5)}
    write_attacks(run / "attack" / other, answers, seed=2)
    (family,) = attack_families(*both(run))
    (curve,) = family.curves
    assert dict(zip(curve.radii.tolist(), curve.accuracy.tolist(), strict=True)) == {
        0.0: 0.75,
        0.25: 0.75,
        0.75: 0.25,
        1.5: 0.75,
    }
    named = " and ".join(sorted([other, "pgd"]))
    assert family.notes == (
        f"run/test: pgd counts an input as right where it withstands all of the stores {named}",
    )


def test_attacks_of_other_alpha_have_curves_of_their_own(run):
    write_attacks(run / "attack" / "sure", {(i, 0.75): WRONG for i in range(4)}, alpha=1e-6)
    (family,) = attack_families(*both(run))
    assert {c.label: c.accuracy.tolist() for c in family.curves} == {
        "pgd, α=0.001": [0.75, 0.75, 0.5],
        "pgd, α=1e-06": [0.75, 0.0],
    }
    assert family.notes == ()


def test_a_store_that_shares_no_input_is_left_out_and_named(run, tmp_path, capsys):
    """One store on an image of its own: the others are drawn, and every way to draw them tells what is missing."""
    write_attacks(run / "attack" / "few", {(i, 0.25): RIGHT for i in (0, 1)}, noises=1)
    write_attacks(run / "attack" / "others", {(3, 0.25): RIGHT}, noises=2)
    note = "run/test, others: left out of the curves of attacks, since it has none of the inputs that they are about"
    figure, page = tmp_path / "f.svg", tmp_path / "page.html"
    status, said = ends(
        capsys, "report", run, "--draw", "attacks", "--figure", figure, "--html", page
    )
    assert (status, said.err) == (0, f"note: {note}\n")
    assert len({*re.findall(r'id="run-(\d)', figure.read_text())}) == 3  # certified, pgd and few
    assert f"Note: {note}." in figure.read_text()
    assert f"<li>{note}</li>" in page.read_text()
    assert "Certified and empirical accuracy" in page.read_text()


def test_stores_that_make_the_inputs_few_are_named(run):
    """`pgd` has four inputs. Half of them are enough to go unsaid."""
    write_attacks(run / "attack" / "two", {(i, 0.25): RIGHT for i in (0, 1)}, noises=2)
    assert attack_families(*both(run))[0].notes == ()
    write_attacks(run / "attack" / "one", {(0, 0.25): RIGHT}, noises=1)
    told = "curves of attacks are about 1 of the 4 inputs of run/test, pgd, since run/test, one"
    assert attack_families(*both(run))[0].notes == (f"{told} has only 1 of them",)
    write_attacks(run / "attack" / "tiny", {(0, 0.25): RIGHT}, noises=3)
    assert attack_families(*both(run))[0].notes == (
        f"{told} and run/test, tiny have only 1 of them",
    )


def test_the_most_stores_that_share_an_input_are_drawn(run):
    def drawn(**inputs):
        """How many inputs the curves are about, and the notes without their common words."""
        for name, places in inputs.items():
            write_attacks(
                run / "attack" / name, {(i, 0.25): RIGHT for i in places}, noises=len(name)
            )
        attacks, results = both(run)
        (family,) = attack_families([a for a in attacks if a.name in inputs], results)
        notes = [
            note.replace("left out of the curves of attacks, since ", "") for note in family.notes
        ]
        return family.models[0].rows, [note.removeprefix("run/test, ") for note in notes]

    assert drawn(x=[0], yy=[0], four=[1, 2, 3]) == (
        1,
        ["four: it has none of the inputs that they are about"],
    )
    assert drawn(first=[3], second=[0, 1]) == (
        2,
        ["first: it has none of the inputs that they are about"],
    )
    assert drawn(eq=[3], equal=[0]) == (1, ["equal: it has none of the inputs that they are about"])
    assert drawn(near=[0, 1], far=[77]) == (2, ["far: none of its inputs is certified"])


def test_inputs_that_are_not_certified_have_no_curves(run):
    write_attacks(run / "attack" / "far", {(77, 0.25): RIGHT})
    attacks, results = both(run)
    with pytest.raises(
        ConfigError, match=r"both attacked and certified, found none in .*/attack/far: certify the"
    ):
        attack_families([a for a in attacks if a.name == "far"], results)
    write_report(results, run / "page.html", attacks=[a for a in attacks if a.name == "far"])
    page = (run / "page.html").read_text()
    assert "<li>curves of attacks need inputs" in page
    assert 'id="attacks"' in page  # its table stands without them
    assert "Certified and empirical accuracy" not in page


def test_a_store_of_radius_0_alone_is_called_no_attack(run):
    """As in the table of what the network itself answers. Its steps and noises tell it from nothing."""
    write_attacks(run / "attack" / "clean", {(i, 0.0): RIGHT for i in (0, 1)}, noises=1, steps=5)
    assert sorted(labels(draw("attacks", a_report(both(run)[1], attacks=both(run)[0])))) == [
        "attack: none",
        "pgd",
        "run/test: certified, 2 inputs",
    ]


def test_labels_of_attacks_say_what_differs():
    same = (20, 1000, "exact", 0.001)
    settings = [("pgd", 128, *same), ("pgd", 1, *same), ("vanilla", None, 20, 100, "exact", 0.001)]
    assert setting_labels(settings) == ["pgd, m=128, n=1000", "pgd, m=1, n=1000", "vanilla, n=100"]
    assert setting_labels(settings[:1]) == ["pgd"]
    other_alpha = ("pgd", 128, 20, 1000, "exact", 0.05)
    assert setting_labels([settings[0], other_alpha]) == ["pgd, α=0.001", "pgd, α=0.05"]


def test_figures_of_attacks(run, tmp_path):
    attacks, results = both(run)
    for kind in ("svg", "png"):
        save(draw("attacks", a_report(results, attacks=attacks)), tmp_path / f"a.{kind}")
        assert (tmp_path / f"a.{kind}").stat().st_size > 1000
    with pytest.raises(ConfigError, match="found no attack: `smoothcert attack` makes one"):
        draw("attacks", a_report(results))


def _change(folder, **identity):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["identity"] |= identity
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_the_page_keeps_its_lines_apart_from_those_of_the_runs(run, tmp_path):
    """The legend of the page hides lines by the place of a run: those of attacks have places after all runs."""
    attacks, results = both(run)
    write_report(results, tmp_path / "page.html", attacks=attacks)
    page = (tmp_path / "page.html").read_text()
    section = page[page.index('id="attacks"') :].split("</section>")[0]
    assert {*re.findall(r'data-run="(\d+)"', section)} == {"1", "2"}


def test_models_of_other_data_are_no_best_model_of_a_method(tmp_path, write_store):
    """Runs of one method on two data sets: those of each answer for themselves."""
    for data, name in (("a", "1"), ("a", "2"), ("b", "3"), ("b", "4")):
        about = {**ABOUT, "dataset": f"set-{data}", "data": data, "model": name}
        write_store(
            [(i, 1, 1, 0.1 if data == "a" else 1.0) for i in range(4)],
            run=f"gaussian-{name}",
            **about,
        )
        write_attacks(
            tmp_path / f"gaussian-{name}" / "attack" / "pgd",
            {(i, 0.5): 1 for i in range(4)},
            **about,
        )
    families = attack_families(*both(tmp_path))
    assert [(family.name, len(family.models)) for family in families] == [
        ("gaussian set-a test", 2),
        ("gaussian set-b test", 2),
    ]
    assert [family.certified[0].max() < 0.5 for family in families] == [True, False]


def test_an_index_is_another_image_in_another_data_set(tmp_path, write_store, capsys):
    """Inputs 0 to 3 of one data set and 2 to 4 of another: nothing is shared between them, and nothing left out."""
    for data, inputs in (("a", range(4)), ("b", range(2, 5))):
        about = {**ABOUT, "dataset": f"set-{data}", "data": data, "model": data}
        write_store(
            [(i, 1, 1, 0.4) for i in inputs], run=data, inputs=len(inputs), start=inputs[0], **about
        )
        answers = {(i, 0.5): WRONG if i == inputs[0] else RIGHT for i in inputs}
        write_attacks(tmp_path / data / "attack" / "pgd", answers, **about)
    figure = tmp_path / "f.svg"
    status, said = ends(capsys, "report", tmp_path, "--draw", "attacks", "--figure", figure)
    assert (status, said.err) == (0, "")
    families = attack_families(*both(tmp_path))
    assert [(f.name, f.models[0].idx.tolist()) for f in families] == [
        ("a set-a test", [0, 1, 2, 3]),
        ("b set-b test", [2, 3, 4]),
    ]
    assert [f.curves[0].accuracy.tolist() for f in families] == [[1.0, 0.75], [1.0, 2 / 3]]
    assert "both on 4 inputs of set-a test and 3 inputs of set-b test." in figure.read_text()
    assert labels(attack_figure(families))[::2] == [
        "a set-a test: certified, 4 inputs",
        "b set-b test: certified, 3 inputs",
    ]


def test_a_data_set_without_certified_inputs_leaves_the_others(run, write_store, tmp_path):
    about = {**ABOUT, "dataset": "other", "data": "o", "model": "o"}
    write_store([(0, 1, 1, 1.0)], run="second", inputs=1, **about)
    write_attacks(tmp_path / "second" / "attack" / "far", {(9, 0.5): RIGHT}, **about)
    (family,) = attack_families(*both(run, tmp_path / "second"))
    assert (family.name, family.models[0].rows) == ("run", 4)
    assert family.notes == (
        "second, far: left out of the curves of attacks, since none of its inputs is certified",
    )


def test_attacks_of_another_temperature_or_as_printed_are_others(run):
    answers = {(i, 0.25): RIGHT for i in range(4)}
    write_attacks(run / "attack" / "hot", answers, beta=4.0)
    write_attacks(run / "attack" / "text", answers, as_printed=True)
    kinds = {setting_of(a)[0] for a in both(run)[0]}
    assert {"pgd", "pgd, β=4", "pgd, as printed"} <= kinds
