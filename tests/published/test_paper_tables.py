"""The catalogue of tables: well-formed, true to the papers and to the authors' logs."""

import dataclasses
import fnmatch
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from smoothcert.cli import frame, main
from smoothcert.data.corruptions import CORRUPTIONS
from smoothcert.errors import ConfigError, DataError
from smoothcert.methods import build_method, method_class
from smoothcert.published.catalogue import load_table, read_table, rows_for, table_names
from smoothcert.recipes import load_recipe
from smoothcert.report import average_certified_radius, certified_accuracy, read_log
from smoothcert.statistics.value import ABSTENTION, CLEAN
from tests.report.authors_logs import LOGS, needs_logs
from tests.report.papers import paper_columns, paper_table, percents

# the first and the last table, then the first and the last figure, that the text of each paper has
IN_THE_TEXTS = {
    "smoothadv": ((1, 17), (1, 9)),
    "consistency-supplement": ((1, 7), (1, 1)),
    "smoothmix-workshop": ((1, 9), (1, 6)),
    "smoothmix-supplement": ((4, 11), None),
    "catrs-supplement": ((3, 25), (2, 8)),
}
NOT_MADE = {"smoothmix-workshop/figure-1", "catrs-supplement/figure-7", "catrs-supplement/figure-8"}


def test_every_table_and_figure_of_the_papers_has_a_name():
    in_the_texts = {
        f"{paper}/{kind}-{number}"
        for paper, ranges in IN_THE_TEXTS.items()
        for kind, place in zip(("table", "figure"), ranges, strict=True)
        if place
        for number in range(place[0], place[1] + 1)
    }
    assert len(in_the_texts) == 64 + 23
    known = {name for name in table_names() if "-logs/" not in name}
    assert known == in_the_texts
    assert {name for name in known if load_table(name).reason} == NOT_MADE
    for paper in IN_THE_TEXTS:
        assert set(table_names(paper)) == {name for name in known if name.startswith(f"{paper}/")}
    names = table_names()
    ten = names.index("catrs-supplement/table-10")
    assert names.index("catrs-supplement/table-9") < ten < names.index("catrs-supplement/figure-2")


@pytest.mark.parametrize("name", table_names())
def test_a_table_is_well_formed(name):
    table = load_table(name)
    assert table.title
    assert table.cited
    assert bool(table.rows) != bool(table.reason)
    figure = "/figure-" in name  # it prints no values, and says how it is drawn
    assert bool(table.commands) == (figure and not table.reason)
    assert max(Counter((row.label, row.recipe) for row in table.rows).values(), default=1) == 1
    silent = figure or name == "consistency-supplement/table-1"  # hyperparameters alone
    for row in table.rows:
        assert (row.table, row.cited) == (name, table.cited)
        assert bool(row.recipe) != bool(row.best_of or row.reason == "quoted from elsewhere")
        assert bool(row.corruptions) == bool(table.corruptions)
        assert {"name", "dataset", "sigma"}.isdisjoint(row.change)
        # of some nothing can be read, or is known
        unread = row.label in ("eta = 4", "eta = 8") or name.startswith("smoothadv-logs/cifar10-")
        assert bool(row.printed) != silent or unread
        known = [] if row.corruptions else list(percents(row).values())
        assert known == sorted(known, reverse=True)
        accuracy, clean = percents(row), percents(row, CLEAN)
        assert all(accuracy[r] < clean[r] for r in clean if r in accuracy)
        cells = table.cells(row)
        assert len(cells) == len(table.head)
        if not percents(row, ABSTENTION):
            assert sum(cell != "-" for cell in cells) == len(row.printed) - len(clean)


def spoilt(table, **changes):
    """A file of the catalogue whose first row is another one, or that is another one itself."""
    content = {"title": "t", "inputs": 4, "radii": [0.0, 0.5]}
    row = {"label": "Gaussian", "recipe": "mnist/gaussian-0.50", "accuracy": [99.0, 50.0]}
    return {**content, "rows": [{**row, **changes}], **table}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (spoilt({"radii": [0.5, 0.0]}), "ascending radii"),
        (spoilt({"radii": [-0.5, 0.0]}), "ascending radii"),
        (spoilt({"radii": [0.5, 0.5]}), "ascending radii"),
        (spoilt({}, accuracy=[99.0]), "expected 2 numbers under accuracy"),
        (spoilt({}, accuracy=[99.0, 50.0, 1.0]), "found 3"),
        (spoilt({}, accuracy=[199.0, 50.0]), "0 to 100 %"),
        (spoilt({}, accuracy=[-1.0, 50.0]), "0 to 100 %"),
        (spoilt({}, accuracy_std=[0.1], seeds=5), "1 standard deviations"),
        (spoilt({}, accuracy_std=[0.1, -0.1], seeds=5), "standard deviation"),
        (spoilt({}, accuracy_std=[0.1, 0.1]), "wherever seeds are several"),
        (spoilt({}, seeds=5), "wherever seeds are several"),
        (spoilt({}, acr=-0.1), "radii and standard deviations from 0 on"),
        (spoilt({}, inputs=0), "number of images"),
        (spoilt({}, accurracy=[1.0, 2.0]), "accurracy"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(content, named):
    with pytest.raises(DataError, match=named):
        read_table("smoothadv/table-1", content)


def test_radii_may_begin_anywhere_and_lie_unevenly():
    table = read_table("smoothadv/table-1", spoilt({"radii": [0.3, 1.0]}))
    assert percents(table.rows[0]) == {0.3: 99.0, 1.0: 50.0}
    assert (table.head, table.cells(table.rows[0])) == (("0.30", "1.00"), ["99", "50"])


def test_every_row_can_be_trained():
    """Each recipe takes its changes; a misspelt setting or hyperparameter would be refused."""
    rows = {
        (row.recipe, str(row.change)): row
        for name in table_names()
        for row in load_table(name).rows
        if row.recipe
    }
    tried = {}
    for row in rows.values():
        hyperparameters = dict(row.settings["method"])
        name = hyperparameters.pop("name")
        method = method_class(name)(**hyperparameters)
        changed = row.change.get("method", {})
        assert all(getattr(method, key) == value for key, value in changed.items())
        if row.change:  # checking a whole recipe takes long: one for each set of changes
            tried[name, *row.change, *changed] = row
    assert len(tried) > 20
    for row in tried.values():
        build_method(row.settings["method"])
        config = vars(load_recipe(row.recipe, row.change).config)
        for key, value in row.change.items():
            given = dataclasses.asdict(config[key]) if key == "self_training" else config[key]
            assert given == value or (
                key in ("method", "self_training") and value.items() <= given.items()
            )


@pytest.mark.parametrize("number", range(14, 26))
def test_tables_of_corruptions_are_the_printed_ones(number):
    table, methods = (
        load_table(f"catrs-supplement/table-{number}"),
        paper_columns("catrs", number)[1:],
    )
    assert {*table.head} == {*CORRUPTIONS[table.corruptions], "mean"}
    ours = {
        (kind, row.settings["method"]["name"]): cell
        for row in table.rows
        for kind, cell in zip(table.head, table.cells(row), strict=True)
    }
    means = {"mACR": "mean", "mAcc": "mean"}
    assert ours == {
        (means.get(kind, kind), method): cell
        for kind, *cells in paper_table("catrs", number)
        for method, cell in zip(methods, cells, strict=True)
    }


@pytest.mark.parametrize("number", [8, 9, 10, 11])
def test_ablations_are_the_printed_ones(number):
    table = load_table(f"smoothmix-supplement/table-{number}")
    printed = [table.cells(row) for row in table.rows if row.label != "Gaussian"]
    assert printed == [cells for _, *cells in paper_table("smoothmix", number)]


@pytest.mark.parametrize("number", [4, 5, 6, 7, 8, 9])
def test_the_workshop_prints_tables_of_the_supplement(number):
    """Of eta = 4 and 8 (table 6) our scan of the workshop paper has no values."""
    other = {4: 7, 5: 5}.get(number, number + 2)
    own, theirs = (
        load_table(name)
        for name in (f"smoothmix-workshop/table-{number}", f"smoothmix-supplement/table-{other}")
    )
    values = [
        [(row.label, row.settings, table.cells(row)) for row in table.rows]
        for table in (own, theirs)
    ]
    unread = [place for place, row in enumerate(own.rows) if not row.printed]
    assert [own.rows[place].label for place in unread] == (
        ["eta = 4", "eta = 8"] if number == 6 else []
    )
    for each in values:
        for place in reversed(unread):
            del each[place]
    assert values[0] == values[1]
    assert (own.radii, own.name) == (theirs.radii, f"smoothmix-workshop/table-{number}")


def test_the_best_smoothadv_models_have_the_hyperparameters_of_table_1():
    for row in load_table("consistency-supplement/table-1").rows:
        attack, steps, epsilon, noises = re.fullmatch(
            r"(\w+), (\d+) steps?, epsilon = (\d+), m = (\d)", row.label
        ).groups()
        method = row.settings["method"]
        assert (method["attack"], method["steps"], method["noises"]) == (
            attack.lower(),
            int(steps),
            int(noises),
        )
        assert method["epsilon"] == int(epsilon) / 256


def test_stability_of_table_7_has_every_lambda_that_is_printed():
    rows = [
        row for row in load_table("consistency-supplement/table-7").rows if "Stability" in row.label
    ]
    found = Counter(
        (row.settings["sigma"], row.settings["method"]["lam"], row.acr.value) for row in rows
    )
    constant = {0.25: 0.102, 0.5: 0.206, 1.0: 0.381}
    printed = {0.25: {1: 0.408, 2: 0.421}, 0.5: {1: 0.496, 2: 0.521}, 1.0: {1: 0.526, 2: 0.414}}
    assert found == Counter(
        (sigma, lam, acr)
        for sigma, few in printed.items()
        for lam, acr in {
            **few,
            5: constant[sigma],
            10: constant[sigma],
            20: constant[sigma],
        }.items()
    )


def test_figures_are_made_of_the_rows_of_their_tables():
    ablations = load_table("smoothmix-workshop/figure-6").rows
    assert Counter(row.label for row in ablations)["Gaussian"] == 1  # which all four tables print
    assert len(ablations) == 1 + 5 + 4 + 5 + 4
    by_m = {row.label: row.best_of for row in load_table("smoothadv/figure-5").rows}
    assert {label: len(models) for label, models in by_m.items()} == {
        "m = 1": 160,
        "m = 2": 64,
        "m = 4": 64,
        "m = 8": 63,
    }
    for row in load_table("smoothadv/figure-6").rows:
        models = [f"{model.recipe} {model.change}" for model in row.best_of]
        assert len(set(models)) == len(models) == 4 * 5 + 4 * 2 * 3  # each once
        assert all(model.label.endswith(row.label) for model in row.best_of)
        assert {model.settings["method"].get("attack") for model in row.best_of} == {"pgd"}
    per_sigma = load_table("smoothadv/figure-1").rows[2:]
    for row in per_sigma:
        assert {f"sigma = {model.settings['sigma']:g}" for model in row.best_of} == {
            row.label.partition(", ")[2]
        }


def test_the_page_of_tables_and_figures_names_those_of_every_paper():
    page = (Path(__file__).parents[2] / "docs" / "figures.md").read_text(encoding="utf-8")
    found = re.findall(r"`([a-z-]+)` \| (\d+) to (\d+) \| (?:(\d+)(?: to (\d+))?|none) \|", page)
    named = {
        paper: ((int(a), int(b)), (int(c), int(d or c)) if c else None)
        for paper, a, b, c, d in found
    }
    assert named == IN_THE_TEXTS


def test_commands_that_draw_a_figure_are_understood():
    commands = [line for name in table_names() for line in load_table(name).commands]
    asked = []
    for line in commands:
        for command in re.findall(r"smoothcert [^;]+", line):
            words = shlex.split(re.sub(r"\$[mn]", "4", command).replace("$s", "0.25"))[1:]
            asked.append(frame.parsed(words))
    assert {each.func.__name__ for each in asked} == {"attack", "explain", "report", "reproduce"}
    for each in asked:
        if each.func.__name__ == "reproduce":
            table = load_table(each.args[0])
            labels = [row.label for row in table.rows]
            assert all(fnmatch.filter(labels, pattern) for pattern in each.keywords.get("rows", ()))


def test_rows_made_with_another_schedule_are_not_compared():
    """CAT-RS's table 12 trained Gaussian for 150 epochs; the released models' row is of 90."""
    own = load_recipe("cifar10/gaussian-0.50").config
    longer = load_recipe(
        "cifar10/gaussian-0.50", {"epochs": 150, "batch_size": 256, "lr_step": 50, "lr_late": True}
    ).config
    short = load_recipe("cifar10/gaussian-0.50", {"epochs": 3}).config
    assert next(row.acr.value for row in rows_for(vars(own)) if row.acr) == 0.525
    assert {row.acr.seeds for row in rows_for(vars(own)) if row.acr} == {1}
    (row,) = rows_for(vars(longer))
    assert (row.acr.value, row.acr.seeds, row.images) == (0.5406, 5, 2000)
    assert next(row.acr.value for row in rows_for(vars(short)) if row.acr) == 0.525


def test_ablations_are_found_by_their_settings():
    config = load_recipe("mnist/smoothmix-1.00-eta1", {"method": {"eta": 16.0}}).config
    rows = rows_for(vars(config))
    assert (rows[0].acr.value, rows[0].cited.rpartition(", ")[2]) == (1.812, "table 8")
    config = load_recipe("mnist/consistency-1.00", {"method": {"lam": 10.0}}).config
    rows = rows_for(vars(config))
    assert percents(rows[0])[0.5] == 88.6
    assert 0.25 not in percents(rows[0])  # a table with steps of 0.5


def test_a_table_has_no_columns_without_a_value(capsys):
    main(["list", "tables", "smoothadv/figure-4"])
    printed = capsys.readouterr().out
    assert re.search(r"^sigma +setup +recipe +changes +inputs$", printed, re.MULTILINE)
    assert "it prints no values" in printed
    assert not re.search(r"^[\d.]+ .* - *( |$)", printed, re.MULTILINE)


def test_the_list_and_a_table_are_printed_without_torch_or_numpy(capsys):
    main(["list", "tables"])
    listed = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert ["smoothmix-supplement/table-8", "mnist", "6"] in listed
    assert ["smoothadv/table-17", "cifar10", "5"] in listed
    main(["list", "tables", "smoothmix-workshop"])
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "/" in line]
    assert [name for name in listed if name.startswith("smooth")] == table_names(
        "smoothmix-workshop"
    )
    main(["list", "tables", "catrs-supplement/figure-8"])
    assert "MNIST-C" in capsys.readouterr().out
    main(["list", "tables", "smoothadv-logs/cifar10-finetuned"])
    made = "--method.epsilon 0.25 from imagenet32/smoothadv-0.12 --method.epsilon 0.25"
    assert made in capsys.readouterr().out
    main(["list", "tables", "smoothadv/table-17"])
    printed = capsys.readouterr().out
    assert "smoothadv-logs/cifar10-finetuned    10000   80 (90)  62 (81)" in printed
    assert (
        "published with n0 = 100, n = 100,000, alpha = 0.001, and radii rounded to 3 significant"
        in printed
    )
    main(["list", "tables", "consistency-supplement/table-7"])
    printed = capsys.readouterr().out
    assert re.search(r"cifar10/consistency-0.25 +10000   0.552  75.8  67.6  58.1  46.7", printed)
    assert re.search(r"cifar10/stability-0.50 +--method.lam 1.0 +10000   0.496  61.1", printed)
    assert (
        "note on Stability, lambda = 1 (sigma 0.5): the value at radius 1 could not be read"
        in printed
    )
    main(["list", "tables", "consistency-supplement/table-4"])
    shared = "note on cross-entropy, lambda = 5 (sigma 1); cross-entropy, lambda = 20 (sigma 1): the rows called"
    assert shared in capsys.readouterr().out
    main(["list", "tables", "smoothmix-supplement/table-7"])
    assert "0.733  57   " in capsys.readouterr().out
    code = (
        "import sys; from smoothcert.published.catalogue import *; [load_table(name) for name in table_names()]; "
        "assert not {'torch', 'numpy', 'yaml'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_table_offers_the_nearest():
    with pytest.raises(ConfigError, match="did you mean smoothmix-supplement/table-8"):
        load_table("smoothmix-suplement/table-8")


def logged(pattern):
    places = [
        path for path in (Path(LOGS) / "data").glob(pattern) if not path.name.endswith("_acc")
    ]
    assert places, pattern
    return [read_log(path) for path in places]


@needs_logs
@pytest.mark.parametrize("name", table_names())
def test_rows_with_a_log_are_its_numbers_to_the_digit(name):
    table = load_table(name)
    for row in table.rows:
        results = logged(row.log or row.log_of_columns) if row.log or row.log_of_columns else []
        for value in row.printed if results else ():
            if value.measure == "ACR":
                found = np.array([average_certified_radius(c) for c in results])
            else:
                found = np.array([certified_accuracy(c, [value.r])[0] for c in results])
            assert (len(results), value.images) == (value.seeds, row.images)
            if value.seeds == 1 and value.measure == "ACR":
                assert (f"{found[0]:.3f}" == f"{value.value:.3f}") == bool(row.log), row
                continue
            spreads = [np.nan] if value.seeds == 1 else [found.std(ddof=1)]
            # some of the papers divide by 5
            spreads += [found.std()] if value.measure == "ACR" else []
            texts = [row.text(value._replace(value=found.mean(), sd=sd)) for sd in spreads]
            assert row.text(value) in texts, row


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        (
            "table-8",
            {"smoothadv/table-8", "smoothmix-supplement/table-8", "catrs-supplement/table-8"},
        ),
        (
            "smoothmix/table-10",
            {"smoothadv/table-10", "smoothmix-supplement/table-10", "catrs-supplement/table-10"},
        ),
        ("smothadv/figure-5", {"smoothadv/figure-5", "smoothmix-workshop/figure-5"}),
        ("smoothmix-workshp", {"smoothmix-workshop"}),
        ("consistency-suplement", {"consistency-supplement"}),
        ("nope", set()),
    ],
)
def test_a_misspelt_table_is_answered_by_few_names(name, offered):
    with pytest.raises(ConfigError) as refused:
        load_table(name)
    said = str(refused.value)
    papers = {known.partition("/")[0] for known in table_names()}
    named = {known for known in (*papers, *table_names()) if known in re.findall(r"[\w/-]+", said)}
    assert offered <= named
    assert len(named) <= 4
    assert "`smoothcert list tables` lists all" in said
    assert name != "nope" or not named


def test_a_run_as_printed_finds_its_row():
    config = load_recipe("mnist/smoothmix-0.50", {"as_printed": True}).config
    assert rows_for(vars(config))[0].acr.value == 1.694
