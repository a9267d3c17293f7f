"""The loop: plain SGD, batches cut into steps, and trainings that diverge or collapse."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from smoothcert.errors import ConfigError, TrainingDiverged
from smoothcert.keys import derive
from smoothcert.models import build_model
from smoothcert.runs.folder import RunFolder
from tests.results import status_lines
from tests.training.tiny import CONFIG, HERE, tiny, train


def test_a_diverged_training_is_said_loudly_and_keeps_the_last_good_state(tmp_path):
    config = dataclasses.replace(CONFIG, method={"name": f"{HERE}.Exploding"})
    with pytest.raises(TrainingDiverged, match="became nan in epoch 2 of 3"):
        train(tmp_path / "run", config)
    run = RunFolder(tmp_path / "run")
    assert not run.finished
    assert len(run.records("metrics.jsonl")) == 1
    state = run.load_state()
    assert state is not None
    assert all(value.isfinite().all() for value in state["model"].values())


def test_a_collapsed_training_is_said_loudly(tmp_path, capsys):
    run = train(tmp_path / "run", dataclasses.replace(CONFIG, method={"name": f"{HERE}.OneAnswer"}))
    assert (
        "has collapsed: 100 % of the test images get one and the same answer"
        in capsys.readouterr().err
    )
    assert run.records("metrics.jsonl")[-1]["most_frequent_answer"] == 1.0
    assert "COLLAPSED: one answer for 100 % of the images" in status_lines(run.path)[0]


def test_a_loss_that_is_a_bare_tensor_is_refused_in_words(tmp_path):
    with pytest.raises(ConfigError, match=r"found Tensor: return Losses\(loss\)"):
        train(tmp_path / "run", dataclasses.replace(CONFIG, method={"name": f"{HERE}.BareTensor"}))


def test_a_method_of_yours_cuts_batches_into_steps(tmp_path, monkeypatch):
    steps = []
    real = torch.optim.SGD.step
    monkeypatch.setattr(torch.optim.SGD, "step", lambda self: (steps.append(1), real(self))[1])
    config = dataclasses.replace(CONFIG, epochs=1, method={"name": f"{HERE}.Halves", "weight": 0.5})
    run = train(tmp_path / "run", config)
    assert len(steps) == 2 * 10  # 150 images: nine batches of 16 and one of 6
    assert 3 <= run.records("metrics.jsonl")[0]["images"] <= 8


def test_too_few_images_for_the_method_are_named(tmp_path):
    config = dataclasses.replace(CONFIG, batch_size=1, method={"name": f"{HERE}.Halves"})
    with pytest.raises(
        ConfigError, match="cuts each batch into 2 parts, and the largest batch has 1 of 150 images"
    ):
        train(tmp_path / "run", config)
    assert not (tmp_path / "run" / "config.yaml").exists()  # the folder is free for better settings
    config = dataclasses.replace(config, batch_size=1000, epochs=1)
    with pytest.raises(ConfigError, match="into 2 parts, and the largest batch has 1 of 1 images"):
        train(tmp_path / "run", config, tiny(size=1))
    train(tmp_path / "run", config, tiny(size=2))


def test_the_optimiser_is_plain_sgd_with_weight_decay_on_everything(tmp_path):
    """One step of one batch against the update written out: w -= lr (g + wd w), no Nesterov, no exceptions."""
    data = tiny(size=16)
    config = dataclasses.replace(
        CONFIG, epochs=1, lr=0.1, weight_decay=0.5, momentum=0.9, evaluate_every=0
    )
    config = dataclasses.replace(config, method={"name": f"{HERE}.Clean"}, model=f"{HERE}.Plain")

    expected = build_model(config.model, 4, seed=derive(config.seed, "init"))
    loss = F.cross_entropy(
        expected(torch.from_numpy(data.images).float() / 255), torch.from_numpy(data.labels)
    )
    loss.backward()
    run = train(tmp_path / "run", config, data)
    found, _ = run.load_model(trust_code=True)
    for before, after in zip(expected.parameters(), found.parameters(), strict=True):
        assert torch.allclose(before - 0.1 * (before.grad + 0.5 * before), after, atol=1e-6)


@pytest.mark.parametrize("late", [False, True])
def test_the_schedule_and_its_published_late_variant(late):
    config = dataclasses.replace(CONFIG, lr=0.01, lr_step=30, epochs=90, lr_late=late)
    rates = [round(config.learning_rate(epoch), 9) for epoch in range(90)]
    counts = [rates.count(rate) for rate in (0.01, 0.001, 0.0001)]
    assert counts == ([31, 30, 29] if late else [30, 30, 30])
    assert rates == sorted(rates, reverse=True)
