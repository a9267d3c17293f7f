"""Tables of the catalogue made again: which runs they need, and how ours stand beside what is printed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm

from smoothcert.cli import frame, main
from smoothcert.data import Dataset
from smoothcert.data.corruptions import CORRUPTIONS
from smoothcert.errors import ConfigError
from smoothcert.evaluation.tables import comparison_table, plan_table, table_outcomes
from smoothcert.recipes import load_recipe
from smoothcert.recipes.tables import load_table
from tests.results import certify_with

SMALL = ["--n", "100", "--max", "4"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The place of 16 images for training and 4 to certify."""
    place, rng = tmp_path_factory.mktemp("tiny") / "tiny.npz", np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8), np.arange(20)[::-1] % 10
    arrays = {"train_images": images[:16], "train_labels": labels[:16]}
    np.savez(place, **arrays, test_images=images[16:], test_labels=labels[16:])
    return f"npz:{place}"


@pytest.mark.parametrize(
    ("name", "rows", "count"),
    [
        ("smoothmix-supplement/table-11", ["Gaussian", "m = [12]"], 3),
        ("consistency-supplement/table-4", ["*lambda = 5"], 3),
        (
            "catrs-supplement/table-7",
            ["Gaussian", "CAT-RS, lambda = 0"],
            2,
        ),  # more of lambda needs soft labels
    ],
)
def test_ablation_tables_are_made_at_small_size(tmp_path, tiny, name, rows, count):
    """In this process, since each command would load PyTorch anew; a test below has the whole command."""
    table = load_table(name)
    jobs = plan_table(table, tmp_path, rows, dataset=tiny)
    assert len({planned.job.folder for planned in jobs}) == count
    train = ["--epochs", "1", "--evaluate-every", "0"]
    for planned in jobs:
        main([*planned.job.train, *train])
        main([*planned.job.certify, *SMALL])
    results = table_outcomes(table, jobs, train, SMALL, comparable=False)
    assert [(entry["row"], entry["inputs"]) for entry in results] == [
        (planned.row.label, 4) for planned in jobs
    ]
    assert {entry["published"]["reproduced"] for entry in results} == {None}
    assert [entry["published"]["acr"] for entry in results] == [planned.row.acr for planned in jobs]
    lines = [
        line.split(" | ")
        for line in comparison_table(table, results).splitlines()
        if line.startswith("| ")
    ]
    head, *body = lines
    assert all(len(line) == len(head) == 5 + len(table.radii) for line in body)
    assert [line[2] for line in body].count("ours") == count
    assert [line[1] for line in body if line[1]] == [row.label for row in table.rows]
    for entry in results:  # ours stands below the row that it belongs to
        (place,) = (i for i, line in enumerate(body) if line[1] == entry["row"])
        assert body[place][2:4] == ["published", f"{entry['published']['acr']:.3f}"]
        assert body[place + 1][2:5] == [
            "ours",
            f"{entry['acr']:.3f}",
            f"{100 * entry['certified_accuracy']['0']:.1f}",
        ]


def test_the_same_run_is_made_once_for_all_tables_that_need_it(tmp_path):
    eight, nine = (
        plan_table(load_table(f"smoothmix-supplement/table-{i}"), tmp_path) for i in (8, 9)
    )
    both = {planned.job.folder for planned in eight} & {planned.job.folder for planned in nine}
    places = {str(folder.relative_to(tmp_path)) for folder in both}
    assert places == {"mnist/gaussian-1.00/seed0", "mnist/smoothmix-1.00-eta1/seed0"}
    assert (
        str(eight[2].job.folder.relative_to(tmp_path)) == "mnist/smoothmix-1.00-eta1,eta=2.0/seed0"
    )


def test_as_many_images_are_certified_as_the_table_has(tmp_path):
    rows = {
        (planned.row.inputs, planned.job.every, planned.job.store.name)
        for number in (8, 12)
        for planned in plan_table(load_table(f"catrs-supplement/table-{number}"), tmp_path)
    }
    assert rows == {(1000, 10, "test-every10"), (10_000, 1, "test"), (2000, 5, "test-every5")}
    (job,) = {
        planned.job.every
        for planned in plan_table(load_table("smoothmix-supplement/table-7"), tmp_path)
    }
    assert job == 100  # also where a log of 500 images stopped at 427


def test_tables_of_corruptions_train_a_model_once_and_certify_it_on_each(tmp_path):
    jobs = plan_table(load_table("catrs-supplement/table-13"), tmp_path, ["Gaussian"])
    assert (len(jobs), len({planned.job.folder for planned in jobs})) == (75, 1)
    assert len({planned.job.store for planned in jobs}) == 75
    words = jobs[0].job.certify
    assert words[-6:] == [
        "--every",
        "100",
        "--data",
        "cifar10-c:gaussian_noise/1",
        "--name",
        "gaussian_noise-1-every100",
    ]
    assert len(plan_table(load_table("catrs-supplement/table-24"), tmp_path, ["CAT-RS"])) == 15


def test_cells_of_corruptions_are_means_over_types():
    def entries(table, kinds):
        return [
            {"row": "Gaussian", "recipe": table.rows[0].recipe, "seed": 0, "corruption": kind, "severity": severity,
             "acr": severity / 10 + i / 100, "certified_accuracy": {"0": 0.5}, "published": {"reproduced": None}}
            for severity in (1, 2, 3, 4, 5) for i, kind in enumerate(kinds)
        ]  # fmt: skip

    table = load_table("catrs-supplement/table-13")
    kinds = CORRUPTIONS["cifar10-c"]
    line = comparison_table(table, entries(table, kinds)).splitlines()[5]
    ours = ["0.170", "0.270", "0.370", "0.470", "0.570", "0.370", *["50.0"] * 6]
    assert line == f"|  |  | ours | {' | '.join(ours)} | - |"
    _, *others = entries(table, kinds)
    line = comparison_table(table, others).splitlines()[
        5
    ]  # no mean over fewer types than the paper's
    assert line.split(" | ")[3:9] == ["-", "0.270", "0.370", "0.470", "0.570", "-"]
    table = load_table("catrs-supplement/table-14")
    cells = comparison_table(table, entries(table, kinds)).splitlines()[5].split(" | ")
    assert dict(zip(table.columns, cells[3:], strict=False))[kinds[1]] == "0.110"
    assert cells[-2] == "0.170"


def test_several_seeds_are_a_mean_and_a_standard_deviation():
    table = load_table("smoothmix-supplement/table-5")
    row = table.rows[0]
    entry = {
        "row": row.label,
        "recipe": row.recipe,
        "certified_accuracy": {},
        "published": {"reproduced": True},
    }
    found = [{**entry, "seed": seed, "acr": acr} for seed, acr in enumerate((0.91, 0.912))]
    lines = comparison_table(table, found).splitlines()
    assert lines[4] == "| 0.25 | Gaussian | published | 0.9108 ± 0.0003 |  |"
    assert lines[5] == "|  |  | ours, 2 seeds | 0.9110 ± 0.0014 | yes yes |"
    assert lines[6] == "|  |  | difference | +0.0002 |  |"


def test_differences_stand_below_rows_that_were_measured_alike():
    table = load_table("smoothmix-supplement/table-8")
    row = table.rows[0]
    shares = {
        f"{radius:g}": (theirs + 0.5) / 100
        for radius, theirs in zip(table.radii, row.accuracy, strict=True)
    }
    entry = {
        "row": row.label,
        "recipe": row.recipe,
        "seed": 0,
        "acr": row.acr - 0.002,
        "certified_accuracy": shares,
    }
    for reproduced, told in ((True, True), (False, True), (None, False)):
        lines = comparison_table(
            table, [{**entry, "published": {"reproduced": reproduced}}]
        ).splitlines()
        cells = ["-0.0020", *["+0.5"] * len(table.radii)]
        assert (f"|  |  | difference | {' | '.join(cells)} |  |" == lines[6]) == told
        assert any("difference" in line for line in lines) == told


def test_means_over_seeds_are_those_of_exact_values(tmp_path):
    """A classifier that always answers 0 is right on one of three images, then on none: 33.33.. % and 0 %."""
    table = load_table("smoothmix-supplement/table-8")
    jobs = plan_table(table, tmp_path, ["Gaussian"], [0, 1], dataset="mnist-mini")
    always = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    torch.nn.init.zeros_(always[1].weight)
    always[1].bias.data = torch.tensor([1.0, 0.0, 0.0])
    for planned, labels in zip(jobs, ([0, 1, 2], [1, 1, 2]), strict=True):
        planned.job.folder.mkdir(parents=True)
        (planned.job.folder / "model.json").write_text(
            "{}"
        )  # which says that its training is finished
        data = Dataset("three", "test", np.zeros((3, 1, 2, 2), dtype=np.uint8), np.array(labels), 3)
        certify_with(always, data, planned.job.store, sigma=1.0, n=100, seed=0, quiet=True)
    results = table_outcomes(table, jobs, [], [], comparable=False)
    assert [entry["certified_accuracy"]["0"] for entry in results] == [1 / 3, 0]
    radius = round(norm.ppf(0.001 ** (1 / 100)), 3)  # all of n = 100 votes, at alpha = 0.001
    assert [entry["acr"] for entry in results] == pytest.approx([radius / 3, 0], abs=1e-12)
    (line,) = (
        line for line in comparison_table(table, results).splitlines() if "ours, 2 seeds" in line
    )
    assert line.split(" | ")[3:5] == [f"{radius / 6:.4f} ± {radius / 18**0.5:.4f}", "16.67 ± 23.57"]


def test_the_changes_of_a_row_are_options_of_train(tmp_path):
    seen = set()
    for number in (8, 12):
        for planned in plan_table(load_table(f"catrs-supplement/table-{number}"), tmp_path):
            row, words = planned.row, planned.job.train
            if not row.change or frozenset(row.change) in seen:
                continue
            seen.add(frozenset(row.change))
            given = dict(frame.parsed(words).keywords["settings"])
            given.pop("soft_labels", None)
            given.pop("seed")
            assert load_recipe(row.recipe, given) == load_recipe(row.recipe, row.change)
    assert len(seen) >= 4


def test_soft_labels_are_shared_where_they_are_the_same(tmp_path):
    shared = {
        planned.row.label: planned.job.soft_labels
        for planned in plan_table(load_table("catrs-supplement/table-8"), tmp_path)
    }
    assert shared["L_base (Gaussian)"] is shared["(a) L_low only"] is None
    assert (
        shared["CAT-RS"]
        == shared["(b) L_high only"]
        == tmp_path / "cifar10" / "soft-labels,model=resnet20"
    )


def test_unknown_rows_and_tables_are_refused_before_anything_is_written(capsys, tmp_path):
    with pytest.raises(ConfigError, match="did you mean eta = 1 or eta = 16"):
        plan_table(load_table("smoothmix-supplement/table-8"), tmp_path, ["eta = 17"])
    with pytest.raises(
        ConfigError, match="did you mean 'MSE, lambda = 5' or 'MSE, lambda = 50'"
    ):  # not three names
        plan_table(load_table("consistency-supplement/table-4"), tmp_path, ["MSE, lambda = 55"])
    for words, said in (
        (["smoothmix-supplement/table-99"], "unknown published table"),
        (["mnist", "--data", "mnist-mini"], "--data is for the rows of a table"),
        (
            ["catrs-supplement/table-24", "--data", "mnist-mini"],
            "is about mnist-c: it cannot be made on other data",
        ),
        (
            ["smoothmix-supplement/table-8", "--data", "mnistmini"],
            "unknown dataset 'mnistmini': did you mean",
        ),
        (
            ["smoothadv/table-6", "--data", "folder:nowhere"],
            "error: nowhere: no such file or folder",
        ),
        (
            ["smoothadv/table-1", "--data", "mnistmini"],
            "unknown dataset 'mnistmini': did you mean",
        ),
        (
            ["smoothadv/table-6", "--data", "mnist-mini"],
            "augment 'imagenet' does not suit mnist-mini",
        ),
    ):
        with pytest.raises(SystemExit):
            main(["reproduce", *words, "--out", str(tmp_path / "new")])
        assert capsys.readouterr().err.count(said) == 1
    assert not (tmp_path / "new").exists()


def test_the_command_makes_a_row_of_a_table_beside_those_that_are_there(capsys, tmp_path, tiny):
    arguments = [
        "reproduce",
        "consistency-supplement/table-6",
        "--rows",
        "lambda = 0",
        "--data",
        tiny,
    ]
    arguments += [
        "--epochs",
        "1",
        *SMALL,
        "--seeds",
        "0,0",
        "--out",
        str(tmp_path),
    ]  # a seed twice is one seed
    folder = tmp_path / "consistency-supplement" / "table-6"
    earlier = written_earlier(
        folder, "lambda = 1", {"epochs": 1, "dataset": tiny, "every": None, "max": 4, "n": 100}
    )
    with pytest.raises(SystemExit):  # before anything is trained
        main([*arguments, "--epochs", "2"])
    assert "made with other options: epochs 1 there, 2 here" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["consistency-supplement"]
    main(arguments)
    printed = capsys.readouterr().out
    assert "| 1 | lambda = 1 | published | 1.714 | 96.0 |" in printed
    entry, kept = json.loads((folder / "results.json").read_text())
    assert kept == earlier
    assert (entry["row"], entry["inputs"], entry["published"]["acr"]) == ("lambda = 0", 4, 1.619)
    assert printed.startswith(f"{tmp_path / 'mnist' / 'gaussian-1.00'}")
    assert "seed0: train done\n" in printed
    (log,) = (
        line.partition(": train begins, its progress is in ")[2]
        for line in printed.splitlines()[:1]
    )
    assert Path(log).read_text().startswith("$ smoothcert train ")
    written = (folder / "results.md").read_text()
    assert written in printed
    assert [line.split(" | ")[2:4] for line in written.splitlines()[4:8]] == [
        ["published", "1.619"],
        ["ours", f"{entry['acr']:.3f}"],
        ["published", "1.714"],
        ["ours", "1.234"],
    ]
    assert "not comparable" in written
    assert (
        "\nOurs were certified with --max 4 --n 100; published: n = 100,000, on as many images"
        in written
    )
    assert entry["commands"][0].startswith("smoothcert train mnist/gaussian-1.00 --seed 0")


def written_earlier(folder, label, options):
    """The outcome of another row of the same table, as an earlier command would have left it."""
    table = load_table("consistency-supplement/table-6")
    (row,) = (row for row in table.rows if row.label == label)
    shares = {f"{radius:g}": 0.5 for radius in table.radii}
    entry = {"table": table.name, "row": label, "recipe": row.recipe, "seed": 0, "acr": 1.234}
    entry |= {"certified_accuracy": shares, "published": {"reproduced": None}, "options": options}
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps([entry]))
    return entry
