"""Envelopes of groups of runs: curves, tables and drawings against the plain definition."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.errors import ConfigError
from smoothcert.report import (
    abstention_table,
    certified_accuracy,
    envelope_curve,
    envelope_values,
    group_envelope_table,
    groups_of,
)
from smoothcert.report.views.envelope_figure import envelope_figure
from tests.report.cells import best
from tests.report.drawn import labels, words

GRID = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
RUN = st.lists(st.tuples(st.sampled_from(GRID), st.booleans()), min_size=1, max_size=12)


@pytest.fixture
def runs(make):
    """Two of a method at different sigma, one of another: the first is best up to 0.5, then the second."""
    return [
        make([0.5, 0.5, 0.5, 0.1], name="cohen", sigma=0.25),
        make([1.0, 1.0, 0.3, 0.2], [1, 1, 0, 0], name="cohen", sigma=0.5),
        make([0.75, 0.2, 0.1, 0.1], [1, 0, 0, 0], name="macer", sigma=0.25),
    ]


@given(st.lists(RUN, min_size=1, max_size=4))
def test_the_curve_is_the_largest_accuracy_and_its_stretches_name_best_runs(make, rows):
    runs = [make(*map(list, zip(*entries, strict=True))) for entries in rows]
    curve = envelope_curve(runs)
    if curve is None:
        assert not any(run.correct.any() for run in runs)
        return
    inside = np.array([r for r in np.linspace(0, 1.5, 61) if r <= curve.radii[-1]])
    shares = np.array([certified_accuracy(run, inside) for run in runs])
    steps = np.searchsorted(curve.radii, inside, side="left")
    assert curve.accuracy[steps].tolist() == shares.max(axis=0).tolist()
    assert max(certified_accuracy(run, curve.radii[-1] + 1e-9) for run in runs) == 0
    for place, radius in enumerate(inside.tolist()):
        (owner,) = [
            s.run
            for s in curve.stretches
            if s.start < radius <= s.end or (radius == 0 and s.start == 0)
        ][:1]
        assert shares[owner, place] == shares[:, place].max()
    ends = [(stretch.start, stretch.end) for stretch in curve.stretches]
    assert all(before[1] == after[0] for before, after in pairwise(ends))


def test_stretches_are_as_few_as_can_be(make):
    """The second run is as good as the first in the middle; one change is enough, and it comes as late as can be."""
    first, second = make([0.2, 0.5, 0.5], [1, 1, 0]), make([0.5, 0.9, 0.1], [1, 1, 0])
    curve = envelope_curve([first, second, first])
    assert [(s.run, s.start, s.end) for s in curve.stretches] == [(1, 0.0, 0.9)]
    third = make([0.6, 0.6, 0.6])
    curve = envelope_curve([second, third])
    assert [(s.run, s.start, s.end) for s in curve.stretches] == [(1, 0.0, 0.6), (0, 0.6, 0.9)]


def test_of_equal_runs_a_stretch_is_of_the_one_with_the_larger_accuracy_at_radius_0(make):
    near, far, far_and_more = (
        make([0.5, 0.5, 0.5]),
        make([0.9, 0.9, 0.9], [1, 0, 0]),
        make([0.9, 0.1, 0.1], [1, 1, 0]),
    )
    for runs, owner in (
        ([near, far, far_and_more], 2),
        ([near, far_and_more, far], 1),
        ([near, far, far], 1),
    ):
        assert [(s.run, s.end) for s in envelope_curve(runs).stretches] == [(0, 0.5), (owner, 0.9)]


@pytest.mark.parametrize(
    ("by", "names", "members"),
    [
        ("method", ["gaussian", "macer"], [(0, 1), (2,)]),
        ("sigma", ["gaussian (σ=0.25)", "macer (σ=0.25)", "gaussian (σ=0.5)"], [(0,), (2,), (1,)]),
        ("folder", ["cohen", "macer"], [(0, 1), (2,)]),
        ("all", ["all runs"], [(0, 1, 2)]),
    ],
)
def test_groups(runs, by, names, members):
    groups = groups_of(runs, by)
    assert [group.name for group in groups] == names
    assert [group.runs for group in groups] == members


def test_folders_are_the_first_that_differ_and_stand_for_unknown_methods(make):
    runs = [make([0.5], name=name) for name in ("ours/a", "ours/b", "theirs/gaussian")]
    assert [group.name for group in groups_of(runs, "folder")] == ["ours", "theirs"]
    assert [(group.name, group.runs) for group in groups_of(runs)] == [
        ("ours", (0, 1)),
        ("gaussian", (2,)),
    ]
    with pytest.raises(ConfigError, match="grouping is one of method, sigma, folder, all, found"):
        groups_of(runs, "sigmas")


def test_a_row_for_each_group_with_the_clean_accuracy_of_the_best(runs):
    table = group_envelope_table(runs, [0.0, 0.5, 0.75, 1.0, 2.0])
    assert table.rows == (
        ("gaussian", "100.0 (100.0)", "75.0 (100.0)", "50.0 (50.0)", "50.0 (50.0)", "0.0"),
        ("macer", "25.0 (25.0)", "25.0 (25.0)", "25.0 (25.0)", "0.0", "0.0"),
    )
    assert best(table) == {(0, column) for column in (1, 2, 3, 4)}
    assert (
        table.notes[0]
        == "gaussian: the best is cohen (σ=0.25) at 0.00 to 0.50, cohen (σ=0.5) at 0.75 to 1.00"
    )
    abstained = abstention_table(runs, [0.0, 0.5, 0.75, 1.0, 2.0])
    assert abstained.rows == (
        ("gaussian", "0.0", "0.0", "50.0", "50.0", "-"),
        ("macer", "75.0", "75.0", "75.0", "-", "-"),
    )
    assert "Abstention rate (\\%) of the best run at $r$" in abstained.to_latex()


def test_csv_has_the_clean_accuracy_of_the_best_in_a_column_of_its_own(runs):
    assert group_envelope_table(runs, [0.5, 2.0]).to_csv().splitlines() == [
        "best of,r=0.50,r=0.50 clean,r=2.00,r=2.00 clean",
        "gaussian,75.0,100.0,0.0,",
        "macer,25.0,25.0,0.0,",
    ]


def test_radii_that_were_not_tested_stay_blank(runs, make):
    tested = {"identity": {"procedure": "radius", "radii": [0.5]}}
    table = group_envelope_table(
        [runs[2], make([0.5, 0.5], name="mine", manifest=tested)], [0.25, 0.5]
    )
    assert table.rows[1] == ("mine", "", "100.0")
    figure = envelope_figure([runs[2], make([0.5, 0.5], name="mine", manifest=tested)])
    assert labels(figure) == ["macer"]


def test_a_group_without_a_sigma_that_others_have_says_so(runs, make):
    told = "macer has no run of σ = 0.5, which others have: its best is chosen among fewer"
    for table_of in (group_envelope_table, abstention_table):
        assert [note for note in table_of(runs, [0.5]).notes if "has no run of" in note] == [told]
        for by in ("sigma", "all"):  # groups that differ in sigma by their making, and a single one
            assert not any("has no run of" in note for note in table_of(runs, [0.5], by=by).notes)
    assert words(envelope_figure(runs)).count("macer (no σ=0.5)") == 1
    for by in ("sigma", "all"):
        assert "no σ=" not in " ".join(words(envelope_figure(runs, by)))
    third = make([0.5], name="stab", sigma=1.0)
    assert (
        "gaussian has no run of σ = 1, which"
        in group_envelope_table([*runs, third], [0.5]).to_text()
    )
    assert (
        "macer has no run of σ = 0.5, 1, which"
        in group_envelope_table([*runs, third], [0.5]).to_text()
    )


def test_nothing_is_said_of_sigmas_that_logs_do_not_name(runs, make):
    unknown = make([0.5], name="stab")
    assert not any(
        "stab" in note
        for note in group_envelope_table([*runs, unknown], [0.5]).notes
        if "no run" in note
    )
    assert labels(envelope_figure([*runs, unknown]))[2] == "stability"


def test_norms_are_not_mixed(runs, make):
    mixed = [*runs, make([0.1], norm="linf")]
    for make_it in (lambda: group_envelope_table(mixed, [0.5]), lambda: envelope_figure(mixed)):
        with pytest.raises(ConfigError, match="in one norm, found l2 and linf"):
            make_it()


def test_the_drawing_names_the_best_run_of_each_stretch(runs):
    figure = envelope_figure(runs)
    assert labels(figure) == labels(figure, 1) == ["gaussian", "macer (no σ=0.5)"]
    bars = [path.vertices for bar in figure.axes[1].collections for path in bar.get_paths()]
    assert [(bar[:, 0].min(), bar[:, 0].max()) for bar in bars] == [(0, 0.5), (0.5, 1), (0, 0.75)]
    assert [text for text in words(figure) if text.startswith("σ=")] == [
        "σ=0.25",
        "σ=0.5",
        "σ=0.25",
    ]
    assert "macer (no σ=0.5): σ=0.25 from 0 to 0.75." in figure.get_label()
    figure = envelope_figure(runs, "sigma")  # groups of one run each: a legend says it all
    assert len(figure.axes) == 1
    assert figure.axes[0].get_legend()
    with pytest.raises(ConfigError, match="found none"):
        envelope_figure([r for r in runs if r.sigma == 7])


def test_a_word_in_a_bar_fits_or_is_left_out(make):
    """The first is the best up to a radius of 0.01 to 0.2, the second from there to 1."""
    named = set()
    for end in np.linspace(0.01, 0.2, 20).tolist():
        runs = [
            make([end] * 4, name="cohen", sigma=0.25),
            make([1.0] * 4, [1, 0, 0, 0], name="cohen", sigma=0.5),
        ]
        figure = envelope_figure(runs)
        figure.draw_without_rendering()
        below = figure.axes[1]
        found = [text for text in below.texts if text.get_text() == "σ=0.25"]
        left, right = below.transData.transform([(0, 0), (end, 0)])[:, 0]
        assert all(text.get_window_extent().width < 1.05 * (right - left) for text in found)
        named.add(len(found))
    assert named == {0, 1}


def test_a_run_still_being_certified_is_no_best_run_beside_complete_ones(make):
    """Its two inputs are lucky so far."""
    whole, started = (
        make([0.5, 0.25], [1, 0], name="whole"),
        make([0.9, 0.9], name="started", expected=500),
    )
    assert group_envelope_table([started, whole], [0, 0.5], by="all").rows == (
        ("all runs", "50.0 (50.0)", "50.0 (50.0)"),
    )
    assert {stretch.run for stretch in envelope_curve([started, whole]).stretches} == {1}
    assert group_envelope_table([started], [0], by="all").rows == (
        ("all runs (partial)", "100.0 (100.0)"),
    )
    assert envelope_curve([started]).accuracy.tolist() == [1.0, 1.0]


def test_the_best_of_seeds_is_told_and_the_best_of_data_sets_is_refused(make):
    def run(name, radius, seed, data="mnist"):
        manifest = {"identity": {"dataset": data}, "inputs": 1}
        config = {"method": "gaussian", "seed": seed}
        return make([radius], name=name, manifest=manifest, config=config, sigma=0.5)

    seeds = [run("a", 0.5, 0), run("b", 1.0, 1)]
    told = "a, b differ in their seed alone: the best of them is luck"
    assert told in group_envelope_table(seeds, [0.0]).notes
    assert told in abstention_table(seeds, [0.0]).notes
    assert told not in group_envelope_table(seeds, [0.0], by="folder").notes
    others = [run("a", 0.5, 0), run("b", 1.0, 0, "cifar10")]
    with pytest.raises(
        ConfigError, match=r"one data set, and a and b were certified on .*, mnist and cifar10"
    ):
        envelope_figure(others)
    envelope_figure(others, "folder")


def test_programs_are_told_the_best_runs_by_their_places(make, runs):
    """Found by hand; a run without labels stands before the others, and has no part in it."""
    unlabelled = make([2.0], name="unlabelled", label=np.array([-1]))
    cohen, macer = envelope_values([unlabelled, *runs], [0.0, 0.5, 0.75, 1.25])
    assert (cohen["name"], cohen["rows"], macer["name"], macer["rows"]) == (
        "gaussian",
        [1, 2],
        "macer",
        [3],
    )
    first = {"row": 1, "clean_accuracy": 1.0, "abstention_rate": 0.0, "tied": [1]}
    second = {"row": 2, "clean_accuracy": 0.5, "abstention_rate": 0.5, "tied": [2]}
    nothing = {"row": None, "clean_accuracy": None, "abstention_rate": None, "tied": []}
    assert cohen["best"] == [
        {"radius": 0.0, "accuracy": 1.0, **first},
        {"radius": 0.5, "accuracy": 0.75, **first},
        {"radius": 0.75, "accuracy": 0.5, **second},
        {"radius": 1.25, "accuracy": 0.0, **nothing},
    ]
    assert cohen["stretches"] == [
        {"row": 1, "start": 0.0, "end": 0.5},
        {"row": 2, "start": 0.5, "end": 1.0},
    ]
    assert [entry["accuracy"] for entry in macer["best"]] == [0.25, 0.25, 0.25, 0.0]
    (group,) = envelope_values(runs[::-1], [0.25], by="all")
    assert (group["name"], group["rows"], group["best"][0]["row"]) == ("all runs", [0, 1, 2], 2)
    assert envelope_values([runs[0], runs[0]], [0.25])[0]["best"][0]["tied"] == [0, 1]


def test_programs_are_told_of_tested_radii_alone(make):
    """Which have no curve, so that there are no stretches."""
    manifest = {
        "identity": {"procedure": "radius", "radii": [0.5], "noise_seed": 7},
        "inputs": 2,
        "environment": {},
    }
    (group,) = envelope_values(
        [make([0.5, 0.0], [1, 0], name="tested", manifest=manifest)], [0.0, 0.5]
    )
    assert [(entry["radius"], entry["accuracy"], entry["row"]) for entry in group["best"]] == [
        (0.5, 0.5, 0)
    ]
    assert group["stretches"] == []
