"""Training of a denoiser: its loss, what it reports, that it resumes, and that it is never taken for a classifier."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.data.batches import Batch
from smoothcert.errors import ConfigError, ModelError
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress
from smoothcert.runs.folder import RunFolder
from tests.training.tiny import CONFIG, HERE, outcome, train

DENOISER = dataclasses.replace(
    CONFIG,
    model="dncnn",
    model_options={"depth": 3, "width": 6, "channels": 1},
    method={"name": "denoiser"},
    optimizer="adam",
    lr=0.01,
)
SIGMA = 0.3


def batch():
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.random((6, 1, 4, 4)))
    return Batch(
        images, torch.zeros(6, dtype=torch.long), torch.arange(6), torch.Generator().manual_seed(5)
    )


def test_the_losses_are_those_of_the_paper():
    """MSE and STAB written out, one image and one pixel at a time."""
    torch.manual_seed(0)
    denoiser = nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.Unflatten(1, (1, 4, 4))).double()
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
    noise = torch.randn(1, 6, 1, 4, 4, generator=torch.Generator().manual_seed(5))[0]
    images = batch().images
    cleaned = denoiser(images + SIGMA * noise).detach()
    pixels = [
        (float(a) - float(b)) ** 2 for a, b in zip(cleaned.flatten(), images.flatten(), strict=True)
    ]
    stability = []
    for image, clean in zip(images, cleaned, strict=True):
        powers = np.exp(classifier(clean[None])[0].detach().numpy())
        stability.append(-np.log(powers[int(classifier(image[None]).argmax())] / powers.sum()))
    settings = {"name": "denoiser", "mse": 2.0, "stab": 0.5}
    alone = (
        build_method(settings)
        .equipped(lambda path: None)
        .loss(denoiser, batch(), SIGMA, Progress(0, 1))
    )
    assert alone.total.item() == pytest.approx(2 * np.mean(pixels))
    both = build_method({**settings, "classifier": "runs/a"}).equipped(
        {"runs/a": classifier}.__getitem__
    )
    losses = both.loss(denoiser, batch(), SIGMA, Progress(0, 1))
    assert losses.total.item() == pytest.approx(2 * np.mean(pixels) + 0.5 * np.mean(stability))
    assert both.denoises


@pytest.mark.usefixtures("one_thread")
def test_it_learns_and_resumes_to_the_same_bits(tmp_path, monkeypatch):
    whole = train(tmp_path / "whole", DENOISER)
    last = whole.records("metrics.jsonl")[-1]
    assert last["test_mse"] < 0.5 * DENOISER.sigma**2  # of what the noise alone would be
    assert last["test_psnr"] == pytest.approx(-10 * np.log10(last["test_mse"]))
    assert "noisy_test_accuracy" not in last
    real, saved = RunFolder.save_state, []

    def save_state(self, state):
        real(self, state)
        saved.append(state)
        if len(saved) == 7:
            raise RuntimeError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "save_state", save_state)
        with pytest.raises(RuntimeError, match="stopped"):
            train(tmp_path / "again", DENOISER, checkpoint_seconds=0.0)
    assert outcome(train(tmp_path / "again", DENOISER)) == outcome(whole)


@pytest.mark.cuda
def test_a_cuda_run_learns_by_captured_steps_and_resumes(tmp_path):
    run = train(tmp_path / "run", DENOISER, device="cuda")
    assert run.records("metrics.jsonl")[-1]["test_mse"] < 0.5 * DENOISER.sigma**2
    (run.path / "model.json").unlink()  # as if killed before the end
    assert train(run.path, DENOISER, device="cuda").finished


def test_it_is_no_classifier(tmp_path):
    run = train(tmp_path / "d", dataclasses.replace(DENOISER, epochs=1, evaluate_every=0))
    assert (run.spec().classes, run.spec().class_names) == (0, ())
    with pytest.raises(ModelError, match="is a denoiser, which names no classes"):
        run.load_model()
    model, spec = run.load_model(denoiser=True)
    x = torch.rand(2, *spec.shape)
    assert model(x).shape == x.shape
    with pytest.raises(ModelError, match="expected a denoiser"):
        train(tmp_path / "c", dataclasses.replace(CONFIG, epochs=1)).load_model(denoiser=True)
    with pytest.raises(ModelError, match="is a denoiser"):
        train(
            tmp_path / "e",
            dataclasses.replace(DENOISER, method={"name": "denoiser", "classifier": str(run.path)}),
        )
    assert not (tmp_path / "e").exists()
    again = dataclasses.replace(
        DENOISER, epochs=1, lr=1e-30, weight_decay=0.0, init_from=str(run.path), seed=4
    )
    found = train(tmp_path / "f", again).load_model(denoiser=True)[0]
    assert torch.allclose(found(x)[0, 0, 0], model(x)[0, 0, 0], atol=0.2)
    for (name, value), other in zip(model.named_parameters(), found.parameters(), strict=True):
        assert torch.equal(value, other), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalisation": "mean=0.5"}, "a denoiser gives back images in"),
        ({"method": {"name": "denoiser", "mse": 0.0}}, "has no loss left"),
        ({"method": {"name": "denoiser", "stab": -1.0}}, "needs stab 0 or above"),
        (
            {"model": f"{HERE}.Nothing", "model_options": {}},
            r"to return images like .* a tensor \[2, 4\]",
        ),
        ({"model_options": {"channels": 3}}, "cannot take the data's images"),
        ({"method": {"name": "gaussian"}}, "expected the model to return logits"),
        ({"optimizer": "sdg"}, "did you mean sgd"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path, changes, message):
    with pytest.raises((ConfigError, ModelError), match=message):
        train(tmp_path / "run", dataclasses.replace(DENOISER, **changes))
    assert not (tmp_path / "run").exists()


def test_training_without_noise_says_so(tmp_path):
    assert (
        train(tmp_path / "plain", dataclasses.replace(CONFIG, sigma=0.0, epochs=1)).spec().sigma
        == 0
    )
