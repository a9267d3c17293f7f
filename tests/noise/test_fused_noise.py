"""The kernel that makes noisy batches: by Triton's interpreter where there is no GPU, compiled where there is one."""

import numpy as np
import pytest
import torch

from smoothcert.errors import ConfigError
from smoothcert.keys import derive
from smoothcert.noise import exact as exact_noise
from smoothcert.noise.philox import philox4x32
from smoothcert.noise.streams import NoisyCopies

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from smoothcert.noise import fused as fast_noise  # noqa: E402
from smoothcert.noise.fused import FusedNoise  # noqa: E402
from smoothcert.noise.fused_kernels import count_thresholds  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def images(count, shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator).to(DEVICE)


def filled(noise, pictures, requests, rows, out=None, dtype=torch.float32):
    """`requests`: (index, stage); `rows`: (request, sample)."""
    words = noise.words([(index, stage, 2**32) for index, stage in requests])
    owner, sample = np.array(rows, dtype=np.uint32).T
    if out is None:
        out = torch.full((len(rows), *pictures.shape[1:]), torch.nan, dtype=dtype, device=DEVICE)
    there = [torch.from_numpy(column.copy().view(np.int32)).to(DEVICE) for column in (owner, sample)]
    noise.fill(out, pictures, words, *there)
    return out


@pytest.mark.parametrize("sigma", [0.12, 0.25, 0.5, 1.0, 3.3])
@pytest.mark.parametrize("shape", [(1, 5, 5), (3, 4, 4)])
def test_exact_noise_is_bit_identical_to_the_reference(sigma, shape):
    pictures = images(2, shape)
    rows = [(0, 3), (1, 7), (0, 4), (1, 2**32 - 1), (0, 2**31)]
    out = filled(FusedNoise(sigma, "exact", 7, DEVICE), pictures, [(5, "selection"), (2**32 - 1, "estimation")], rows)
    for (request, sample), found in zip(rows, out, strict=True):
        index, stage = [(5, "selection"), (2**32 - 1, "estimation")][request]
        reference = NoisyCopies(pictures[request].cpu(), sigma, "exact", seed=7, index=index, stage=stage)
        assert torch.equal(found.cpu(), reference.take(sample, sample + 1)[0])


@triton.jit
def _search(u, thresholds, guide, out, STEPS: tl.constexpr):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    tl.store(out + at, count_thresholds(tl.load(u + at), thresholds, guide, STEPS))


@pytest.mark.parametrize("sigma", [0.12, 0.25, 0.5, 1.0, 2.0])
def test_threshold_search_is_right_at_every_threshold_and_end(sigma):
    """u just below, at and above each of the thresholds, at powers of two and at both ends."""
    table, top = exact_noise.thresholds(sigma), 2**62 - 1
    powers = [2**k + d for k in range(62) for d in (-1, 0, 1)]
    edges = {*powers, *[top - p for p in powers], 0, top, *[c + d for c in table for d in (-1, 0, 1)]}
    u = np.array(sorted(e for e in edges if 0 <= e <= top))
    u = np.concatenate([u, np.full(-len(u) % 128, top)])
    thresholds, guide, steps = fast_noise._on_device(sigma, DEVICE)
    out = torch.zeros(len(u), dtype=torch.int32, device=DEVICE)
    _search[(len(u) // 128,)](torch.from_numpy(u).to(DEVICE), thresholds, guide, out, STEPS=steps)
    assert out.tolist() == np.searchsorted(np.array(table), u, side="right").tolist()


def test_quantised_noise_is_box_muller_on_philox_words():
    """Against float64 from the reference words; only values within rounding error of a half may differ."""
    pictures, sigma, samples = images(1, (1, 8, 6)), 0.5, range(1000, 1064)
    out = filled(FusedNoise(sigma, "quantised", 3, DEVICE), pictures, [(9, "estimation")], [(0, s) for s in samples])
    key = derive(3, "quantised noise", bits=64)
    counter = torch.meshgrid(torch.arange(12), torch.tensor(samples), indexing="xy")  # four coordinates, sample
    place = [torch.full((1, 1), word) for word in (9, 1)]
    words = [w.double().numpy() for w in philox4x32((*counter, *place), (key & 0xFFFFFFFF, key >> 32))]
    z = []
    for first, second in (words[:2], words[2:]):
        radius, angle = np.sqrt(-2 * np.log((first + 0.5) / 2**32)), 2 * np.pi * second / 2**32
        z += [radius * np.cos(angle), radius * np.sin(angle)]
    exact = 255 * sigma * np.stack(z, axis=-1).reshape(len(samples), 48)
    found = (out.cpu().double() * 255).round().numpy().reshape(len(samples), 48) - pictures.cpu().numpy().reshape(48)
    assert np.abs(found - exact).max() < 0.5 + 1e-3
    assert (found == np.floor(exact + 0.5)).mean() > 0.999


@pytest.mark.parametrize("mode", ["quantised", "exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_enters_the_network_is_a_function_of_the_integer_sum(mode, dtype):
    pictures, rows = images(1, (1, 28, 28)), [(0, s) for s in range(40)]
    noise = FusedNoise(0.5, mode, 1, DEVICE)
    levels = (filled(noise, pictures, [(0, "estimation")], rows).double() * 255).round()
    assert levels.min() >= -3 * 255
    assert levels.max() <= 4 * 255
    found = filled(noise, pictures, [(0, "estimation")], rows, dtype=dtype).flatten()
    place = (levels.flatten() + 3 * 255).long()
    answer = torch.zeros(8 * 255, dtype=dtype, device=DEVICE)
    answer[place] = found  # one value for each sum: whichever was written last, all must equal it
    assert torch.equal(answer[place], found)
    # Triton's interpreter cuts bfloat16 off where the GPU rounds
    torch.testing.assert_close(found.double(), levels.flatten() / 255, rtol=torch.finfo(dtype).eps, atol=0.0)


@pytest.mark.parametrize("mode", ["quantised", "exact"])
def test_layout_of_the_batch_changes_no_value(mode):
    pictures, rows = images(2, (3, 8, 8)), [(s % 2, s) for s in range(11)]
    noise, requests = FusedNoise(0.25, mode, 1, DEVICE), [(3, "selection"), (4, "prediction")]
    flat = filled(noise, pictures, requests, rows, dtype=torch.float16)
    last = torch.zeros(11, 3, 8, 8, dtype=torch.float16, device=DEVICE).contiguous(memory_format=torch.channels_last)
    assert torch.equal(filled(noise, pictures, requests, rows, out=last), flat)
    padded = torch.zeros(11, 10, 10, 4, dtype=torch.float16, device=DEVICE)
    assert torch.equal(filled(noise, pictures, requests, rows, out=padded[:, 1:9, 1:9, :3].permute(0, 3, 1, 2)), flat)
    border = padded.clone()
    border[:, 1:9, 1:9, :3] = 0
    assert not border.any()
    one_by_one = [filled(noise, pictures, requests, [row], dtype=torch.float16) for row in rows]
    assert torch.equal(torch.cat(one_by_one), flat)


def test_indices_and_samples_beyond_32_bits_are_refused():
    noise = FusedNoise(0.25, "quantised", 1, DEVICE)
    for index, last in ((2**32, 5), (-1, 5), (0, 2**32 + 1)):
        with pytest.raises(ConfigError, match="numbered below 2\\^32"):
            noise.words([(index, "selection", last)])
