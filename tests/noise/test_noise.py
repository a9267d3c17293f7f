"""Keyed noise: what it depends on, what it does not, and that the network sees the integer sum alone."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.config.choices import law_of
from smoothcert.errors import ConfigError, DataError
from smoothcert.noise.exact import ExactNoise, place_of, table_of
from smoothcert.noise.streams import NoisyCopies, pixel_levels
from smoothcert.statistics.laws import law_named

SHAPE = (1, 9, 7)
MODES = ["exact", "uniform", "laplace", "float"]
INTEGER = ["exact", "uniform", "laplace"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def copies(image=None, sigma=0.5, mode="exact", seed=0, index=0, stage="estimation", **more):
    image = torch.zeros(SHAPE, dtype=torch.uint8) if image is None else image
    return NoisyCopies(image, sigma, mode, seed=seed, index=index, stage=stage, **more)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
@given(cuts=st.lists(st.integers(0, 9000), max_size=6))
@settings(max_examples=10, deadline=None)
def test_any_cutting_into_batches_gives_the_same_copies(device, mode, cuts):
    image = torch.zeros(SHAPE, dtype=torch.uint8, device=device)
    edges = [
        0,
        *sorted(cuts),
        9000,
    ]  # several blocks: one holds 2080 copies of this shape on the CPU
    noisy = copies(image, mode=mode)
    pieces = [noisy.take(a, b) for a, b in itertools.pairwise(edges) if a < b]
    assert torch.equal(torch.cat(pieces), copies(image, mode=mode).take(0, 9000))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
def test_order_does_not_matter(device, mode):
    image = torch.zeros(SHAPE, dtype=torch.uint8, device=device)
    noisy = copies(image, mode=mode)
    late, early = noisy.take(5000, 5010), noisy.take(0, 10)
    whole = copies(image, mode=mode).take(0, 5010)
    assert torch.equal(late, whole[5000:])
    assert torch.equal(early, whole[:10])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["float", "exact"])
@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"index": 1}, {"stage": "selection"}, {"stage": "prediction"}]
)
def test_streams_of_different_purpose_are_unrelated(device, mode, other):
    image = torch.zeros(SHAPE, dtype=torch.uint8, device=device)
    a = copies(image, mode=mode).take(0, 500).flatten().cpu()
    b = copies(image, mode=mode, **other).take(0, 500).flatten().cpu()
    assert not torch.equal(a, b)
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(len(a))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
def test_one_level_of_one_pixel_gives_other_noise(device, mode):
    image = torch.zeros(SHAPE, dtype=torch.uint8, device=device)
    other = image.clone()
    other[0, 8, 6] = 1
    a, b = (copies(x, mode=mode).take(0, 500).flatten(1)[:, :-1].cpu() for x in (image, other))
    assert abs(np.corrcoef(a.flatten(), b.flatten())[0, 1]) < 5 / np.sqrt(a.numel())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", INTEGER)
def test_floats_that_stand_for_levels_have_the_noise_of_the_levels(device, mode):
    image = torch.arange(63, dtype=torch.uint8, device=device).reshape(SHAPE)
    assert torch.equal(
        copies(image, mode=mode).take(0, 9), copies(image.float() / 255, mode=mode).take(0, 9)
    )


@pytest.mark.parametrize("device", DEVICES)
def test_no_block_repeats_within_an_image(device):
    """Blocks of all stages of one image, compared by their first copy."""
    image = torch.zeros(SHAPE, dtype=torch.uint8, device=device)
    block = {"cpu": 2**17, "cuda": 2**23}[device] // image.numel()
    first = [
        tuple(
            copies(image, mode="float", stage=stage)
            .take(k * block, k * block + 1)
            .flatten()[:4]
            .tolist()
        )
        for stage in ("selection", "estimation", "prediction")
        for k in range(20)
    ]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("device", DEVICES)
def test_float_noise_is_standard_normal(device):
    image = torch.full(SHAPE, 0.25, device=device)
    z = (
        ((copies(image, sigma=0.5, mode="float").take(0, 4000) - 0.25) / 0.5)
        .flatten()
        .cpu()
        .numpy()
    )
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs((np.abs(z) > 4).sum() - len(z) * 2 * stats.norm.sf(4)) < 25


@pytest.mark.parametrize("device", DEVICES)
def test_integer_noise_has_the_law_of_rounded_normals(device):
    sigma, image = 0.02, torch.full(SHAPE, 100, dtype=torch.uint8, device=device)
    steps = (copies(image, sigma=sigma).take(0, 3000) * 255).round().flatten().cpu().numpy() - 100
    values = np.arange(-8, 9)
    edges = stats.norm.cdf(
        (np.concatenate([[-np.inf], values[:-1] + 0.5, [np.inf]])) / (255 * sigma)
    )
    seen = [(np.clip(steps, -8, 8) == v).sum() for v in values]
    assert stats.chisquare(seen, np.diff(edges) * len(steps)).pvalue > 1e-3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "mode", ["exact", "uniform"]
)  # Laplace noise is often clipped, and its sum then not seen
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sigma", [0.12, 0.5, 1.0])
def test_the_network_sees_a_function_of_the_integer_sum_alone(device, mode, dtype, sigma):
    """Every distinct integer sum maps to one number, whatever the pixel it came from: no low bit betrays the image.

    The sum itself is taken from the noise at the same place.
    """
    seen: dict[int, float] = {}
    for pixel in (0, 1, 77, 128, 254, 255):
        image = torch.full((1, 4, 4), pixel, dtype=torch.uint8, device=device)
        values = copies(image, sigma=sigma, mode=mode, dtype=dtype).take(0, 2000)
        assert values.dtype == dtype
        place, table = place_of(image, 0, "estimation"), table_of(law_named(law_of(mode)), sigma)
        noise = ExactNoise(law_named(law_of(mode)), sigma, 16, seed=0, place=place).draw(0, 2000)
        sums = (noise + pixel).clamp(table.low, table.high).int()
        for z, value in zip(sums.flatten().tolist(), values.flatten().tolist(), strict=True):
            assert seen.setdefault(z, value) == value
    assert len(seen) > 200


def test_float_mode_does_betray_the_image():
    """The regression that integer noise is for: x + (z - x) == z tells pixel 255 from pixel 0 by the low bits."""
    fires = {}
    for pixel in (0.0, 1.0):
        z = copies(torch.full((1, 8, 8), pixel), mode="float").take(0, 2000)
        fires[pixel] = ((1.0 + (z - 1.0)) == z).float().mean().item()
    assert fires[1.0] > fires[0.0] + 0.3


class LowBits(nn.Module):
    """A network that is a detector: it asks the low bits whether the noise was added to a white pixel."""

    def forward(self, x):
        fires = ((1.0 + (x - 1.0)) == x).flatten(1).float().mean(1)
        return torch.stack([fires, 1 - fires], 1)


def test_low_bits_make_false_certificates_in_float_mode_and_none_in_the_others():
    """One pixel. In float mode a certified white pixel has another class at the black one, inside the radius."""
    false = {}
    for mode in MODES:
        smoothed = SmoothedClassifier(
            LowBits(), CertifyConfig(0.5, noise=mode, n=20000), batch_size=512
        )
        white = smoothed.certify(torch.full((1, 1, 1), 255, dtype=torch.uint8))
        false[mode] = [
            level
            for level in (0, 5, 40, 100, 200, 250)
            if (255 - level) / 255 < white.radius
            and smoothed.predict(torch.full((1, 1, 1), level, dtype=torch.uint8))
            not in (-1, white.predict)
        ]
    assert false["float"]
    assert not any(false[mode] for mode in INTEGER)


@pytest.mark.parametrize("mode", INTEGER)
def test_low_bits_tell_nothing_beyond_the_sum(mode):
    """Where white and black pixels lead to the same sum, the detector gives the same answer: it has no power left."""
    answers = {}
    for pixel in (0, 255):
        image = torch.full((1, 1, 1), pixel, dtype=torch.uint8)
        x = copies(image, mode=mode).take(0, 20_000)
        fires = LowBits()(x)[:, 0].tolist()
        answers[pixel] = dict(
            zip((x.double().flatten() * 255).round().int().tolist(), fires, strict=True)
        )
    common = answers[0].keys() & answers[255].keys()
    assert len(common) > 150
    assert all(answers[0][z] == answers[255][z] for z in common)


def test_sums_are_clipped_only_far_out():
    image = torch.zeros(SHAPE, dtype=torch.uint8)
    for sigma in (0.05, 0.25, 0.5):
        noisy = copies(image, sigma=sigma)
        assert noisy._table.low <= -6 * sigma * 255
        assert noisy._table.high >= 255 + 6 * sigma * 255
        assert noisy.take(0, 20_000).min() < -3.5 * sigma


LEVELS = torch.arange(256, dtype=torch.float64).reshape(1, 16, 16)


@pytest.mark.parametrize(
    "image",
    [
        LEVELS.to(torch.uint8),
        LEVELS.float() / 255,
        LEVELS.float() * np.float32(1 / 255),  # as CUDA divides by a number
        (LEVELS.float() / 255).double(),
        LEVELS / 255,
        torch.tensor([0.0, 1.0], dtype=torch.float16).repeat(128).reshape(1, 16, 16),
    ],
)
def test_floats_on_the_grid_count_as_8_bit(image):
    expected = LEVELS if image.dtype != torch.float16 else image * 255
    assert torch.equal(pixel_levels(image), expected.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("off", [1e-3, 9e-4, 1e-4, 4e-5])  # of a level
@pytest.mark.parametrize("level", [0, 1, 77, 128, 254])
def test_floats_beside_the_grid_are_refused(dtype, off, level):
    """However near: the certificate would be about another image."""
    image = (LEVELS / 255).to(dtype)
    image.view(-1)[level] = (level + off) / 255
    with pytest.raises(DataError, match="quantise the image first"):
        pixel_levels(image)
    with pytest.raises(DataError, match="quantise the image first"):
        SmoothedClassifier(LowBits(), CertifyConfig(0.5, n=100)).certify(image)


def test_half_precision_cannot_hold_the_grid():
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises(DataError, match="quantise the image first"):
            pixel_levels((LEVELS / 255).to(dtype))


def test_all_modes_agree_on_the_image_they_are_about():
    image = torch.arange(63, dtype=torch.uint8).reshape(SHAPE)
    for mode in MODES:
        mean = copies(image, sigma=0.1, mode=mode).take(0, 20_000).mean(0)
        assert torch.allclose(mean, image.float() / 255, atol=0.006)


def test_unknown_modes_and_devices_are_refused():
    with pytest.raises(ConfigError, match=r"did you mean exact\?"):
        copies(mode="exakt")
    with pytest.raises(ConfigError, match="cpu and cuda"):
        copies(torch.zeros(SHAPE, device="meta"))
