"""Trade-offs of runs, logs and published rows in one picture."""

from pathlib import Path

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.published.catalogue import load_table
from smoothcert.report import overlays, trade_off_values
from smoothcert.report.charts.chart import charts_svg
from smoothcert.report.charts.overlays import overlay_charts
from smoothcert.statistics.value import CERTIFIED_ACCURACY

TABLE = "catrs-supplement/table-7"


@pytest.fixture
def run(make):
    def build(radius, correct=None, *, lam=5.0, sigma=0.5, seed=0):
        method = {"name": "consistency", "lam": lam}
        config = {"dataset": "mnist", "sigma": sigma, "method": method, "seed": seed}
        manifest = {"identity": {"sigma": sigma, "n": 1000}}
        return make(
            radius,
            correct,
            name=f"c{lam}-{sigma}-{seed}",
            sigma=sigma,
            config=config,
            manifest=manifest,
        )

    return build


def test_runs_along_a_hyperparameter_with_means_over_seeds(run):
    runs = [
        run([1.0, 0.6], lam=9.0),
        run([0.4, 0.8], [0, 1], lam=1.0),
        run([0.4, 0.6], lam=1.0, seed=1),
    ]
    (series,) = overlays(runs, [0.5])
    assert (series.name, series.parameter, series.published) == ("consistency", "lam", False)
    assert [spot.value for spot in series.spots] == [1.0, 9.0]
    assert series.spots[0].values == pytest.approx((0.75, 0.45, 0.5))  # means of two seeds
    assert series.spots[1].values == pytest.approx((1.0, 0.8, 1.0))


def test_hyperparameters_come_before_sigma_and_every_run_is_in_one_series(run):
    grid = [run([0.5], lam=lam, sigma=sigma) for lam in (1.0, 2.0, 3.0) for sigma in (0.25, 0.5)]
    alone = run([0.5], lam=1.0, sigma=1.0)
    found = overlays([*grid, alone], [])
    assert [(series.parameter, len(series.spots)) for series in found] == [
        ("lam", 3),
        ("lam", 3),
        ("", 1),
    ]
    found = overlays([run([0.5], sigma=sigma) for sigma in (1.0, 0.25)], [])
    assert [(series.parameter, [spot.value for spot in series.spots]) for series in found] == [
        ("sigma", [0.25, 1.0])
    ]


def test_a_setting_for_each_sigma_is_joined_along_sigma(run):
    ours = [
        run([0.5], lam=10.0, sigma=0.25),
        run([0.5], lam=5.0, sigma=0.5),
        run([0.6], lam=5.0, sigma=0.5, seed=1),
    ]
    found = overlays(ours, [], ["catrs-supplement/table-3"])
    assert {(series.parameter, len(series.spots)) for series in found} == {
        ("sigma", 2),
        ("sigma", 3),
    }
    assert [series.name for series in found if series.published][-1] == "CAT-RS"
    with pytest.raises(ConfigError, match="table-13 prints no clean accuracies"):
        overlays(ours, [], ["catrs-supplement/table-13"])


def test_logs_vary_in_what_their_folders_name(make):
    places = [
        "cohen/num_2/lbd_1.0/noise_0.50_0",
        "cohen/num_2/lbd_5.0/noise_0.50_0",
        "salman/num_2/noise_0.5",
    ]
    runs = [
        make([0.5], name=place, sigma=0.5, source=Path("/logs/consistency", place))
        for place in places
    ]
    found = overlays(runs, [])
    assert [(series.key, series.parameter, len(series.spots)) for series in found] == [
        ("consistency", "lam", 2),
        ("smoothadv-consistency", "", 1),
    ]


@pytest.mark.parametrize(
    ("folders", "method"),
    [("consistency/num_2/lbd_{}.0", "consistency"), ("smix_1.0_8_m0/tau_{}.0", "smoothmix")],
)
def test_settings_of_logs_are_called_as_those_of_published_rows(make, folders, method):
    logs = [
        make([0.5], sigma=1.0, source=Path("/logs", folders.format(k), "noise_1.0.tsv"))
        for k in (1, 16)
    ]
    ours, *published = [entry for entry in overlays(logs, [], [TABLE]) if entry.key == method]
    assert [spot.value for spot in ours.spots] == [1.0, 16.0]
    assert [ours.parameter] == [entry.parameter for entry in published]


def test_published_rows_beside_ours(run):
    found = overlays([run([0.5])], [1.0, 0.3], [TABLE])
    published = {series.name: series for series in found if series.published}
    assert {name: (series.parameter, len(series.spots)) for name, series in published.items()} == {
        "Gaussian": ("", 1),
        "Consistency": ("lam", 6),
        "SmoothMix": ("eta", 5),
        "CAT-RS": ("lam", 7),
    }
    row = next(row for row in load_table(TABLE).rows if row.label == "CAT-RS, lambda = 2")
    spot = next(spot for spot in published["CAT-RS"].spots if spot.value == 2)
    at = [row.at(CERTIFIED_ACCURACY, r).value for r in (0.0, 1.0)]
    assert spot.values[:3] == (at[0], row.acr.value, at[1])
    assert np.isnan(spot.values[3])  # a radius that the table does not have
    charts = overlay_charts(found, [1.0, 0.3])
    assert [chart.labels[1] for chart in charts] == [
        "average certified radius",
        "certified accuracy at r = 1",
        "certified accuracy at r = 0.3",
    ]
    assert [line.marker for line in charts[0].lines] == ["full"] + ["hollow"] * 4
    assert len(charts[2].lines) == 1
    with pytest.raises(ConfigError, match="table"):
        overlays([run([0.5])], [], ["catrs-supplement/table-77"])


def test_series_on_other_data_or_of_another_sigma_say_so(make):
    log = make(
        [0.5], name="cohen", sigma=0.5, source=Path("/logs/cifar10/noise_0.5/cohen/noise_0.5.tsv")
    )
    (chart,) = overlay_charts(overlays([log], [], [TABLE]), [])
    assert [line.label for line in chart.lines[:3]] == [
        "cohen (cifar10, σ=0.5)",
        "published: Gaussian (mnist, σ=1)",
        "published: Consistency by lam (mnist, σ=1)",
    ]
    ours, *published = trade_off_values([log], [], [TABLE])["series"]
    assert (ours["notes"], published[0]["notes"]) == (["cifar10, σ=0.5"], ["mnist, σ=1"])
    for place, notes in (
        ("mnist/noise_1.0", ()),
        ("FMNIST/noise_1.0", ("fashion-mnist",)),
        ("noise_1.0", ()),
    ):
        log = make([0.5], sigma=1.0, source=Path("/logs", place, "noise_1.0.tsv"))
        assert overlays([log], [], [TABLE])[0].notes == notes


def numbers_of_rings(runs, name):
    """The numbers beside the published spots of a series in the chart of the ACR, by where they stand."""
    found = overlays(runs, [], [TABLE])
    (chart,) = overlay_charts(found, [])
    (published,) = [entry for entry in found if entry.published and entry.name == name]
    spots = {(spot.values[0], spot.values[1]) for spot in published.spots}
    return [text.text for text in chart.texts if (text.x, text.y) in spots]


def test_published_numbers_are_left_out_only_where_ours_carry_them(run, make):
    every = ["1", "5", "10", "15", "20", "25"]
    assert (
        numbers_of_rings([run([0.5], lam=lam, sigma=1.0) for lam in (1.0, 5.0)], "Consistency")
        == every[2:]
    )
    assert (
        numbers_of_rings([run([0.5], lam=5.0, sigma=1.0)], "Consistency") == every
    )  # a single one has no number
    assert (
        numbers_of_rings([run([0.5], lam=lam, sigma=0.5) for lam in (1.0, 5.0)], "Consistency")
        == every
    )
    assert (
        numbers_of_rings([run([0.5], lam=5.0, sigma=sigma) for sigma in (0.5, 1.0)], "Consistency")
        == every
    )
    for data, numbers in (("cifar10", every), ("mnist", every[2:])):
        logs = [
            make(
                [0.5],
                sigma=1.0,
                source=Path("/logs", data, "consistency", f"lbd_{lam}", "noise_1.0.tsv"),
            )
            for lam in (1, 5)
        ]
        assert numbers_of_rings(logs, "Consistency") == numbers


def test_a_table_without_acr_needs_radii_that_it_prints(run):
    table = "smoothmix-supplement/table-4"
    with pytest.raises(
        ConfigError,
        match=r"no ACR, but accuracies at radii 0.5 1 1.5 2 2.5: name some of them as radii$",
    ):
        overlays([run([0.5])], [], [table])
    with pytest.raises(ConfigError, match=r"name some of them as radii, found 0.3$"):
        overlays([run([0.5])], [0.3], [table])
    charts = overlay_charts(overlays([run([0.5])], [0.5], [table]), [0.5])
    assert [len(chart.lines) for chart in charts] == [1, 18]


def test_points_that_are_left_out_are_counted(run):
    series = overlays([run([0.5])], [], [TABLE])
    (chart,) = overlay_charts(series, [], least=0.9)
    assert chart.labels[0] == "accuracy at r = 0 (2 below 90 % left out)"
    with pytest.raises(ConfigError, match="clean accuracy of at least 2, found none"):
        overlay_charts(series, [], least=2)


def test_seeds_of_logs_are_averaged_and_series_of_one_method_told_apart(make):
    def log(data, lam, seed, radius):
        place = f"{data}/consistency/lbd_{lam}/seed_{seed}"
        return make([radius], name=place, source=Path("/logs", place, "noise_0.5.tsv"), sigma=0.5)

    runs = [
        log(d, lam, seed, lam + seed + k)
        for k, d in enumerate("ab")
        for lam in (1, 2)
        for seed in (0, 1)
    ]
    found = overlays(runs, [])
    assert [entry.name for entry in found] == ["consistency (a)", "consistency (b)"]
    assert [[(s.value, s.values[1]) for s in entry.spots] for entry in found] == [
        [(1.0, 1.5), (2.0, 2.5)],
        [(1.0, 2.5), (2.0, 3.5)],
    ]


def test_values_that_differ_by_rounding_have_an_axis_as_equal_ones_have(run):
    """Its ticks were a million and more, since a last digit was taken for a difference."""
    almost = [
        run([radius, 0.6], lam=lam) for lam, radius in ((1.0, 0.7), (2.0, np.nextafter(0.7, 1)))
    ]
    assert overlays(almost, [])[0].spots[0].values[1] != overlays(almost, [])[0].spots[1].values[1]
    (chart,) = overlay_charts(overlays(almost, []), [])
    low, high = chart.frame.y
    assert (low, high) == pytest.approx((0.65 * 0.95, 0.65 * 1.05))
    assert len(charts_svg([chart])) < 10_000


def test_programs_are_told_the_spots_and_how_many_are_left_out(run):
    runs = [
        run([1.0, 0.6], lam=9.0),
        run([0.4, 0.8], [0, 1], lam=1.0),
        run([0.4, 0.6], lam=1.0, seed=1),
    ]
    told = trade_off_values(runs, [0.5], [TABLE])
    assert told["left_out"] == 0
    ours, *published = told["series"]
    assert {name: ours[name] for name in ("name", "method", "parameter", "published")} == {
        "name": "consistency", "method": "consistency", "parameter": "lam", "published": False,
    }  # fmt: skip
    assert ours["spots"] == [
        {
            "value": 1.0,
            "clean_accuracy": 0.75,
            "acr": pytest.approx(0.45),
            "at_radii": [{"radius": 0.5, "accuracy": 0.5}],
        },
        {
            "value": 9.0,
            "clean_accuracy": 1.0,
            "acr": 0.8,
            "at_radii": [{"radius": 0.5, "accuracy": 1.0}],
        },
    ]
    assert all(entry["published"] for entry in published)
    printed = {
        (row.at(CERTIFIED_ACCURACY, 0.0).value, row.acr.value) for row in load_table(TABLE).rows
    }
    assert {
        (spot["clean_accuracy"], spot["acr"]) for entry in published for spot in entry["spots"]
    } == printed
    fewer = trade_off_values(runs, least_accuracy=0.8)
    assert fewer["left_out"] == 1
    (ours,) = fewer["series"]
    assert [(spot["value"], spot["at_radii"]) for spot in ours["spots"]] == [(9.0, [])]
    assert trade_off_values([run([0.4, 0.8], [0, 0])], least_accuracy=0.8) == {
        "series": [],
        "left_out": 1,
    }
