"""Verdicts: the interval by formulas written out here with scipy.stats, and which runs are judged by which rows."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from smoothcert.data.corruptions import CORRUPTIONS, SEVERITIES
from smoothcert.published.averages import over_corruptions, over_seeds
from smoothcert.published.catalogue import load_table, read_table
from smoothcert.published.judge import (
    Beside,
    Spread,
    image_error,
    judge,
    judge_row,
    of_row,
    pool,
    pooled,
)
from smoothcert.statistics.value import (
    ABSTENTION,
    ACR,
    CERTIFIED_ACCURACY,
    CLEAN,
    MEAN_ACCURACY,
    MEAN_ACR,
    SPREAD,
    Value,
)


def acr(value, sd=math.nan, seeds=1, images=10_000):
    return Value("", ACR, value, sd=sd, seeds=seeds, images=images)


def share(value, sd=math.nan, seeds=1, images=10_000, r=0.5):
    return Value("", CERTIFIED_ACCURACY, value, r, sd=sd, seeds=seeds, images=images)


def t(dof, numbers=1):
    return stats.t(dof).ppf(1 - 0.05 / 2 / numbers)


INTERVALS = [  # ours, printed, beside, half width as it is on paper
    (acr(0.5), acr(0.5, 0.002, 5), Beside(), t(4) * 0.002 * math.sqrt(1 + 1 / 5)),
    (acr(0.5), acr(0.5, 0.002, 5), Beside(step=0.001), t(4) * 0.002 * math.sqrt(1.2) + 0.0005),
    (acr(0.5), acr(0.5, 0.002, 5), Beside(numbers=9), t(4, 9) * 0.002 * math.sqrt(1.2)),
    (
        acr(0.5, 0.003, 3),
        acr(0.5, 0.002, 5),
        Beside(),
        t(6) * math.sqrt((2 * 0.003**2 + 4 * 0.002**2) / 6) * math.sqrt(1 / 3 + 1 / 5),
    ),
    (acr(0.5, 0.003, 3), acr(0.5), Beside(), t(2) * 0.003 * math.sqrt(1 / 3 + 1)),
    (acr(0.5), acr(0.5), Beside(pooled=Spread(0.002, 36)), t(36) * 0.002 * math.sqrt(2)),
    (
        acr(0.5, 0.003, 3),
        acr(0.5),
        Beside(pooled=Spread(0.002, 4)),
        t(6) * math.sqrt((2 * 0.003**2 + 4 * 0.002**2) / 6) * math.sqrt(1 / 3 + 1),
    ),
    # a printed spread is not mixed with those of other rows
    (
        acr(0.5),
        acr(0.5, 0.002, 5),
        Beside(pooled=Spread(9.0, 36)),
        t(4) * 0.002 * math.sqrt(1.2),
    ),
    # other images: the degrees of freedom of a sum of an estimated and a known variance
    (
        acr(0.5),
        acr(0.5, 0.002, 5),
        Beside(images=0.01),
        t(4 * ((1.2 * 0.002**2 + 0.01**2) / (1.2 * 0.002**2)) ** 2)
        * math.sqrt(1.2 * 0.002**2 + 0.01**2),
    ),
    (
        acr(0.5),
        acr(0.7, 0.002, 5),
        Beside(step=0.01, paired=acr(0.0)._replace(low=-0.0196, high=0.0196)),  # to one run
        t(4 * ((2 * 0.002**2 + 0.01**2) / (2 * 0.002**2)) ** 2) * math.sqrt(2 * 0.002**2 + 0.01**2),
    ),
    # a share moves by whole images
    (share(0.0), share(0.0, 0.0, 5), Beside(), t(4) * 0.0001 * math.sqrt(1.2)),
    (share(1.0), share(1.0, 0.0, 5, 500), Beside(), t(4) * 0.0001 * math.sqrt(1.2)),
    (share(0.5), share(0.5, 0.01, 5), Beside(), t(4) * 0.01 * math.sqrt(1.2)),
]


@pytest.mark.parametrize(("ours", "printed", "beside", "half"), INTERVALS)
def test_the_interval_is_that_of_the_formula(ours, printed, beside, half):
    found = judge(ours, printed, beside)
    assert found.half == pytest.approx(half, rel=1e-9)
    assert (found.word, found.difference) == ("reproduced", pytest.approx(0.0))
    for sign, word in ((1, "higher"), (-1, "lower")):
        moved = {
            place: beside._replace(
                paired=beside.paired
                and beside.paired._replace(
                    value=d, low=beside.paired.low + d, high=beside.paired.high + d
                )
            )
            for place, d in (("in", sign * 0.999 * half), ("out", sign * 1.001 * half))
        }
        inside = judge(
            ours._replace(value=printed.value + sign * 0.999 * half), printed, moved["in"]
        )
        outside = judge(
            ours._replace(value=printed.value + sign * 1.001 * half), printed, moved["out"]
        )
        assert (inside.word, outside.word) == ("reproduced", "different")
        assert outside.reason.startswith(word)
        assert "5 % of the rows differ so much" in outside.reason


def test_how_sure_a_difference_is():
    printed, beside = acr(0.5, 0.002, 5), Beside(step=0.001, numbers=9)
    found = judge(acr(0.53), printed, beside)
    chance = 9 * 2 * stats.t(4).sf((0.03 - 0.0005) / (0.002 * math.sqrt(1.2)))
    assert f"{100 * chance:.1g} % of the rows" in found.reason
    assert "+0.0300 ± " in found.reason


@pytest.mark.parametrize(
    ("ours", "printed", "beside", "reason"),
    [
        (acr(0.5), acr(0.5), Beside(), "one seed of ours and no published spread"),
        (share(0.5), share(0.5), Beside(images=0.02), "one seed of ours and no published spread"),
        (acr(0.5), acr(0.5, 0.02, 5), Beside(), "too few seeds"),
        (acr(0.5), acr(0.5, 0.002, 5), Beside(images=0.03), "too few images"),
        (share(0.5), share(0.5, 0.02, 5), Beside(), "too few seeds"),
        (share(0.5), share(0.5, 0.001, 5), Beside(images=0.021), "too few images"),
    ],
)
def test_what_cannot_be_known_is_not_judged(ours, printed, beside, reason):
    found = judge(ours, printed, beside)
    assert found.word == "not judged"
    assert found.reason.startswith(reason)
    assert ("±" in found.reason) == (found.half == found.half)


@pytest.mark.parametrize(
    ("value", "half", "word"),
    [
        (acr(0.5), 0.0299, "reproduced"),
        (acr(0.5), 0.0301, "not judged"),
        (acr(2.0), 0.0599, "reproduced"),  # 3 % of it
        (acr(2.0), 0.0601, "not judged"),
        (share(0.5), 0.0399, "reproduced"),
        (share(0.5), 0.0401, "not judged"),
    ],
)
def test_a_wide_interval_shows_nothing_to_be_reproduced(value, half, word):
    spread = half / t(4) / math.sqrt(1.2)
    printed = value._replace(sd=spread, seeds=5)
    found = judge(value, printed, Beside())
    assert (found.word, found.half) == (word, pytest.approx(half))
    far = judge(value._replace(value=value.value + 2 * half), printed, Beside())
    assert far.word == "different"  # however wide it is


def test_the_error_of_a_share_on_other_images_is_that_of_the_binomial():
    ours, printed = share(0.52, images=500), share(0.5, images=10_000)
    p = (0.52 * 500 + 0.5 * 10_000) / 10_500
    literal = math.sqrt(p * (1 - p) * (1 / 500 + 1 / 10_000))
    assert image_error(ours, printed, 0.0) == pytest.approx(literal, rel=1e-3)
    radii = image_error(acr(0.5, images=500), acr(0.5), 0.4)
    assert radii == pytest.approx(0.4 * math.sqrt(1 / 500 + 1 / 10_000))


@pytest.mark.parametrize("p", [0.0, 0.002, 0.5, 0.998, 1.0])
def test_equal_shares_of_other_images_rarely_differ(p):
    """Exact, over all counts: at 0 and 100 %, too."""
    n, k = 500, 1000
    ours, theirs = stats.binom(n, p), stats.binom(k, p)
    different = 0.0
    for a in range(n + 1):
        for b in range(k + 1) if ours.pmf(a) > 1e-6 else ():
            weight = ours.pmf(a) * theirs.pmf(b) if theirs.pmf(b) > 1e-6 else 0.0
            if weight > 1e-9:
                x, y = share(a / n, images=n), share(b / k, 0.0, 5, images=k)
                beside = Beside(images=image_error(x, y, 0.0))
                different += weight * (judge(x, y, beside).word == "different")
    assert different <= 0.055


def test_a_pooled_spread_is_typical_and_has_the_degrees_of_freedom_of_a_row():
    found = pool([Spread(0.001, 4), Spread(0.003, 4), Spread(0.002, 9)])
    assert found == Spread(pytest.approx(math.sqrt(14 / 3) * 0.001), 4)  # of one of the rows
    assert pool([Spread(0.1, 4)] * 9) == Spread(pytest.approx(0.1), 9)  # one for each row
    assert pool([]).dof == 0
    row = next(r for r in load_table("smoothmix-supplement/table-8").rows if r.label == "eta = 16")
    assert row.settings["sigma"] == 1.0
    spreads = [r.acr.sd for r in load_table("smoothmix-supplement/table-5").rows[18:]]
    assert pooled(row, row.acr) == (pytest.approx(np.sqrt(np.mean(np.square(spreads)))), 9)
    fewer = pooled(dataclasses.replace(row), row.acr._replace(images=500))
    assert fewer.sd == pytest.approx(math.sqrt(20) * pooled(row, row.acr).sd)
    assert pooled(row, row.printed[1]).dof == 9  # accuracies are those of another table
    single = load_table("smoothmix-workshop/table-2").rows[12]  # whose spread another table has
    assert single.settings == load_table("smoothmix-supplement/table-5").rows[12].settings
    assert pooled(single, single.acr) == Spread(0.0069, 4)
    assert pooled(load_table("smoothadv/table-7").rows[0], share(0.5)).dof == 0
    (mixed, *_) = load_table("smoothadv/table-2").rows  # the best of models of three sigmas
    assert pooled(mixed, mixed.printed[0]).dof == 0


class Run(NamedTuple):
    config: dict
    settings: dict
    values: tuple
    beside: dict


def run(row, values, seed=0, images=None, beside=None, **config):
    """A run made as a row, which has these values by place."""
    settings = {"images": images or row.images, "n": 100_000, "alpha": 0.001}
    every = 10_000 // row.images
    settings |= {"dataset": row.corruptions or row.dataset, "start": 0, "every": every}
    size = settings["images"]
    own = tuple(Value("", place[0], v, *place[1:], images=size) for place, v in values.items())
    return Run({**row.settings, "seed": seed, **config}, settings, own, beside or {})


def as_printed(row, **moved):
    return {v.place: v.value + moved.get(v.measure, 0.0) for v in row.printed}


MNIST = load_table("smoothmix-supplement/table-5").rows[9]  # one ACR with its spread


def test_a_row_is_judged_by_the_runs_that_were_made_as_it_was():
    ours = as_printed(MNIST)
    (found,) = judge_row(MNIST, [run(MNIST, ours)])
    assert found.word == "reproduced"
    assert found.half == pytest.approx(t(4) * 0.0016 * math.sqrt(1.2) + 0.00005)
    (found,) = judge_row(MNIST, [run(MNIST, ours), run(MNIST, {(ACR, None, ""): 9.0}, epochs=3)])
    assert (found.word, found.difference) == ("reproduced", pytest.approx(0))
    (found,) = judge_row(MNIST, [run(MNIST, ours, epochs=3)])
    assert (found.word, found.reason) == ("not judged", "epochs = 3 here, 90 there")
    (found,) = judge_row(MNIST, [])
    assert (found.word, found.reason) == ("not judged", "not run")
    (found,) = judge_row(MNIST, [run(MNIST, {(ABSTENTION, None, ""): 0.1})])
    assert (found.word, found.reason) == ("not judged", "not measured")


def test_seeds_count_once_each_and_their_spread_counts():
    values = [1.556, 1.559, 1.560]
    runs = [run(MNIST, {(ACR, None, ""): v}, seed=s) for s, v in enumerate(values)]
    (found,) = judge_row(MNIST, [*runs, runs[0]])
    own = np.std(values, ddof=1)
    spread = math.sqrt((2 * own**2 + 4 * 0.0016**2) / 6)
    assert found.half == pytest.approx(t(6) * spread * math.sqrt(1 / 3 + 1 / 5) + 0.00005)
    assert found.difference == pytest.approx(np.mean(values) - 1.5581)


def test_on_other_images_the_interval_is_wider_and_the_same_images_are_preferred():
    ours = {**as_printed(MNIST), (SPREAD, None, ""): 0.8}
    (few,) = judge_row(MNIST, [run(MNIST, ours, images=500)])
    seeds, images = 1.2 * 0.0016**2, 0.8**2 * (1 / 500 + 1 / 10_000)
    dof = 4 * ((seeds + images) / seeds) ** 2
    assert few.half == pytest.approx(t(dof) * math.sqrt(seeds + images) + 0.00005)
    assert few.reason.startswith("too few images")
    bare = {place: v for place, v in ours.items() if place[0] != SPREAD}
    (bound,) = judge_row(MNIST, [run(MNIST, bare, images=500)])
    assert bound.half > 0.9 * few.half  # by the widest radii that have this mean
    (both,) = judge_row(MNIST, [run(MNIST, ours, images=500), run(MNIST, ours)])
    assert both.word == "reproduced"


def test_a_radius_that_no_network_reaches_is_not_judged_and_does_not_widen_the_others():
    row = load_table("smoothmix-supplement/table-4").rows[0]
    assert row.settings["sigma"] == 0.25  # up to .95
    found = judge_row(row, [run(row, as_printed(row))])
    assert [verdict.word for verdict in found] == ["reproduced"] * 2 + ["not judged"] * 4
    assert found[2].reason == "no network has a certificate at this radius"
    (clean, *_) = row.printed
    assert found[0].half == pytest.approx(t(4, 2) * clean.sd * math.sqrt(1.2) + 0.00005)


def test_runs_on_the_same_images_are_preferred_to_those_on_more():
    row = load_table("smoothadv/table-7").rows[0]
    same = [run(row, as_printed(row, **{CERTIFIED_ACCURACY: 0.001 * s}), seed=s) for s in range(3)]
    more = [run(row, as_printed(row), seed=s, images=10_000) for s in range(3, 8)]
    few = [run(row, as_printed(row), seed=s) for s in range(8, 13)]
    few = [r._replace(settings={**r.settings, "start": 1}) for r in few]  # as many, but others
    alone, with_others = judge_row(row, same), judge_row(row, [*more, *few, *same])
    assert [v.word for v in alone].count("not judged") < len(alone)
    assert with_others == alone


def test_values_without_a_spread_do_not_widen_the_interval_of_others():
    row = load_table("smoothmix-workshop/table-1").rows[7]  # CIFAR-10 at sigma 0.5
    assert row.settings["sigma"] == 0.5
    found = judge_row(row, [run(row, as_printed(row))])
    assert [verdict.reason.split(",")[0] for verdict in found[1:]] == [
        "one seed of ours and no published spread"
    ] * 8
    spread = pooled(row, row.acr)
    assert found[0].half == pytest.approx(t(7) * spread.sd * math.sqrt(2) + 0.0005)  # of 7 rows
    seeds = [run(row, as_printed(row, ACR=0.001 * s), seed=s) for s in range(5)]
    assert of_row(judge_row(row, seeds)) == "reproduced"


def test_a_log_on_the_same_images_takes_the_place_of_what_is_printed():
    paired = Value("authors", ACR, 0.002, None, "", 0.0, 0.004)
    other = Value("eth", ACR, -0.01, None, "", -0.02, 0.0)
    ours = run(
        MNIST,
        as_printed(MNIST, ACR=0.5),
        images=500,
        beside={"authors": (paired,), "eth": (other,)},
    )
    (found,) = judge_row(MNIST, [ours])
    seeds, images = 2 * 0.0016**2, (0.002 / 1.96) ** 2
    dof = 4 * ((seeds + images) / seeds) ** 2
    assert (found.word, found.difference) == ("reproduced", 0.002)
    assert found.half == pytest.approx(t(dof) * math.sqrt(seeds + images))
    assert found.reason.endswith("-0.0100 to eth: between both")


def test_a_difference_to_a_log_without_an_interval_does_not_count():
    """So it is with lines that were made before intervals were kept."""
    bare = {"authors": (Value("", ACR, 0.002),)}
    beside, alone = (
        judge_row(MNIST, [run(MNIST, as_printed(MNIST, ACR=0.001), images=500, beside=given)])
        for given in (bare, None)
    )
    assert beside == alone
    assert not math.isnan(alone[0].half)


@pytest.mark.parametrize(
    ("authors", "eth", "where"), [(0.1, 0.2, "above both"), (-0.1, -0.2, "below both")]
)
def test_where_ours_lies_between_two_groups(authors, eth, where):
    beside = {
        "authors": (Value("", ACR, authors, None, "", authors, authors),),
        "eth": (Value("", ACR, eth),),
    }
    values = as_printed(MNIST, ACR=authors)
    (found,) = judge_row(MNIST, [run(MNIST, values, beside=beside)])
    assert found.word == "different"
    assert found.reason.endswith(where)


def test_a_best_row_is_judged_by_the_best_model_at_each_radius():
    models = [
        {"label": name, "recipe": f"mnist/{name}-0.50", "accuracy": [90.0, 50.0]}
        for name in ("gaussian", "stability", "macer")
    ]
    content = {"title": "t", "inputs": 10_000, "radii": [0.0, 0.5], "rows": models}
    rows = read_table("smoothadv/table-1", content).rows
    best = dataclasses.replace(
        rows[0],
        recipe="",
        best_of=rows,
        printed=(share(0.6), Value("", CLEAN, 0.8, 0.5), Value("", ABSTENTION, 0.1, 0.5)),
        digits={CERTIFIED_ACCURACY: 0, CLEAN: 0, ABSTENTION: 0},
    )

    def made(row, clean, at_half, abstains):
        places = (
            (CERTIFIED_ACCURACY, 0.0, ""),
            (CERTIFIED_ACCURACY, 0.5, ""),
            (ABSTENTION, None, ""),
        )
        both = dict(zip(places, (clean, at_half, abstains), strict=True))
        return [run(row, both, seed=s) for s in (0, 1, 2)]

    runs = [*made(rows[0], 0.9, 0.5, 0.3), *made(rows[1], 0.8, 0.6, 0.1)]
    found = judge_row(best, runs)
    assert [verdict.word for verdict in found] == ["reproduced"] * 3
    assert [verdict.difference for verdict in found] == pytest.approx([0, 0, 0])
    assert judge_row(best, made(rows[0], 0.9, 0.5, 0.3))[0].word == "different"
    other = run(rows[0], {(CERTIFIED_ACCURACY, 0.5, ""): 0.6}, epochs=1)
    assert judge_row(best, [other])[0].reason == "epochs = 1 here, 90 there"


def test_quoted_rows_are_not_judged():
    quoted = [row for row in load_table("smoothadv/table-3").rows if not row.best_of]
    assert quoted
    for row in quoted:
        assert {verdict.reason for verdict in judge_row(row, [])} == {"quoted from elsewhere"}


def test_means_over_corruptions_need_all_of_them():
    kinds = CORRUPTIONS["cifar10-c"]
    values = {
        place: Value("", place[0], 0.01 * s + 0.001 * k, *place[1:], images=100)
        for s in SEVERITIES
        for k, kind in enumerate(kinds)
        for place in ((ACR, None, f"{kind}/{s}"), (CERTIFIED_ACCURACY, 0.0, f"{kind}/{s}"))
    }
    found = {v.place: v.value for v in over_corruptions(values, "cifar10-c")}
    for measure, r in ((MEAN_ACR, None), (MEAN_ACCURACY, 0.0)):
        assert found[measure, r, "severity 2"] == pytest.approx(0.02 + 0.007)
        assert found[measure, r, ""] == pytest.approx(0.03 + 0.007)
    del values[ACR, None, "fog/5"]
    found = {v.place for v in over_corruptions(values, "cifar10-c")}
    assert (MEAN_ACR, None, "severity 2") in found
    assert not {(MEAN_ACR, None, "severity 5"), (MEAN_ACR, None, "")} & found
    assert (MEAN_ACCURACY, 0.0, "") in found


def test_a_table_of_corruptions_is_judged_from_runs_on_each():
    row = load_table("catrs-supplement/table-24").rows[0]
    runs = []
    for seed in (0, 1, 2):
        for place, value in as_printed(row).items():
            if place[0] == ACR:
                runs.append(run(row, {place: value + 0.001 * seed}, seed=seed))
    found = judge_row(row, runs)
    assert len(found) == 16
    assert {verdict.word for verdict in found} == {"reproduced"}
    missing = judge_row(row, [r for r in runs if r.values[0].on != "fog"])
    reasons = [verdict.reason for verdict in missing if verdict.word == "not judged"]
    assert reasons == ["not measured"] * 2  # of fog, and the mean


def test_over_seeds():
    found = over_seeds([acr(1.0, images=500), acr(3.0, images=400), share(0.5)])
    assert [(v.measure, v.value, v.seeds, v.images) for v in found] == [
        (ACR, 2.0, 2, 400),
        (CERTIFIED_ACCURACY, 0.5, 1, 10_000),
    ]
    assert found[0].sd == pytest.approx(math.sqrt(2))
    assert math.isnan(found[1].sd)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["reproduced", "not judged"], "reproduced"),
        (["reproduced", "different"], "different"),
        (["not judged"], "not judged"),
        ([], "not judged"),
    ],
)
def test_the_word_for_a_row(words, word):
    half = judge(acr(0.5), acr(0.5), Beside())
    assert of_row([half._replace(word=each) for each in words]) == word
