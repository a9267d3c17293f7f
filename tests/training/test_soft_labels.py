"""Soft labels: right in the closed form, resumable, shared, and never those of something else."""

import dataclasses
import hashlib
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch import nn

from smoothcert.data import Batches, Dataset, ImageFolder
from smoothcert.data.augment import crop_flip
from smoothcert.errors import ConfigError, StoreError
from smoothcert.keys import derive
from smoothcert.recipes import load_recipe
from smoothcert.runs.folder import RunFolder
from smoothcert.training import soft_labels
from smoothcert.training.ranks import Ranks
from tests.processes import kill_at, run_ranks
from tests.training import tiny as shared
from tests.training.tiny import SOFT, tiny, train_as_rank_that_saves_slowly, train_reporting_writes

ALONE = Ranks(torch.device("cpu"))
PART = 40


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(soft_labels, "PART", PART)


def train(out, config=SOFT, **options):
    return shared.train(out, config, test=None, **options)


ALONE = Ranks(torch.device("cpu"))


class Brightness(nn.Module):
    """Class 1 where the mean pixel is above 0.4: under noise with probability Phi((mean - 0.4) sqrt(d) / sigma)."""

    def forward(self, x):
        brighter = x.flatten(1).mean(1) - 0.4
        return torch.stack([-brighter, brighter], dim=1)


def grey(size=6):
    """Images of the grey levels around 0.4 that a brightness of sqrt(64) pixels tells apart with all probabilities."""
    images = (
        np.full((size, 1, 8, 8), 102, np.uint8)
        + np.arange(size, dtype=np.uint8)[:, None, None, None] * 3
    )
    return Dataset("grey", "train", images - 7, np.zeros(size, np.int64), 2)


def grey_plan(folder, n=4000, **changes):
    return soft_labels.Plan(folder, dataclasses.replace(SOFT, sigma=0.25, **changes), n)


def test_votes_are_the_probabilities_of_the_closed_form(tmp_path):
    data, wanted = grey(), grey_plan(tmp_path)
    counts = soft_labels.vote(wanted, Brightness(), data, ALONE, quiet=True)
    assert (counts.sum(axis=1) == 4000).all()
    expected = ndtr((data.images[:, 0, 0, 0] / 255 - 0.4) * 8 / 0.25)
    assert expected.min() < 0.3
    assert expected.max() > 0.6
    assert counts[:, 1] / 4000 == pytest.approx(expected, abs=4 * 0.5 / 4000**0.5)
    batch = next(Batches(data, 6, seed=0, soft_labels=counts).epoch(0))
    assert batch.soft_labels is not None
    assert torch.allclose(
        batch.soft_labels[:, 1].double(), torch.from_numpy(counts[batch.index, 1] / 4000)
    )
    parts = batch.split(2)
    assert torch.equal(torch.cat([part.soft_labels for part in parts]), batch.soft_labels)


def test_groups_ranks_and_interruptions_do_not_change_the_votes(tmp_path, monkeypatch):
    data, whole = grey(), grey_plan(tmp_path / "whole", n=70)
    expected = np.array(soft_labels.vote(whole, Brightness(), data, ALONE, quiet=True))
    monkeypatch.setattr(soft_labels, "PART", 1)
    wanted = grey_plan(tmp_path / "parts", n=70)
    real, calls = soft_labels.SmoothedClassifier.count_many, []

    def count_many(self, images, requests):
        calls.extend(request.index for request in requests)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(self, images, requests)

    monkeypatch.setattr(soft_labels.SmoothedClassifier, "count_many", count_many)
    with pytest.raises(KeyboardInterrupt):
        soft_labels.vote(wanted, Brightness(), data, ALONE, quiet=True)
    (parts,) = wanted.folder.glob("parts-*")
    (parts / "00000001.npy").unlink()  # now as if a second rank had stopped after its first group
    assert np.array_equal(soft_labels.vote(wanted, Brightness(), data, ALONE, quiet=True), expected)
    assert calls[5:] == [1, 4, 5]  # images 0, 2 and 3 were kept
    assert not list(wanted.folder.glob("parts-*"))
    second = Ranks(torch.device("cpu"), rank=1, world_size=2)
    soft_labels._make_parts(tmp_path / "share", wanted, Brightness(), data, second, True)
    assert [path.name for path in sorted((tmp_path / "share").iterdir())] == [
        f"{i:08d}.npy" for i in (1, 3, 5)
    ]


def test_finished_labels_on_other_noise_are_read_and_parts_are_not_mixed(tmp_path, monkeypatch):
    """Labels of an older version, whose noise is gone, serve on; what it had not finished is made anew."""
    wanted = grey_plan(tmp_path, n=70)
    made = np.array(soft_labels.vote(wanted, Brightness(), grey(), ALONE, quiet=True))
    record = json.loads((tmp_path / "labels.json").read_text())
    assert record["identity"].pop("noise_stream") == "philox4x32-words-2"
    (tmp_path / "labels.json").write_text(json.dumps(record))  # as they were written then
    monkeypatch.setattr(soft_labels, "_make_parts", None)
    assert np.array_equal(soft_labels.vote(wanted, Brightness(), grey(), ALONE, quiet=True), made)
    monkeypatch.undo()
    key = hashlib.sha256(json.dumps(record["identity"], sort_keys=True).encode()).hexdigest()[:16]
    (tmp_path / "labels.json").unlink()
    older = tmp_path / f"parts-{key}"
    older.mkdir()
    np.save(older / "00000000.npy", np.zeros_like(made))
    assert np.array_equal(soft_labels.vote(wanted, Brightness(), grey(), ALONE, quiet=True), made)


def test_soft_labels_of_something_else_are_refused(tmp_path):
    wanted = grey_plan(tmp_path, n=30)
    soft_labels.vote(wanted, Brightness(), grey(), ALONE, quiet=True)
    other = grey(), Brightness()
    other[0].images[0, 0, 0, 0] += 1
    other[1].register_buffer("scale", torch.ones(1))
    for plan, model, data, key in (
        (grey_plan(tmp_path, n=31), Brightness(), grey(), "n: 30 there, 31 asked"),
        (wanted, Brightness(), other[0], "data: "),
        (wanted, other[1], grey(), "model: "),
        (grey_plan(tmp_path, n=30, seed=1), Brightness(), grey(), "seed: 0 there, 1 asked"),
    ):
        with pytest.raises(StoreError, match=f"other soft labels than this run needs .*{key}"):
            soft_labels.vote(plan, model, data, ALONE, quiet=True)


def test_damaged_files_are_refused(tmp_path):
    wanted = grey_plan(tmp_path, n=30)
    soft_labels.vote(wanted, Brightness(), grey(), ALONE, quiet=True)
    path = tmp_path / "counts.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StoreError, match=r"counts.npy is not the file that labels.json describes"):
        soft_labels.vote(wanted, Brightness(), grey(), ALONE, quiet=True)
    (tmp_path / "labels.json").write_text("{")
    with pytest.raises(StoreError, match=r"labels.json is damaged"):
        soft_labels.vote(wanted, Brightness(), grey(), ALONE, quiet=True)


def test_augmented_images_are_voted_on_in_one_keyed_view(tmp_path):
    data = tiny(size=30)
    config = dataclasses.replace(SOFT, augment="crop-flip")
    cpu = torch.device("cpu")
    views = torch.stack(list(soft_labels._views(config, data, range(30), cpu)))
    for i, image in enumerate(torch.from_numpy(data.images)):
        (alone,) = soft_labels._views(config, data, range(i, i + 1), cpu)
        assert torch.equal(views[i], alone)  # whatever is voted on beside it
        draw = torch.Generator().manual_seed(derive(config.seed, "soft-labels", "augment", i))
        assert torch.equal(alone, crop_flip(image[None], draw)[0])
    assert not torch.equal(views, torch.from_numpy(data.images))


def test_as_printed_the_image_itself_is_voted_on(tmp_path):
    """Equation 10; and labels of another view are refused, though nothing else differs."""
    data, code = grey(), grey_plan(tmp_path, n=40, augment="crop-flip")
    printed = dataclasses.replace(code.model, as_printed=True)
    views = soft_labels._views(printed, data, range(6), torch.device("cpu"))
    assert torch.equal(torch.stack(list(views)), torch.from_numpy(data.images))
    soft_labels.vote(code, Brightness(), data, ALONE, quiet=True)
    with pytest.raises(StoreError, match="augment"):
        soft_labels.read(dataclasses.replace(code, model=printed), data)


def test_images_of_a_folder_are_voted_on_and_batched(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name, brightness in (("dark", 60), ("light", 160)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(3):
            pixels = (brightness + rng.integers(-40, 40, (20, 24, 3))).astype(np.uint8)
            pillow.fromarray(pixels).save(tmp_path / "images" / name / f"{i}.png")
    folder = ImageFolder(tmp_path / "images")
    counts = soft_labels.vote(
        grey_plan(tmp_path, n=5, augment="imagenet"), Brightness(), folder, ALONE, quiet=True
    )
    assert counts.tolist() == [[5, 0]] * 3 + [[0, 5]] * 3
    for batch in Batches(folder, 4, seed=0, augment="imagenet", soft_labels=counts).epoch(0):
        assert torch.equal(batch.soft_labels.argmax(1), batch.labels)
        assert torch.equal(batch.soft_labels.sum(1), torch.ones(len(batch.labels)))


def test_soft_labels_of_another_shape_are_refused():
    with pytest.raises(
        ConfigError, match=r"expected soft labels of shape \[6, 2\] for grey, found \[5, 2\]"
    ):
        Batches(grey(), 2, seed=0, soft_labels=np.ones((5, 2)))


def test_the_plan_of_a_recipe():
    recipe = load_recipe(
        "mnist/catrs-1.00", {"seed": 4, "soft_labels": {"folder": "shared", "lr": 0.02}}
    )
    plan = soft_labels.plan(recipe.config, Path("out"))
    assert str(plan.folder) == "shared"
    assert plan.n == 10_000
    assert plan.model.method == {"name": "gaussian"}
    assert soft_labels.plan(load_recipe("mnist/catrs-1.00").config, Path("out")).folder == Path(
        "out/soft-labels"
    )
    assert (plan.model.sigma, plan.model.seed, plan.model.lr, plan.model.epochs) == (
        0.25,
        0,
        0.02,
        150,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "soft_labels.n, the votes per image, must be a whole number from 1 on, found 0"),
        ({"n": "many"}, "found 'many'"),
        ({"folder": 3}, "soft_labels.folder must be a path, found 3"),
        (
            {"epoch": 3},
            r"unknown setting of soft_labels 'epoch': did you mean epochs",
        ),
        ({"lr": -1.0}, "lr must be above 0"),
    ],
)
def test_unusable_settings_are_refused_before_anything_is_written(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        train(tmp_path / "run", dataclasses.replace(SOFT, soft_labels=settings))
    assert not (tmp_path / "run").exists()


def test_runs_share_a_folder(tmp_path):
    shared = {"n": 40, "epochs": 1, "folder": str(tmp_path / "shared")}
    first = train(tmp_path / "a", dataclasses.replace(SOFT, soft_labels=shared))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").rglob("*.*")}
    assert first.finished
    assert not (first.path / "soft-labels").exists()
    train(tmp_path / "b", dataclasses.replace(SOFT, soft_labels=shared, sigma=0.25, seed=3))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").rglob("*.*")} == before
    with pytest.raises(StoreError, match="epochs: 1 there, 2 asked"):
        train(tmp_path / "c", dataclasses.replace(SOFT, soft_labels={**shared, "epochs": 2}))
    with ThreadPoolExecutor() as pool:  # another run of the same labels waits for them
        with soft_labels.plan(dataclasses.replace(SOFT, soft_labels=shared), tmp_path).lock():
            waiting = pool.submit(
                train, tmp_path / "d", dataclasses.replace(SOFT, soft_labels=shared)
            )
            time.sleep(1)
            assert not (tmp_path / "d" / "metrics.jsonl").exists()
        assert waiting.result().finished


def test_finished_labels_need_the_weights_of_their_model_no_more(tmp_path):
    config = dataclasses.replace(
        SOFT, soft_labels={"n": 40, "epochs": 1, "folder": str(tmp_path / "shared")}
    )
    first = train(tmp_path / "a", config)
    for name in ("weights.safetensors", "state.pt"):
        (tmp_path / "shared" / "model" / name).unlink()
    again = train(tmp_path / "b", config)
    assert (first.path / "metrics.jsonl").read_bytes() == (
        again.path / "metrics.jsonl"
    ).read_bytes()
    assert not (tmp_path / "shared" / "model" / "weights.safetensors").exists()
    longer = {"n": 40, "epochs": 2, "folder": str(tmp_path / "shared")}
    with pytest.raises(StoreError, match="epochs: 1 there, 2 asked"):
        train(tmp_path / "c", dataclasses.replace(config, soft_labels=longer))
    shutil.rmtree(tmp_path / "shared" / "model")  # nobody can tell what voted: it is trained again
    train(tmp_path / "d", config)
    assert (tmp_path / "shared" / "model" / "weights.safetensors").exists()


@pytest.mark.usefixtures("one_thread")
def test_killed_at_any_moment_and_resumed_a_run_with_soft_labels_ends_the_same(tmp_path):
    """kill -9 after some write: in the Gaussian model's training, between groups of votes, in the run itself."""
    whole, out = train(tmp_path / "whole"), tmp_path / "killed"
    kill_at([(4, 0.0), (7, 0.001), (2, 0.0), (6, 0.002)], train_reporting_writes, out, SOFT, PART)
    assert not RunFolder(out).finished
    again = train(out)
    for name in (
        "weights.safetensors",
        "metrics.jsonl",
        "soft-labels/counts.npy",
        "soft-labels/labels.json",
    ):
        assert (again.path / name).read_bytes() == (whole.path / name).read_bytes(), name
    assert json.loads((again.path / "soft-labels/labels.json").read_text())["identity"]["n"] == 40


def test_a_second_process_waits_until_the_model_that_votes_is_saved(tmp_path):
    run_ranks(train_as_rank_that_saves_slowly, tmp_path / "run", SOFT)
    assert (np.load(tmp_path / "run" / "soft-labels" / "counts.npy").sum(axis=1) == 40).all()


def test_a_run_whose_labels_are_refused_can_be_given_again(tmp_path):
    right = {"n": 40, "epochs": 1, "folder": str(tmp_path / "labels")}
    train(tmp_path / "first", dataclasses.replace(SOFT, soft_labels=right))
    for wrong in ({"n": 41}, {"epochs": 2}):
        with pytest.raises(StoreError, match=f"{next(iter(wrong))}: "):
            train(tmp_path / "second", dataclasses.replace(SOFT, soft_labels={**right, **wrong}))
        assert not (tmp_path / "second").exists()
    assert train(tmp_path / "second", dataclasses.replace(SOFT, soft_labels=right)).finished


def test_where_the_labels_lie_does_not_decide_the_run(tmp_path):
    """A run that made its labels beside itself goes on, and is known when finished, with the same labels elsewhere."""
    own = {"n": 40, "epochs": 1}
    run = train(tmp_path / "run", dataclasses.replace(SOFT, soft_labels=own))
    before = {path: path.read_bytes() for path in run.path.glob("*.*")}
    elsewhere = shutil.copytree(run.path / "soft-labels", tmp_path / "labels")
    there = dataclasses.replace(SOFT, soft_labels={**own, "folder": str(elsewhere)})
    assert train(run.path, there).finished
    assert {path: path.read_bytes() for path in run.path.glob("*.*")} == before
    with pytest.raises(
        StoreError, match=r"soft_labels: .*'n': 40.* there, .*'n': 41.* asked|n: 40 there, 41 asked"
    ):
        train(run.path, dataclasses.replace(SOFT, soft_labels={**own, "n": 41}))
