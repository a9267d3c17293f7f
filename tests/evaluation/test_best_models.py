"""Tables of the best of many models: which runs they need, and how their envelope stands beside what is printed."""

import dataclasses

import numpy as np
import pytest
import torch

from smoothcert.cli import main
from smoothcert.evaluation.best_models import best_outcomes, best_table, plan_best
from smoothcert.evaluation.reproduce import Job, outcome, plan, run_jobs
from smoothcert.evaluation.tables import plan_table, row_job
from smoothcert.published.catalogue import BestRow, Table, TableRow, load_table
from smoothcert.runs.folder import RunFolder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The place of 16 images for training and 4 to certify; nearly all are of one class, which is soon learnt."""
    place, rng = tmp_path_factory.mktemp("tiny") / "tiny.npz", np.random.default_rng(0)
    images, labels = (
        rng.integers(0, 256, (16, 28, 28), dtype=np.uint8),
        np.array([3, 3, 3, 9, *[3] * 12]),
    )
    np.savez(
        place,
        train_images=images,
        train_labels=labels,
        test_images=images[:4],
        test_labels=labels[:4],
    )
    return f"npz:{place}"


def test_the_models_of_a_table_are_planned_on_as_many_images_as_it_has(tmp_path):
    contests = plan_best(load_table("smoothadv/table-17"), tmp_path)
    assert [(contest.row.label, len(contest.models)) for contest in contests] == [
        ("Cohen et al.", 4),
        ("SmoothAdv", 14),
        ("+ pre-training", 14),
        ("+ semi-supervision", 11),
        ("+ both", 13),
    ]
    assert {planned.job.every for contest in contests for _, planned in contest.models} == {1}
    (contest,) = plan_best(load_table("smoothadv/table-1"), tmp_path, ["SmoothAdv"])
    assert {planned.job.every for _, planned in contest.models} == {100}
    (contest,) = plan_best(load_table("smoothadv/table-3"), tmp_path)  # whose other rows are quoted
    assert len(contest.models) == 14


def test_runs_are_shared_with_the_grids_that_the_models_are_from(tmp_path):
    (contest,) = plan_best(load_table("smoothadv/table-2"), tmp_path, ["SmoothAdv"])
    best = {planned.job.folder for _, planned in contest.models}
    grids = {
        planned.job.folder
        for number in (8, *range(12, 16))
        for planned in plan_table(load_table(f"smoothadv/table-{number}"), tmp_path)
    }
    assert best <= grids


def test_fine_tuned_models_start_from_runs_that_are_made_before(tmp_path):
    jobs = [
        planned.job for planned in plan_table(load_table("smoothadv-logs/cifar10-both"), tmp_path)
    ]
    job = jobs[-1]
    before = tmp_path / "imagenet32" / "smoothadv-1.00,epsilon=2.0" / "seed0"
    assert job.starts_from.train == [
        *(
            "train",
            "imagenet32/smoothadv-1.00",
            "--seed",
            "0",
            "--out",
            str(before),
            "--method.epsilon",
            "2.0",
        )
    ]
    assert job.train[6:] == [
        *("--init-from", str(before), "--method.epsilon", "2.0", "--method.steps", "4"),
        *("--self-training.path", "ti_500K_pseudo_labeled.pickle", "--self-training.weight", "0.5"),
    ]
    assert len({job.starts_from.folder for job in jobs}) == 7
    assert len({job.folder for job in jobs}) == 13


def test_recipes_that_need_more_than_the_data_set_are_run_only_if_named(tmp_path):
    assert not [
        job for job in plan("cifar10", tmp_path) if job.recipe.endswith(("tuned", "trained"))
    ]
    assert len(plan("cifar10", tmp_path, ["*-selftrained"])) == 4


def test_what_cannot_be_made_is_refused_before_anything_is_written(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["table-2", "--seeds", "0", "1"], "of several seeds the luckiest would win"),
        (["table-2", "--rows", "SmotohAdv"], "did you mean SmoothAdv"),
        (
            ["table-3", "--rows", "Wong*"],
            "quotes this from elsewhere, so there is nothing to train",
        ),
        (
            ["table-2", "--rows", "+ semi*"],
            "ti_500K_pseudo_labeled.pickle, which is not in this folder",
        ),
    ):
        with pytest.raises(SystemExit):
            main(["reproduce", f"smoothadv/{words[0]}", *words[1:], "--out", str(tmp_path / "new")])
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["reproduce", "smoothadv-logs/cifar10-selftrained", "--out", str(tmp_path / "new")])
    assert "or leave such rows out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["reproduce", "catrs-supplement/figure-7", "--out", str(tmp_path / "new")])
    assert "its pictures are those of CIFAR-10-C" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_run_whose_beginning_failed_is_not_trained(monkeypatch, tmp_path):
    """What the command said of its error is quoted from its first line to its last."""
    monkeypatch.setenv("HOME", str(tmp_path))  # below which data is looked for too
    first = Job("imagenet32/smoothadv-1.00", 0, tmp_path / "first" / "seed0")
    second = Job("mnist/gaussian-0.50", 0, tmp_path / "second" / "seed0", starts_from=first)
    done, (failure,) = run_jobs([second], ["--data-dir", str(tmp_path)], [], 1)
    assert done == []
    assert failure.startswith(
        "imagenet32/smoothadv-1.00, seed 0: `train` failed (error: imagenet32: the train split"
    )
    assert f"\n  {tmp_path / 'imagenet32'}\n" in failure  # where it was looked for
    assert failure.endswith(f"; see {tmp_path / 'first' / 'seed0.log'}")
    assert not (tmp_path / "second").exists()


def test_a_small_table_is_the_envelope_of_its_models(tmp_path, tiny):
    """In this process, since each command would load PyTorch anew; who wins at a radius is found by hand."""
    models = {"of": ("smoothmix-supplement/table-11",), "rows": ("Gaussian", "m = 1")}
    rows = (
        BestRow("best", 4, **models, accuracy=(60.0, 50.0), clean=(70.0, 71.0)),
        BestRow("abstained", 4, **models, abstention=(10.0, 11.0)),
        BestRow("of a figure", 4, **models),
    )
    table = Table(name="own/best", title="Best", cited="-", best=rows, radii=(0.0, 0.25))
    contests = plan_best(table, tmp_path, dataset=tiny)
    jobs = [planned.job for _, planned in contests[0].models]
    train, certify = ["--epochs", "6", "--evaluate-every", "0"], ["--n", "100"]
    for job, rate in zip(
        jobs, ("1e-9", "0.01"), strict=True
    ):  # the first learns nothing, so that the second wins
        main([*job.train, *train, "--lr", rate])
        main([*job.certify, *certify])
    results = best_outcomes(table, contests, jobs, train, certify, comparable=False)
    found = results[0]
    assert (found["row"], found["models"], found["of"]) == ("best", 2, 2)
    assert [run["published"]["reproduced"] for run in found["runs"]] == [None, None]
    assert [cell["certified_accuracy"] for cell in found["best"]] == [0.75, 0.75]
    stores = {run["row"]: job.store for run, job in zip(found["runs"], jobs, strict=True)}
    for cell in found["best"]:
        accuracies = {
            run["row"]: run["certified_accuracy"][f"{cell['radius']:g}"] for run in found["runs"]
        }
        (winner,) = (run for run in found["runs"] if run["row"] == cell["model"])
        assert cell["certified_accuracy"] == max(accuracies.values()) == accuracies[cell["model"]]
        assert cell["clean_accuracy"] == winner["certified_accuracy"]["0"]
        answers = [
            line.split("\t")[2]
            for line in (stores[cell["model"]] / "part-0-of-1.tsv").read_text().splitlines()
        ]
        assert cell["abstention"] == answers.count("-1") / 4
    lines = best_table(table, results).splitlines()
    ours = [
        f"{100 * cell['certified_accuracy']:.1f} ({100 * cell['clean_accuracy']:.1f})"
        for cell in found["best"]
    ]
    silent = [f"{100 * cell['abstention']:.1f}" for cell in found["best"]]
    assert lines[4:6] == [
        "| best | published | 60 (70) | 50 (71) |",
        f"|  | ours, best of 2 | {' | '.join(ours)} |",
    ]
    assert lines[6:8] == [
        "| abstained | published | 10 | 11 |",
        f"|  | ours, best of 2 | {' | '.join(silent)} |",
    ]
    plain = [f"{100 * cell['certified_accuracy']:.1f}" for cell in found["best"]]
    assert lines[8:10] == [
        "| of a figure | published | - | - |",
        f"|  | ours, best of 2 | {' | '.join(plain)} |",
    ]
    assert lines[11].startswith("- best, ours: 0.00 to 0.25 by m = 1 ")
    partly = best_outcomes(table, contests, jobs[1:], train, certify, comparable=True)
    assert "| ours, best of 1 of 2 models |" in best_table(table, partly)
    assert best_outcomes(table, contests, [], train, certify, comparable=True) == []


def test_the_best_models_are_named_from_where_to_where():
    table = dataclasses.replace(load_table("smoothadv/table-2"), radii=(0.25, 0.5, 0.75, 1.0))
    best = [
        {
            "certified_accuracy": share,
            "clean_accuracy": 0.9,
            "abstention": 0.0,
            "model": model,
            "recipe": "r",
        }
        for share, model in ((0.5, "a"), (0.4, "a"), (0.3, "b"), (0.0, "a"))
    ]
    text = best_table(
        table, [{"row": "SmoothAdv", "models": 2, "of": 14, "best": best, "runs": []}]
    )
    assert "\n- SmoothAdv, ours: 0.25 to 0.50 by a (`r`), 0.75 by b (`r`)\n" in text
    nothing = [{**cell, "certified_accuracy": 0.0} for cell in best]
    text = best_table(
        table, [{"row": "SmoothAdv", "models": 2, "of": 14, "best": nothing, "runs": []}]
    )
    assert "\n- SmoothAdv, ours: no certificate\n" in text


@pytest.mark.parametrize(
    ("name", "shown"), [("table-17", "50.0 (90.0) | 0.0"), ("table-4", "20.0 | -")]
)
def test_where_nothing_is_certified_no_model_is_said_to_be_the_best(name, shown):
    table = dataclasses.replace(load_table(f"smoothadv/{name}"), radii=(0.25, 0.5))
    cell = {"clean_accuracy": 0.9, "abstention": 0.2, "model": "a", "recipe": "r"}
    best = [{**cell, "certified_accuracy": share} for share in (0.5, 0.0)]
    text = best_table(
        table, [{"row": "SmoothAdv", "models": 2, "of": 14, "best": best, "runs": []}]
    )
    assert f"|  | ours, best of 2 of 14 models | {shown} |\n" in text


def test_a_run_starts_from_the_weights_of_the_one_before(tmp_path, tiny):
    row = TableRow(
        "after", "mnist/gaussian-0.50", 4, {}, starts_from={"recipe": "mnist/gaussian-0.25"}
    )
    job = row_job(row, tmp_path, seed=0, every=1, dataset=tiny)
    main([*job.starts_from.train, "--epochs", "1", "--evaluate-every", "0"])
    main(
        [*job.train, "--epochs", "1", "--evaluate-every", "0", "--lr", "1e-9"]
    )  # which leaves them as they were
    main([*job.certify, "--n", "50"])
    commands = outcome(job)["commands"]
    assert [words.split()[1:3] for words in commands] == [
        ["train", "mnist/gaussian-0.25"],
        ["train", "mnist/gaussian-0.50"],
        ["certify", str(job.folder)],
    ]
    before, after = (
        RunFolder(folder).load_model()[0].state_dict()
        for folder in (job.starts_from.folder, job.folder)
    )
    assert all(torch.allclose(value, after[name], atol=1e-6) for name, value in before.items())
