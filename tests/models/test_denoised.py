"""Denoisers and ensembles before smoothing: what they compute, that they draw nothing, and their true radii."""

import json
import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert import CertifyConfig, SmoothedClassifier
from smoothcert.errors import ConfigError, ModelError
from smoothcert.models import Denoised, DnCNN, Ensemble, OneShotDiffusion, build_model
from smoothcert.models.diffusion import abar, step_of
from smoothcert.models.normalise import Resize
from tests.networks import Linear

SIGMA, N = 0.5, 4000


class Blur(nn.Module):
    """A linear denoiser: each pixel becomes a mean of it and its neighbour on the right, around grey."""

    def forward(self, x):
        return 0.5 + 0.7 * (x - 0.5) + 0.3 * (x.roll(-1, -1) - 0.5)


class Affine(nn.Module):
    """Two classes by the sign of w.(x - 1/2)."""

    def __init__(self, w):
        super().__init__()
        self.register_buffer("w", w)

    def forward(self, x):
        score = ((x - 0.5) * self.w).flatten(1).sum(1)
        return torch.stack([score, -score], 1)


def check_certificate(model, normal, margin=0.6):
    """The model is the linear classifier of that normal: p_A = Phi(margin / sigma), and the radius below the margin."""
    image = 0.5 + margin * normal / normal.norm()
    smoothed = SmoothedClassifier(
        model, CertifyConfig(SIGMA, noise="float", seed=3, n0=50, n=N, alpha=0.001)
    )
    found = smoothed.certify(image)
    p = NormalDist().cdf(margin / SIGMA)
    assert found.predict == 0
    assert abs(found.counts[0] / N - p) < 4 * math.sqrt(p * (1 - p) / N)
    assert 0.85 * margin < found.radius <= margin


def test_a_linear_denoiser_before_a_linear_classifier_is_a_linear_classifier():
    classifier = Linear()
    normal = 0.7 * classifier.w + 0.3 * classifier.w.roll(1, -1)  # the denoiser's transpose
    check_certificate(Denoised(Blur(), classifier), normal)


def test_an_ensemble_of_linear_classifiers_is_one_of_the_mean_normal():
    normals = [float(size) * Linear(seed).w for seed, size in enumerate((1, 2, 3))]
    check_certificate(Ensemble(map(Affine, normals)), sum(normals) / 3)


def test_one_step_of_a_linear_diffusion_model_before_a_linear_classifier():
    """The U-Net calls half of x_t noise: what is left is a share of z, which is 0 at grey, so the normal stays."""

    class Share(nn.Module):
        def forward(self, x, t):
            return 0.5 * x

    classifier = Linear()
    check_certificate(Denoised(Wide(OneShotDiffusion(Share(), SIGMA)), classifier), classifier.w)


class Wide(nn.Module):
    """A denoiser on images of a hundredth of the contrast, which it never clamps."""

    def __init__(self, denoiser):
        super().__init__()
        self.denoiser = denoiser

    def forward(self, x):
        return 0.5 + 100 * (self.denoiser(0.5 + (x - 0.5) / 100) - 0.5)


def test_the_classifier_gets_images_of_its_size():
    seen = []

    class Sees(nn.Module):
        def forward(self, x):
            seen.append(x)
            return x.mean((2, 3))

    x = torch.rand(2, 3, 8, 8)
    Denoised(Blur(), Sees(), (16, 12))(x)
    assert torch.equal(seen[0], Resize((16, 12))(Blur()(x)))


# ---------------------------------------------------------------- diffusion


@pytest.mark.parametrize(
    ("schedule", "steps", "expected"),
    [
        ("cosine", 4000, [1158, 1984, 2809]),
        ("linear", 1000, [145, 259, 396]),
    ],  # as Carlini et al. (2023) have them
)
def test_the_step_that_belongs_to_a_sigma(schedule, steps, expected):
    kept = abar(schedule, steps)
    assert [step_of(2 * sigma, kept) for sigma in (0.25, 0.5, 1.0)] == expected
    for t, share in zip(expected, (0.8, 0.5, 0.2), strict=True):
        assert kept[t] == pytest.approx(share, abs=0.003)  # 1 / (1 + (2 sigma)^2)


def test_schedules_against_products_of_numpy():
    steps = 50
    roots = np.linspace(np.sqrt(1e-4), np.sqrt(0.02), steps)
    assert np.allclose(abar("scaled-linear", steps), np.cumprod(1 - roots**2))
    assert np.allclose(abar("linear", steps), np.cumprod(1 - np.linspace(1e-4, 0.02, steps)))
    u = np.arange(1, steps + 1) / steps
    curve = np.cos((u + 0.008) / 1.008 * np.pi / 2) ** 2 / np.cos(0.008 / 1.008 * np.pi / 2) ** 2
    assert np.allclose(abar("cosine", steps)[:-1], curve[:-1])  # the last beta is capped
    assert abar("cosine", steps)[-1] == pytest.approx(curve[-2] * 0.001)


class Oracle(nn.Module):
    """A U-Net that knows the image: it answers with the very noise in x_t, or with what follows from it."""

    def __init__(self, image, kept, answer, low, width):
        super().__init__()
        self.z, self.kept, self.answer, self.times = low + width * image, kept, answer, []

    def forward(self, x, t):
        self.times += t.tolist()
        noise = (x - math.sqrt(self.kept) * self.z) / math.sqrt(1 - self.kept)
        velocity = math.sqrt(self.kept) * noise - math.sqrt(1 - self.kept) * self.z
        found = {"noise": noise, "image": self.z, "velocity": velocity}[self.answer]
        return torch.cat(
            [found, torch.full_like(found, 7.0)], 1
        )  # and as many channels of something else


@pytest.mark.parametrize("predicts", ["noise", "image", "velocity"])
@pytest.mark.parametrize("image_range", [(-1.0, 1.0), (0.0, 1.0)])
def test_a_perfect_model_gives_the_image_back(predicts, image_range):
    low, high = image_range
    image = torch.rand(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    noisy = image + 0.25 * torch.randn(image.shape, generator=torch.Generator().manual_seed(1))
    kept = abar("cosine", 4000)
    t = step_of((high - low) * 0.25, kept)
    unet = Oracle(image, kept[t], predicts, low, high - low)
    settings = {
        "schedule": "cosine",
        "steps": 4000,
        "predicts": predicts,
        "image_range": image_range,
    }
    denoiser = OneShotDiffusion(unet, 0.25, **settings, rescale_time=True)
    before = torch.get_rng_state()
    assert torch.allclose(denoiser(noisy), image, atol=1e-5)
    assert torch.equal(torch.get_rng_state(), before)  # no noise of its own
    assert unet.times == [t / 4] * 4
    unet.times.clear()
    OneShotDiffusion(unet, 0.25, **settings)(noisy)
    assert unet.times == [t] * 4


def test_what_decides_the_answers_is_in_the_description():
    """The identity of a store has the weights and this text."""
    texts = {repr(OneShotDiffusion(nn.Identity(), sigma)) for sigma in (0.25, 0.5)}
    texts |= {repr(OneShotDiffusion(nn.Identity(), 0.5, predicts="velocity"))}
    texts |= {repr(OneShotDiffusion(nn.Identity(), 0.5, rescale_time=True, schedule="cosine"))}
    assert len(texts) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": 0.0}, "sigma > 0"),
        ({"sigma": 1000.0}, "more than it knows"),
        ({"schedule": "cosin"}, "did you mean cosine"),
        ({"predicts": "eps"}, "prediction of a diffusion model is one of .*, found 'eps'"),
        ({"steps": 1}, "2 steps or more"),
        ({"beta": (0.1, 2.0)}, "0 < beta < 1"),
        ({"image_range": (1.0, 0.0)}, "low < high"),
    ],
)
def test_settings_that_no_model_has_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        OneShotDiffusion(nn.Identity(), **{"sigma": 0.5, **settings})


# ---------------------------------------------------------------- DnCNN, and networks from their descriptions


@pytest.mark.parametrize(("width", "parameters"), [(64, 558_400), (128, 2_222_720)])
def test_dncnn_is_that_of_the_paper_and_starts_as_the_identity(width, parameters):
    network = DnCNN(width=width)
    assert sum(value.numel() for value in network.parameters()) == parameters
    x = torch.rand(1, 3, 6, 6)
    assert torch.equal(network.eval()(x), x)


def part(architecture, classes, **options):
    return {
        "architecture": architecture,
        "classes": classes,
        "normalisation": "none",
        "options": options,
    }


SMALL = part("dncnn", 0, depth=2, width=2, channels=1)


def test_a_network_is_built_again_from_the_description_of_its_parts():
    inner = part("denoised", 10, denoiser=SMALL, classifier=part("lenet", 10))
    options = json.loads(json.dumps({"members": [inner, part("lenet", 10)]}))
    model = build_model("ensemble", 10, seed=0, **options).eval()
    again = build_model("ensemble", 10, seed=1, **options).eval()
    x = torch.rand(2, 1, 28, 28)
    assert not torch.equal(model(x), again(x))
    again.load_state_dict(model.state_dict())
    assert torch.equal(model(x), again(x))
    first, second = model.get_submodule("1").members
    assert torch.allclose(model(x), (first(x) + second(x)) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("arch", "classes", "options", "message"),
    [
        (
            "ensemble",
            10,
            {"members": [part("lenet", 9)]},
            "a classifier of 10 classes .*found a classifier of 9",
        ),
        ("ensemble", 10, {"members": [SMALL]}, "found a denoiser, dncnn"),
        (
            "ensemble",
            10,
            {"members": ["lenet"]},
            "is described by architecture, classes, normalisation, options",
        ),
        (
            "denoised",
            10,
            {"denoiser": part("lenet", 10), "classifier": part("lenet", 10)},
            "expected a denoiser",
        ),
        ("diffusion", 0, {"unet": SMALL, "sigma": 0.5, "hat": 1}, "no such settings: .*hat"),
    ],
)
def test_parts_that_do_not_fit_are_refused(arch, classes, options, message):
    with pytest.raises(ModelError, match=message):
        build_model(arch, classes, **options)


def test_an_ensemble_without_members_is_refused():
    with pytest.raises(ConfigError, match="at least one member"):
        Ensemble([])
    with pytest.raises(ConfigError, match="does not take the arguments"):
        build_model("denoised", 10, classifier=part("lenet", 10))
    with pytest.raises(ConfigError, match="depth 2 or more"):
        DnCNN(depth=1)
