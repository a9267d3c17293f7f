"""Exact noise: its law by enumeration of the table, its integers by test vectors, its independence of the device."""

import mpmath
import numpy as np
import pytest
import torch

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.data import load_dataset
from smoothcert.errors import ConfigError
from smoothcert.keys import derive
from smoothcert.models import build_model
from smoothcert.noise import exact as exact_noise
from smoothcert.noise.exact import BITS, ExactNoise, distance, largest, thresholds
from smoothcert.noise.streams import NoisyCopies, total_variation
from smoothcert.runs.selection import Selection
from tests.certification.closed_form import Linear
from tests.noise.literal import plain
from tests.results import certify_with

VECTORS = (
    [[-5, -105, -241, -187, -181, 71, 120, 18], [-126, -195, -111, -82, -11, 52, 74, 180]],
    [[-28, -86, -23], [4, -9, 16]],
)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def noise(sigma=0.5, values=7, seed=0, index=0, stage=1, device="cpu"):
    return ExactNoise(sigma, values, torch.device(device), seed=seed, index=index, stage=stage)


@pytest.mark.parametrize("sigma", [0.01, 0.12, 0.25, 1.0])
def test_every_threshold_is_the_rounded_distribution_function(sigma):
    """All of them, against mpmath: and the law of T they make is within (2M + 1) 2^-62 of the true one."""
    m, found = largest(sigma), thresholds(sigma)
    assert len(found) == 2 * m
    assert list(found) == sorted(found)
    with mpmath.workdps(80):
        scale = 255 * mpmath.mpf(sigma)
        exact = [mpmath.mpf(2) ** BITS * mpmath.ncdf((t + mpmath.mpf(0.5)) / scale) for t in range(-m, m)]
        assert max(abs(c - e) for c, e in zip(found, exact, strict=True)) <= mpmath.mpf(0.5) + mpmath.mpf(10) ** -30
        # P(T = t) by enumeration of the integers u: thresholds_t - thresholds_(t-1) of them give t
        cells = np.diff([0, *found, 2**BITS])
        true = np.diff([0, *exact, mpmath.mpf(2) ** BITS])
        variation = sum(abs(int(a) - b) for a, b in zip(cells, true, strict=True)) / 2 / mpmath.mpf(2) ** BITS
        assert variation <= distance(sigma, 1)


def test_tau_is_what_the_docs_say_and_reaches_the_bound():
    assert distance(0.25, 784) == 784 * (2 * 255 * 3 + 1) / 2**62
    assert distance(1.0, 3 * 224 * 224) < 1.2e-10
    assert total_variation("exact", 0.25, 784) == distance(0.25, 784)
    assert total_variation("quantised", 0.25, 784) == total_variation("float", 0.25, 784) == 0.0


@pytest.mark.parametrize("values", [6, 7])
def test_the_layout_is_the_documented_one(values):
    """u of every coordinate rebuilt from the words of a second Philox, and T by counting thresholds one by one."""
    stream = noise(values=values, seed=5, index=123, stage=2)
    key = derive(5, "exact noise", bits=64)
    table = np.array(thresholds(0.5))
    for sample in (0, 1, 99_999):
        words = [plain((pair, sample, 123, 2), (key % 2**32, key >> 32)) for pair in range(4)]
        expected = [(w[k] << 30) + (w[k + 1] >> 2) for w in words for k in (0, 2)][:values]
        assert stream.uniform(sample, sample + 1)[0].tolist() == expected
        assert stream.draw(sample, sample + 1)[0].tolist() == [int((table <= u).sum()) - 1020 for u in expected]


@pytest.mark.parametrize("device", DEVICES)
def test_test_vectors(device):
    """The very integers, on every device: whoever re-checks a certificate elsewhere gets these."""
    assert noise(0.5, 8, seed=0, index=0, stage=1, device=device).draw(0, 2).int().tolist() == VECTORS[0]
    assert noise(0.25, 3, seed=7, index=41, stage=0, device=device).draw(99_999, 100_001).int().tolist() == VECTORS[1]


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_the_gpu_draws_the_same_integers(shape):
    values = int(np.prod(shape))
    for stage in range(3):
        cpu, gpu = (noise(0.5, values, seed=1, index=9, stage=stage, device=d).draw(5, 300) for d in ("cpu", "cuda"))
        assert torch.equal(cpu, gpu.cpu())
    image = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    settings = {"seed": 0, "index": 3, "stage": "estimation"}
    copies = [NoisyCopies(image.to(d), 0.5, "exact", **settings).take(0, 200).cpu() for d in ("cpu", "cuda")]
    assert torch.equal(*copies)


def test_the_thresholds_decide_at_their_very_edges():
    """u = c_t - 1 still gives t, u = c_t gives t + 1."""
    stream, table = noise(0.12), thresholds(0.12)
    m = largest(0.12)
    for t in (-40, -1, 0, 25):
        edge = table[t + m]
        stream.uniform = lambda first, last, edge=edge: torch.tensor([[edge - 1, edge]])
        assert stream.draw(0, 1).tolist() == [[t, t + 1]]


def test_radii_pay_for_tau_and_nothing_else(monkeypatch):
    model = Linear()
    image = (model.image_at(0.3) * 255).round().to(torch.uint8)
    smoothed = SmoothedClassifier(model, 0.25, 2, noise="exact", batch_size=256)
    plain_slack = smoothed.certify(image, n=1000)
    monkeypatch.setattr(exact_noise, "distance", lambda sigma, values: 0.01)
    paid = smoothed.certify(image, n=1000)
    assert paid.counts.tolist() == plain_slack.counts.tolist()
    assert paid.p_lower == pytest.approx(plain_slack.p_lower - 0.01)
    assert paid.multiclass_radius < plain_slack.multiclass_radius
    assert smoothed.predict(image, n=1000) == -1  # 1000 samples, each off by 0.01: nothing is left of alpha
    monkeypatch.undo()
    assert smoothed.predict(image, n=1000) == plain_slack.predict


def test_counters_have_room():
    with pytest.raises(ConfigError, match="between 0 and 2\\^32"):
        noise(index=2**32)
    with pytest.raises(ConfigError, match="between 0 and 2\\^32"):
        noise(index=-1)
    with pytest.raises(ConfigError, match="2\\^32 samples"):
        noise().draw(2**32, 2**32 + 1)


@pytest.mark.parametrize(("mode", "tau", "norm"), [("exact", True, "l2"), ("laplace", False, "l1")])
def test_the_manifest_says_which_noise_and_how_far_it_is_from_the_true_one(tmp_path, mode, tau, norm):
    data = load_dataset("mnist-mini", "test")
    settings = {"sigma": 0.5, "n0": 20, "n": 100, "selection": Selection(max=1), "batch_size": 64, "quiet": True}
    store = certify_with(build_model("lenet", seed=0), data, tmp_path, noise=mode, **settings)
    identity = store.manifest().identity
    assert identity["noise"] == mode
    assert identity.get("tau", 0.0) == (distance(0.5, 784) if tau else 0.0)
    assert identity["norm"] == norm
    assert identity["noise_stream"] == ("philox4x32-counters-1" if mode == "exact" else "philox-blocks-1")
