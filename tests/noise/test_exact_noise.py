"""Integer noise: its law by enumeration, its integers by test vectors, its independence of device, batch and thread."""

from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.data import load_dataset
from smoothcert.errors import ConfigError
from smoothcert.models import build_model
from smoothcert.noise import exact, streams
from smoothcert.noise.exact import ExactNoise, Place, Room, Table, philox_words, place_of, table_of
from smoothcert.noise.reference import ReferenceNoise
from smoothcert.noise.streams import NoisyCopies, stream, tau
from smoothcert.noise.thresholds import BITS, largest, tau_of, thresholds
from smoothcert.runs.selection import Selection
from smoothcert.statistics import laws
from smoothcert.statistics.laws import law_named
from tests.networks import Linear
from tests.noise.literal import plain, plain_noise, plain_place, plain_uniform
from tests.results import certify_with

LAWS = [pytest.param(law, id=name) for name, law in laws.LAWS.items()]
GAUSSIAN, UNIFORM = law_named("gaussian"), law_named("uniform")
VECTORS = [
    (
        ("gaussian", 0.5, 0, 0, "estimation", 0),
        [[14, 66, -142, -76, -126, -58, 17, -178], [-152, -84, -196, -43, -122, -58, 90, 40]],
    ),
    (("gaussian", 0.25, 7, 41, "selection", 99_999), [[32, 47, 36], [-64, -19, -41]]),
    (
        ("uniform", 0.5, 0, 3, "estimation", 0),
        [[18, 166, -156, 110, -134], [69, -58, -147, 118, -177]],
    ),
    (
        ("laplace", 1.0, 1, 0, "prediction", 0),
        [[199, -56, 202, -84, -74], [341, -78, 540, 401, -58]],
    ),
]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
TRUE = {
    "gaussian": mpmath.ncdf,
    "uniform": lambda x: min(max(mpmath.mpf(0.5) + x / mpmath.sqrt(12), 0), 1),
    "laplace": lambda x: (
        mpmath.exp(x * mpmath.sqrt(2)) / 2 if x < 0 else 1 - mpmath.exp(-x * mpmath.sqrt(2)) / 2
    ),
}


PLACE = Place(17, 2**31 - 3)


def noise(law=GAUSSIAN, sigma=0.5, values=7, seed=0, place=PLACE):
    return ExactNoise(law, sigma, values, seed=seed, place=place)


@pytest.mark.parametrize("sigma", [0.01, 0.12, 0.25, 1.0])
@pytest.mark.parametrize("law", LAWS)
def test_every_threshold_is_the_rounded_distribution_function(law, sigma):
    """All of them, against mpmath: and the law of T they make is within (2M + 1) 2^-62 of the true one."""
    m, found = largest(sigma), thresholds(law, sigma)
    assert len(found) == 2 * m
    assert list(found) == sorted(found)
    with mpmath.workdps(80):
        scale = 255 * mpmath.mpf(sigma)
        true = [
            mpmath.mpf(2) ** BITS * TRUE[law.name]((t + mpmath.mpf(0.5)) / scale)
            for t in range(-m, m)
        ]
        assert (
            max(abs(c - e) for c, e in zip(found, true, strict=True))
            <= mpmath.mpf(0.5) + mpmath.mpf(10) ** -30
        )
        # P(T = t) by enumeration of the integers u: thresholds_t - thresholds_(t-1) of them give t
        cells = np.diff([0, *found, 2**BITS])
        true_cells = np.diff([0, *true, mpmath.mpf(2) ** BITS])
        variation = (
            sum(abs(int(a) - b) for a, b in zip(cells, true_cells, strict=True))
            / 2
            / mpmath.mpf(2) ** BITS
        )
        assert variation <= tau_of(sigma, 1)


@pytest.mark.parametrize("sigma", [1e-6, 0.01, 0.25, 0.5, 1.0, 3.3])
@pytest.mark.parametrize("law", LAWS)
def test_the_table_decides_exactly_the_words_that_it_may(law, sigma):
    """By arithmetic, over all 2^32 words w: how many the table gives each T, and how many it leaves to a search."""
    table, every = Table(law, sigma), np.array(thresholds(law, sigma))
    bottom = np.arange(2**16) << 16
    entry = (table.entries.astype(np.int64) + bottom) % 2**32
    count, carry = (
        entry >> 16,
        0x10000 - (entry & 0xFFFF),
    )  # of the 2^16 lower halves, those before the carry
    undecided = count == 0xFFFF
    # the words on both sides of the carry must lie strictly between the thresholds that are counted and the next one;
    # the last one before the carry is left to the search, whatever it is
    first, last = bottom, bottom + carry - 2
    for low, high, found in ((first, last, count), (last + 2, bottom + 0xFFFF, count + 1)):
        some = ~undecided & (low <= high)
        least = every.searchsorted((low << 30)[some], side="right")
        most = every.searchsorted((high << 30)[some] + (2**30 - 1), side="right")
        assert np.array_equal(least, most)
        assert np.array_equal(least - largest(sigma), found[some] - table.shift)
    if sigma <= 1:
        assert undecided.mean() < 0.005  # the search is for the tails


@pytest.mark.parametrize("sigma", [1e-6, 0.01, 0.5, 3.3])
@pytest.mark.parametrize("law", LAWS)
def test_words_at_every_edge(law, sigma, monkeypatch):
    """Words at, below and above the upper bits of thresholds, and at the ends; second words likewise."""
    every = thresholds(law, sigma)
    rng = np.random.default_rng(0)
    chosen = [
        every[i] for i in sorted({0, *rng.integers(0, len(every), 300).tolist(), len(every) - 1})
    ]
    pairs = [(0, 0), (0, 2**32 - 1), (2**32 - 1, 0), (2**32 - 1, 2**32 - 1)]
    for c in chosen:
        w, v = min(c >> 30, 2**32 - 1), (c % 2**30) * 4
        pairs += [
            (max(w - 1, 0), 0),
            (min(w + 1, 2**32 - 1), 2**32 - 1),
            (w, v),
            (w, max(v - 1, 0)),
            (w, v + 3),
        ]
    pairs += rng.integers(0, 2**32, (-len(pairs) % 4 + 400, 2)).tolist()
    first, second = np.array(pairs, dtype=np.uint32).reshape(-1, 4, 2).transpose(2, 0, 1)

    def words(group, sample, third, fourth, key, room):
        groups = np.broadcast_arrays(group, sample)[0].astype(np.int64)
        return (second if fourth >= 2**31 else first)[groups]

    monkeypatch.setattr(exact, "philox_words", words)
    found = noise(law, sigma, first.size).draw(0, 2).int().tolist()
    expected = [plain_noise(every, w * 2**30 + v // 4) for w, v in pairs]
    assert found == [expected, expected]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("sigma", "values"), [(0.5, 6), (0.02, 7), (1.0, 5)])
def test_the_layout_is_the_documented_one(law, sigma, values):
    """T of every coordinate from the words of a second Philox, by the definition."""
    place = {"seed": 5, "place": Place(2**32 - 1, 2**31 - 2)}
    table = thresholds(law, sigma)
    fast = ExactNoise(law, sigma, values, **place)
    reference = ReferenceNoise(law, sigma, values, torch.device("cpu"), **place)
    for sample in (0, 1, 99_999, 2**32 - 1):
        u = plain_uniform(law.name, values, sample, **place)
        assert reference.uniform(sample, sample + 1)[0].tolist() == u
        expected = [plain_noise(table, x) for x in u]
        assert fast.draw(sample, sample + 1)[0].tolist() == expected
        assert reference.draw(sample, sample + 1)[0].tolist() == expected


WORD = st.integers(0, 2**32 - 1)


@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_any_counter_agrees_with_plain_integers(counter, key):
    group, sample = (np.array([[word]], dtype=np.uint64) for word in counter[:2])
    assert philox_words(group, sample, *counter[2:], key, Room(1)).ravel().tolist() == plain(
        counter, key
    )


@pytest.mark.parametrize("sigma", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("law", LAWS)
def test_millions_of_values_agree_with_the_definition(law, sigma):
    place = {"seed": 3, "place": PLACE}
    fast = ExactNoise(law, sigma, 3073, **place).draw(1000, 1400)
    assert torch.equal(
        fast, ReferenceNoise(law, sigma, 3073, torch.device("cpu"), **place).draw(1000, 1400)
    )


def test_a_law_of_more_thresholds_than_the_table_holds():
    """Every word is sought then."""
    place = {"seed": 3, "place": PLACE}
    assert table_of(UNIFORM, 90.0).entries is None
    fast = ExactNoise(UNIFORM, 90.0, 785, **place).draw(5, 30)
    assert torch.equal(
        fast, ReferenceNoise(UNIFORM, 90.0, 785, torch.device("cpu"), **place).draw(5, 30)
    )
    assert 22950 * 3**0.5 - 100 < fast.max() <= 22950 * 3**0.5 + 1


@given(st.integers(1, 40), st.integers(1, 90), st.integers(1, 64))
@settings(max_examples=30)
def test_pieces_and_batches_change_nothing(values, samples, piece):
    whole = noise(values=values).draw(0, samples)
    before, exact._PIECE = exact._PIECE, piece
    try:
        assert torch.equal(noise(values=values).draw(0, samples), whole)
        assert torch.equal(noise(values=values).draw(samples // 2, samples), whole[samples // 2 :])
    finally:
        exact._PIECE = before


def test_no_samples_are_no_noise():
    assert noise(values=9).draw(5, 5).shape == (0, 9)


def test_threads_may_draw_at_once():
    stream = noise(law_named("laplace"), 1.0, 784)
    expected = [stream.draw(100 * i, 100 * i + 100) for i in range(16)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda i: stream.draw(100 * i, 100 * i + 100), range(16)))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("setting", "expected"), VECTORS)
def test_test_vectors(device, setting, expected):
    """The very integers, on every device: whoever re-checks a certificate elsewhere gets these."""
    law, sigma, seed, index, stage, first = setting
    shape = (1, 1, len(expected[0]))
    place = place_of(torch.zeros(shape, dtype=torch.uint8), index, stage)
    assert place == plain_place([0] * shape[-1], shape, index, stage)
    found = ReferenceNoise(
        law_named(law), sigma, shape[-1], torch.device(device), seed=seed, place=place
    )
    assert found.draw(first, first + 2).int().tolist() == expected
    mode = "exact" if law == "gaussian" else law
    image = torch.zeros(shape, dtype=torch.uint8, device=device)
    copies = NoisyCopies(image, sigma, mode, seed=seed, index=index, stage=stage)
    copies = copies.take(first, first + 2)
    assert (copies * 255).round().int().flatten(1).tolist() == expected


@pytest.mark.cuda
@pytest.mark.parametrize("mode", ["exact", "uniform", "laplace"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 7, 5)])
def test_the_gpu_draws_the_same_copies(mode, shape):
    image = torch.randint(
        0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    for sigma, stage in ((0.12, "selection"), (0.5, "estimation"), (1.0, "prediction")):
        settings = {"seed": 1, "index": 9, "stage": stage}
        cpu, gpu = (
            NoisyCopies(image.to(d), sigma, mode, **settings).take(5, 5000).cpu()
            for d in ("cpu", "cuda")
        )
        assert torch.equal(cpu, gpu)


def test_tau_is_what_the_docs_say_and_is_paid_by_every_integer_law():
    assert tau_of(0.25, 784) == 784 * (2 * 255 * 3 + 1) / 2**62
    assert tau_of(1.0, 3 * 224 * 224) < 1.2e-10
    for mode in ("exact", "uniform", "laplace"):
        assert tau(mode, 0.25, 784) == tau_of(0.25, 784)
    assert tau("float", 0.25, 784) == 0.0


@pytest.mark.parametrize("mode", ["exact", "uniform", "laplace"])
def test_radii_pay_for_tau_and_nothing_else(monkeypatch, mode):
    model = Linear()
    image = (model.image_at(0.3) * 255).round().to(torch.uint8)
    configs = [CertifyConfig(0.25, n=1000, noise=mode, radii=radii) for radii in (None, (0.01,))]

    def classifiers():
        """New ones, since the law of the noise is asked for once."""
        return [SmoothedClassifier(model, config, batch_size=256) for config in configs]

    (smoothed, testing) = classifiers()
    plain_slack, tested = smoothed.certify(image), testing.certify(image)
    monkeypatch.setattr(streams, "tau_of", lambda sigma, values: 0.01)
    smoothed, testing = classifiers()
    paid = smoothed.certify(image)
    assert paid.counts.tolist() == plain_slack.counts.tolist()
    assert paid.p_lower == pytest.approx(plain_slack.p_lower - 0.01)
    assert paid.radius < plain_slack.radius
    assert paid.multiclass_radius < plain_slack.multiclass_radius
    assert testing.certify(image).counts.sum() >= tested.counts.sum()
    assert smoothed.predict(image) == -1  # 1000 samples, each off by 0.01: nothing is left of alpha
    monkeypatch.undo()
    assert smoothed.predict(image) == plain_slack.predict


def test_counters_have_room():
    for index in (2**32, -1):
        with pytest.raises(ConfigError, match="below 2\\^32"):
            place_of(torch.zeros((1, 1, 1), dtype=torch.uint8), index, "selection")
    with pytest.raises(ConfigError, match="numbered below 2\\^32"):
        noise().draw(2**32, 2**32 + 1)
    with pytest.raises(ConfigError, match="numbered below 2\\^32"):
        ReferenceNoise(GAUSSIAN, 0.5, 3, torch.device("cpu"), seed=0, place=PLACE).draw(
            0, 2**32 + 1
        )


@pytest.mark.parametrize(
    ("mode", "norm"), [("exact", "l2"), ("laplace", "l1"), ("uniform", "l1"), ("float", "l2")]
)
def test_the_manifest_says_which_noise_and_how_far_it_is_from_the_true_one(tmp_path, mode, norm):
    data = load_dataset("mnist-mini", "test")
    settings = {
        "sigma": 0.5,
        "n0": 20,
        "n": 100,
        "selection": Selection(max=1),
        "batch_size": 64,
        "quiet": True,
    }
    store = certify_with(build_model("lenet", seed=0), data, tmp_path, noise=mode, **settings)
    identity = store.manifest().identity
    assert identity["noise"] == mode
    assert store.manifest().described["tau"] == (0.0 if mode == "float" else tau_of(0.5, 784))
    assert store.manifest().described["norm"] == norm
    assert (
        identity["noise_stream"]
        == stream(mode)
        == ("philox-blocks-2" if mode == "float" else "philox4x32-words-2")
    )
