"""The kernel that makes noisy batches: by Triton's interpreter where there is no GPU, compiled where there is one."""

import numpy as np
import pytest
import torch

from smoothcert.errors import ConfigError
from smoothcert.noise import exact
from smoothcert.noise.exact import ExactNoise, place_of, table_of
from smoothcert.noise.streams import NoisyCopies
from smoothcert.statistics.laws import law_named
from tests.noise.literal import plain_noise, plain_uniform

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from smoothcert.noise import fused  # noqa: E402
from smoothcert.noise.fused import FusedNoise  # noqa: E402
from smoothcert.noise.fused_kernels import count_below  # noqa: E402

LAWS = ["gaussian", "uniform", "laplace"]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BLACK = place_of(torch.zeros((3, 4, 4), dtype=torch.uint8), 5, "selection")


def images(count, shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator).to(DEVICE)


def filled(noise, pictures, requests, rows, out=None, dtype=torch.float32):
    """`requests`: (index, stage); `rows`: (request, sample)."""
    places = [
        place_of(picture.cpu(), *where) for picture, where in zip(pictures, requests, strict=True)
    ]
    words = noise.words([(place, 2**32) for place in places])
    owner, sample = np.array(rows, dtype=np.uint32).T
    if out is None:
        out = torch.full((len(rows), *pictures.shape[1:]), torch.nan, dtype=dtype, device=DEVICE)
    there = [
        torch.from_numpy(column.copy().view(np.int32)).to(DEVICE) for column in (owner, sample)
    ]
    noise.fill(out, pictures, words, *there)
    return out


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sigma", [1e-6, 0.5, 3.3])
@pytest.mark.parametrize("shape", [(1, 5, 5), (3, 4, 4)])
def test_noise_is_bit_identical_to_that_of_the_cpu(law, sigma, shape):
    pictures = images(2, shape)
    rows = [(0, 3), (1, 7), (0, 4), (1, 2**32 - 1), (0, 2**31)]
    requests = [(5, "selection"), (2**32 - 1, "estimation")]
    out = filled(FusedNoise(law_named(law), sigma, 7, DEVICE), pictures, requests, rows)
    mode = "exact" if law == "gaussian" else law
    for (request, sample), found in zip(rows, out, strict=True):
        index, stage = requests[request]
        reference = NoisyCopies(
            pictures[request].cpu(), sigma, mode, seed=7, index=index, stage=stage
        )
        assert torch.equal(found.cpu(), reference.take(sample, sample + 1)[0])


def crowded(law, seed):
    """Thresholds among which every first word of the test below is one's upper word, so that second words decide."""
    place = {"seed": seed, "place": BLACK}
    u = [x for sample in range(4) for x in plain_uniform(law, 48, sample, **place)]
    rng = np.random.default_rng(0)
    return tuple(
        sorted(
            (x & ~(2**30 - 1)) + int(low)
            for x, low in zip(u, rng.integers(0, 2**30, len(u)), strict=True)
        )
    )


@pytest.fixture
def crowded_table(monkeypatch):
    """Stands for the thresholds of every law, and is forgotten afterwards, also when a test fails."""
    table = crowded("gaussian", 7)
    kept = (exact.table_of, fused._on_device)
    for made in kept:
        made.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(exact, "thresholds", lambda law, sigma: table)
        patch.setattr(exact, "largest", lambda sigma: len(table) // 2)
        yield table
    for made in kept:
        made.cache_clear()


def test_second_words_decide_where_first_words_do_not(crowded_table):
    black = torch.zeros((1, 3, 4, 4), dtype=torch.uint8, device=DEVICE)
    found = filled(
        FusedNoise(law_named("gaussian"), 0.5, 7, DEVICE),
        black,
        [(5, "selection")],
        [(0, s) for s in range(4)],
    )
    place = {"seed": 7, "place": BLACK}
    expected = [
        [plain_noise(crowded_table, u) for u in plain_uniform("gaussian", 48, s, **place)]
        for s in range(4)
    ]
    assert (found.double() * 255).round().int().flatten(1).tolist() == expected
    assert ExactNoise(law_named("gaussian"), 0.5, 48, **place).draw(0, 4).int().tolist() == expected


@triton.jit
def _search(words, upper, guide, out, ties, BITS: tl.constexpr, STEPS: tl.constexpr):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    count, tied = count_below(
        tl.load(words + at).to(tl.uint32, bitcast=True), upper, guide, BITS, STEPS
    )
    tl.store(out + at, count)
    tl.store(ties + at, tied.to(tl.int32))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sigma", [1e-6, 0.12, 0.5, 1.0, 4.0])
def test_threshold_search_is_right_at_every_threshold_and_end(law, sigma):
    """Words just below, at and above each of the thresholds, at powers of two and at both ends."""
    upper, top = table_of(law_named(law), sigma).upper.astype(np.int64), 2**32 - 1
    powers = [2**k + d for k in range(32) for d in (-1, 0, 1)]
    edges = {
        *powers,
        *[top - p for p in powers],
        0,
        top,
        *[c + d for c in upper.tolist() for d in (-1, 0, 1)],
    }
    w = np.array(sorted(e for e in edges if 0 <= e <= top))
    w = np.concatenate([w, np.full(-len(w) % 128, top)])
    tables = fused._on_device(law_named(law), sigma, DEVICE)
    out, ties = (torch.zeros(len(w), dtype=torch.int32, device=DEVICE) for _ in range(2))
    words = torch.from_numpy(w.astype(np.uint32).view(np.int32)).to(DEVICE)
    steps = {"BITS": tables.bits, "STEPS": tables.steps}
    _search[(len(w) // 128,)](words, tables.upper, tables.guide, out, ties, **steps)
    sure = ties.cpu().numpy() == 0
    assert np.array_equal(out.cpu().numpy()[sure], np.searchsorted(upper, w)[sure])
    tied = np.isin(w, upper)
    assert not (sure & tied).any()
    assert set(w[~sure & ~tied].tolist()) <= {top}  # beyond the last threshold: sought, and found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_enters_the_network_is_a_function_of_the_integer_sum(dtype):
    pictures, rows = images(1, (1, 28, 28)), [(0, s) for s in range(10)]
    noise = FusedNoise(law_named("gaussian"), 0.5, 1, DEVICE)
    levels = (filled(noise, pictures, [(0, "estimation")], rows).double() * 255).round()
    assert levels.min() >= -3 * 255
    assert levels.max() <= 4 * 255
    found = filled(noise, pictures, [(0, "estimation")], rows, dtype=dtype).flatten()
    place = (levels.flatten() + 3 * 255).long()
    answer = torch.zeros(8 * 255, dtype=dtype, device=DEVICE)
    answer[place] = found  # one value for each sum: whichever was written last, all must equal it
    assert torch.equal(answer[place], found)
    # Triton's interpreter cuts bfloat16 off where the GPU rounds
    torch.testing.assert_close(
        found.double(), levels.flatten() / 255, rtol=torch.finfo(dtype).eps, atol=0.0
    )


@pytest.mark.parametrize("law", ["gaussian", "uniform"])
def test_layout_of_the_batch_changes_no_value(law):
    pictures, rows = images(2, (3, 8, 8)), [(s % 2, s) for s in range(11)]
    noise, requests = (
        FusedNoise(law_named(law), 0.25, 1, DEVICE),
        [(3, "selection"), (4, "prediction")],
    )
    flat = filled(noise, pictures, requests, rows, dtype=torch.float16)
    last = torch.zeros(11, 3, 8, 8, dtype=torch.float16, device=DEVICE).contiguous(
        memory_format=torch.channels_last
    )
    assert torch.equal(filled(noise, pictures, requests, rows, out=last), flat)
    padded = torch.zeros(11, 10, 10, 4, dtype=torch.float16, device=DEVICE)
    assert torch.equal(
        filled(noise, pictures, requests, rows, out=padded[:, 1:9, 1:9, :3].permute(0, 3, 1, 2)),
        flat,
    )
    border = padded.clone()
    border[:, 1:9, 1:9, :3] = 0
    assert not border.any()
    one_by_one = [filled(noise, pictures, requests, [row], dtype=torch.float16) for row in rows]
    assert torch.equal(torch.cat(one_by_one), flat)


def test_samples_beyond_32_bits_are_refused():
    with pytest.raises(ConfigError, match="numbered below 2\\^32"):
        FusedNoise(law_named("gaussian"), 0.25, 1, DEVICE).words([(BLACK, 2**32 + 1)])
