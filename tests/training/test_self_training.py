"""Self-training: losses of both kinds, weighted; its settings; resumed, and with several ranks."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from smoothcert.config import SelfTraining
from smoothcert.data import Batches
from smoothcert.data.interleaved import Interleaved
from smoothcert.errors import ConfigError, DataError, StoreError, TrainingDiverged
from smoothcert.keys import derive
from smoothcert.methods import METHODS
from smoothcert.models import build_model
from smoothcert.runs.folder import RunFolder
from smoothcert.training.fit import fit
from tests.processes import kill_at, run_ranks
from tests.training.tiny import (
    CONFIG,
    HERE,
    kinds,
    outcome,
    tiny,
    train,
    train_as_rank,
    train_reporting_states,
    with_pseudo,
    write_pseudo,
)


def test_it_trains_on_both_and_says_so(tmp_path, pseudo):
    config = dataclasses.replace(
        CONFIG, self_training={"path": pseudo}, method={"name": "consistency", "lam": 1.0}
    )
    run = train(tmp_path / "run", config)
    metrics = run.records("metrics.jsonl")
    assert metrics[-1]["noisy_test_accuracy"] > 0.9
    for name in ("loss", "cross_entropy", "divergence", "entropy"):
        assert {name, f"pseudo_labelled_{name}"} <= metrics[0].keys()
    assert metrics[-1]["pseudo_labelled_loss"] < 0.8 * metrics[0]["pseudo_labelled_loss"]
    assert [entry["steps"] for entry in run.records("timing.jsonl")] == [20, 20, 20]
    assert run.config().self_training == SelfTraining(pseudo, weight=1.0)
    assert "+" in run.spec().data


@pytest.mark.parametrize("method", [name for name in METHODS if name != "catrs"])
def test_at_weight_0_every_method_trains_as_without(tmp_path, method):
    """Without momentum and decay, a step of no gradient is none; this network has no statistics of batches."""
    data = tiny(size=24)
    path = write_pseudo(
        tmp_path / "pseudo.npz", dataclasses.replace(data, images=255 - data.images)
    )
    config = dataclasses.replace(
        CONFIG,
        model=f"{HERE}.Plain",
        method={"name": method},
        epochs=2,
        momentum=0.0,
        weight_decay=0.0,
        evaluate_every=0,
    )
    alone, none, some = (
        train(tmp_path / name, dataclasses.replace(config, self_training=s), data)
        for name, s in (
            ("a", {}),
            ("0", {"path": path, "weight": 0}),
            ("1", {"path": path, "weight": 0.1}),
        )
    )
    weights = [run.load_model(trust_code=True)[0].state_dict() for run in (alone, none, some)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert not all(torch.equal(value, weights[2][name]) for name, value in weights[0].items())
    for one, two in zip(*(run.records("metrics.jsonl") for run in (alone, none)), strict=True):
        assert one.items() <= two.items()  # and is logged as without


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 2.5])
def test_two_steps_are_the_update_resolved(tmp_path, weight):
    """w -= lr (weight g + wd w) for the one pseudo-labelled batch, w -= lr (g + wd w) for the labelled one."""
    labelled, other = tiny(size=16), tiny(size=16, seed=5)
    config = with_pseudo(
        write_pseudo(tmp_path / "pseudo.npz", other), weight, epochs=1, lr=0.5, momentum=0.0
    )
    config = dataclasses.replace(
        config,
        method={"name": f"{HERE}.Clean"},
        model=f"{HERE}.Plain",
        weight_decay=0.1,
        evaluate_every=0,
    )
    run = fit(config, tmp_path / "run", train=labelled, device="cpu", quiet=True)
    found = list(run.load_model(trust_code=True)[0].parameters())

    def by_hand(steps):
        network = build_model(config.model, 4, seed=derive(config.seed, "init"))
        parameters, losses = list(network.parameters()), []
        for data, factor in steps:
            logits = network(torch.from_numpy(data.images).float() / 255)
            loss = F.cross_entropy(logits, torch.from_numpy(data.labels))
            gradients = torch.autograd.grad(loss, parameters)
            losses.append(loss.item())
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter -= 0.5 * (factor * gradient + 0.1 * parameter)
        return parameters, losses

    steps = [(labelled, 1.0), (other, weight)]
    if kinds(Interleaved(Batches(labelled, 16, seed=config.seed), other), 0)[0]:
        steps.reverse()
    expected, losses = by_hand(steps)
    for one, two in zip(found, expected, strict=True):
        assert torch.allclose(one, two, atol=1e-6)
    [metrics] = run.records("metrics.jsonl")  # losses without the weight
    names = {id(labelled): "loss", id(other): "pseudo_labelled_loss"}
    logged = {names[id(data)]: loss for (data, _), loss in zip(steps, losses, strict=True)}
    assert {name: metrics[name] for name in logged} == pytest.approx(logged, rel=1e-5)


@pytest.mark.usefixtures("one_thread")
def test_killed_in_the_middle_of_epochs_and_resumed_the_run_ends_the_same(tmp_path, pseudo):
    """kill -9 after checkpoints that are written after every step here, of both kinds; BatchNorm and dropout too."""
    out, config = tmp_path / "killed", with_pseudo(pseudo, augment="crop-flip")
    kill_at([(3, 0.0), (14, 0.0), (9, 0.0)], train_reporting_states, out, config)
    assert not RunFolder(out).finished
    assert outcome(train(out, config)) == outcome(train(tmp_path / "whole", config))


def test_two_processes_train_like_one(tmp_path, pseudo):
    """Two CPU ranks and no noise: the averaged gradient is the gradient of the whole batch, of whichever kind."""
    config = with_pseudo(pseudo, method={"name": f"{HERE}.Clean"}, model=f"{HERE}.Plain", epochs=2)
    alone = train(tmp_path / "alone", config)
    run_ranks(train_as_rank, tmp_path / "two", config)
    two = RunFolder(tmp_path / "two")
    for (name, one), other in zip(
        alone.load_model(trust_code=True)[0].state_dict().items(),
        two.load_model(trust_code=True)[0].state_dict().values(),
        strict=True,
    ):
        assert torch.allclose(one, other, atol=1e-5), name
    for one, other in zip(
        alone.records("metrics.jsonl"), two.records("metrics.jsonl"), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-4)


def test_a_run_belongs_to_its_pseudo_labelled_data(tmp_path, pseudo):
    """Finished or not: another file under the same name is refused, not trained on."""
    done, stopped = tmp_path / "done", tmp_path / "stopped"
    exploding = with_pseudo(pseudo, method={"name": f"{HERE}.Exploding"})
    before = outcome(train(done, with_pseudo(pseudo)))
    with pytest.raises(TrainingDiverged):
        train(stopped, exploding)
    write_pseudo(pseudo, tiny(size=200, seed=6))
    with pytest.raises(StoreError, match="was trained on other data"):
        train(done, with_pseudo(pseudo))
    with pytest.raises(StoreError, match="was trained on other data"):
        train(stopped, exploding)
    write_pseudo(pseudo, tiny(size=200, seed=5))
    assert outcome(train(done, with_pseudo(pseudo))) == before
    with pytest.raises(
        StoreError, match=r"self_training: .*'weight': 0.5.* there, .*'weight': 0.1.* asked"
    ):
        train(done, with_pseudo(pseudo, 0.1))


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"weight": 0.5}, {}, "missing setting of self_training: path"),
        (
            {"path": "pseudo.npz", "wieght": 1.0},
            {},
            "unknown setting of self_training 'wieght': did you mean weight",
        ),
        (
            {"path": "pseudo.npz", "weight": -1.0},
            {},
            "self_training.weight must be a number from 0 on, found -1.0",
        ),
        (
            {"path": "pseudo.npz", "weight": float("nan")},
            {},
            "weight must be a finite number, found nan",
        ),
        (
            {"path": "pseudo.npz", "weight": "much"},
            {},
            "setting of self_training: weight must be a finite number",
        ),
        (
            {"path": "nothing.npz"},
            {},
            "nothing.npz: expected a readable file of pseudo-labelled images",
        ),
        (
            {"path": "pseudo.npz"},
            {"batch_size": 300},
            "at least a whole batch of 300 pseudo-labelled images, found 200",
        ),
        (
            {"path": "pseudo.npz"},
            {"method": {"name": "catrs"}},
            "no soft labels, which the method catrs needs",
        ),
    ],
)
@pytest.mark.usefixtures("pseudo")
def test_unusable_settings_are_refused_before_the_folder_is_claimed(
    tmp_path, monkeypatch, settings, changes, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, DataError), match=message):
        train(tmp_path / "run", dataclasses.replace(CONFIG, self_training=settings, **changes))
    assert not (tmp_path / "run").exists()


def test_a_pseudo_labelled_loss_that_is_no_number_is_said_loudly(tmp_path):
    path = write_pseudo(tmp_path / "pseudo.npz", tiny(size=16, seed=5))
    seed = next(
        s
        for s in range(20)
        if kinds(Interleaved(Batches(tiny(size=16), 16, seed=s), tiny(size=16)), 0)[1]
    )
    config = with_pseudo(path, method={"name": f"{HERE}.LastBad"}, seed=seed, evaluate_every=0)
    with pytest.raises(TrainingDiverged, match="became nan in epoch 1"):
        train(tmp_path / "run", config, tiny(size=16))
    with pytest.raises(ConfigError, match="cannot be called pseudo_labelled_loss"):
        train(
            tmp_path / "other",
            dataclasses.replace(CONFIG, method={"name": f"{HERE}.Reserved"}),
        )


@pytest.mark.cuda
def test_a_cuda_run_on_both_kinds_learns(tmp_path, pseudo):
    config = with_pseudo(pseudo)
    run = fit(
        config, tmp_path / "run", train=tiny(), test=tiny("test", 64, 1), device="cuda", quiet=True
    )
    assert run.records("metrics.jsonl")[-1]["noisy_test_accuracy"] > 0.9
