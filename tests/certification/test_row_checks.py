"""Networks that are no function of one image: refused before anything is certified, or while it is."""

import json
import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from smoothcert.certification import network as network_module
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.data import load_dataset
from smoothcert.errors import ModelError, StoreError
from smoothcert.models import build_model
from smoothcert.report import read_store
from smoothcert.report.page.provenance import provenance
from smoothcert.runs.checks import checks_in_words
from smoothcert.runs.selection import Selection
from tests.certification.closed_form import DEVICES, Linear
from tests.results import certify_with

SHAPE = (1, 8, 8)


def two(score):
    return torch.stack([score, -score], 1)


class Forward(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.make = forward

    def forward(self, x):
        return self.make(x)


def by_the_mean_of_the_batch(x):
    return two((x - 0.5).flatten(1).mean(1).mean().expand(len(x)))


def less_the_mean_of_the_batch(x):
    score = x.flatten(1).sum(1)
    return two(score - score.mean())


def ranked_in_the_batch(x):
    return two(x.flatten(1).sum(1).argsort().argsort().float() - len(x) / 2)


def by_its_place(x):
    return two((x - 0.5).flatten(1).sum(1) + 5 * (torch.arange(len(x), device=x.device) % 2))


def by_the_size_of_the_batch(x):
    return two((x - 0.5).flatten(1).sum(1) + (5.0 if len(x) % 2 else 0.0))


def by_a_coin(x):
    return two((x - 0.5).flatten(1).sum(1) * (1 if random.random() < 0.5 else -1))


def with_dropout_left_on(x):
    return two(F.dropout(x - 0.4, 0.5).flatten(1).sum(1))


def with_augmentation(x):
    return two(((x + 0.2 * torch.randn_like(x)) - 0.5).flatten(1).sum(1))


class Counting(nn.Module):
    """Another answer at every second call."""

    def __init__(self):
        super().__init__()
        self.calls = [0]

    def forward(self, x):
        self.calls[0] += 1
        return two((x - 0.5).flatten(1).sum(1) + self.calls[0] % 2)


BATCH_NORM = nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten(), nn.Linear(64, 2))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Forward(by_the_mean_of_the_batch), "depends on"),
        (Forward(less_the_mean_of_the_batch), "depends on"),
        (Forward(ranked_in_the_batch), "depends on"),
        (Forward(by_its_place), "depends on the order"),
        (Forward(by_the_size_of_the_batch), "depends on the number"),
        (BATCH_NORM, "track_running_stats=False"),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten(),
                       nn.Linear(144, 2)), "track_running_stats=False"),
        (Forward(by_a_coin), r"the same batch twice|depends on"),
        (Forward(with_dropout_left_on), "dropout"),
        (Forward(with_augmentation), "augmentation"),
        (Counting(), "the same batch twice"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("noise", ["exact", "float"])
def test_a_network_that_is_no_function_of_one_image_is_refused(model, reason, noise, device):
    smoothed = SmoothedClassifier(model, 0.5, 2, noise=noise, device=device)
    with pytest.raises(ModelError, match=reason):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8), n0=20, n=200)


def test_a_coin_in_the_forward_is_refused_at_every_start():
    """Forty starts with other coins; a trace would freeze the first toss, which certified every other start."""
    for start in range(40):
        random.seed(start)
        with pytest.raises(ModelError, match=r"the same batch twice|depends on"):
            SmoothedClassifier(Forward(by_a_coin), 0.5, 2).certify(
                torch.full(SHAPE, 140, dtype=torch.uint8), n0=20, n=200
            )


def fails_on_what_is_no_image(x):
    if bool((x.flatten(1).mean(1) < 0.5).any()):
        raise ValueError("too dark")
    return two(x.flatten(1).sum(1) - x.sum() / len(x))


def nan_on_what_is_no_image(x):
    return two(x.flatten(1).sum(1) - x.sum() / len(x)).where(x.flatten(1).mean(1)[:, None] > 0.5, torch.nan)


def nan_alone(x):
    return two((x - 0.5).flatten(1).sum(1) + (torch.nan if len(x) < 10 else 0.0))


@pytest.mark.parametrize("forward", [fails_on_what_is_no_image, nan_on_what_is_no_image, nan_alone])
def test_a_network_that_evades_synthetic_images_is_checked_on_real_ones(forward):
    smoothed = SmoothedClassifier(Forward(forward), 0.1, 2)
    with pytest.raises(ModelError, match="depends on"):
        smoothed.certify(torch.full(SHAPE, 230, dtype=torch.uint8), n0=20, n=200)


class Pooled(nn.Module):
    """A mean over the wrong dimension: all images of a batch get one answer. `more` changes the logits after it."""

    def __init__(self, more=lambda logits, x: logits):
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.fc, self.more = nn.Linear(16, 32), nn.Linear(32, 10), more

    def forward(self, x):
        tokens = self.tokens(x.reshape(len(x), 4, 16)).relu()
        return self.more(self.fc(tokens.mean((0, 1))).expand(len(x), -1).clone(), x)


class BatchOf(nn.Module):
    """A size of batches that is written into the forward, as exported programs have it."""

    def __init__(self, size):
        super().__init__()
        self.size, self.net = size, Pooled()

    def forward(self, x):
        return self.net(x.view(self.size, 1, 8, 8))


class AdaptingBatchNorm(nn.BatchNorm2d):
    """Takes the statistics of the batch where it has enough images for that."""

    def forward(self, x):
        if len(x) < 32:
            return super().forward(x)
        mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True)
        return (x - mean) / (variance + self.eps).sqrt()


def masked(value):
    return lambda logits, x: torch.cat([logits[:, :8], torch.full_like(logits[:, 8:], value)], 1)


def with_a_common_part(factor):
    return lambda logits, x: logits - factor * x.flatten(1).square().sum(1, keepdim=True)


@pytest.mark.parametrize(
    "model",
    [
        *(Pooled(masked(value)) for value in (-1e4, -1e9, torch.finfo(torch.float32).min, -torch.inf)),
        *(Pooled(with_a_common_part(factor)) for factor in (0.5, 8.0, 200.0)),
        Pooled(lambda logits, x: F.dropout(logits, 0.3).index_fill(1, torch.tensor([9]), -1e9)),
        Pooled(lambda logits, x: 1e8 * logits),
        Pooled(lambda logits, x: 1e-8 * logits),
        Pooled(lambda logits, x: logits.double() - 1e9),
        BatchOf(32),
        nn.Sequential(AdaptingBatchNorm(1), nn.Flatten(), nn.Linear(64, 10)),
    ],
    ids=str,
)
@pytest.mark.parametrize("batch_size", [None, 32])
def test_no_scale_of_logits_and_no_size_of_batches_hides_it(model, batch_size):
    if isinstance(model, BatchOf) and batch_size is None:
        return
    smoothed = SmoothedClassifier(model, 0.25, 10, batch_size=batch_size)
    with pytest.raises(ModelError, match=r"depends on|the same batch twice"):
        smoothed.certify(torch.randint(0, 256, SHAPE, dtype=torch.uint8), n0=32, n=320)


def test_a_network_that_takes_no_probes_is_not_certified_unchecked():
    smoothed = SmoothedClassifier(BatchOf(64), 0.25, 10, batch_size=64)
    with pytest.raises(ModelError, match="it cannot be checked"):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8), n0=64, n=640)


def per_image(x):
    flat = x.flatten(1)
    return two((((flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True))[:, :5]).sum(1))


def unit_length(x):
    return two((x.flatten(1) / x.flatten(1).norm(dim=1, keepdim=True))[:, :5].sum(1))


def mask_of_two(x):
    return torch.cat([two((x - 0.5).flatten(1).sum(1)), torch.full((len(x), 2), -1e9)], 1)


HONEST = [
    (Forward(per_image), 2),
    (Forward(unit_length), 2),
    (Forward(mask_of_two), 4),
    (Forward(lambda x: two(1e8 * (x - 0.5).flatten(1).sum(1))), 2),
    (Forward(lambda x: two(1e-12 * (x - 0.5).flatten(1).sum(1))), 2),
    (Forward(lambda x: torch.ones(len(x), 2)), 2),
    (Forward(lambda x: F.one_hot(((x - 0.5).flatten(1).sum(1) > 0).long(), 2)), 2),
    (nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), 3),
    (Forward(lambda x: two(x.sub_(0.4).mul_(2).flatten(1).sum(1)) if len(x) else x), 2),  # changes its input
    (nn.Sequential(nn.GroupNorm(1, 1), nn.InstanceNorm2d(1), nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 3)), 3),
]


@pytest.mark.parametrize(("model", "classes"), HONEST)
@pytest.mark.parametrize("batch_size", [None, 32, 128])
def test_honest_networks_are_not_refused(model, classes, batch_size):
    """Batches are padded with zeros, for which some of them return NaN: only images that count are looked at."""
    image = torch.randint(0, 256, SHAPE, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    smoothed = SmoothedClassifier(model, 0.25, classes, batch_size=batch_size)
    assert smoothed.certify(image, n0=100, n=1000).counts.sum() == 1000
    assert smoothed.rechecked[1] == 0


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("make", [torch.jit.script, lambda net: torch.jit.trace(net, torch.zeros(4, 1, 8, 8))])
def test_scripted_networks_are_certified(make):
    smoothed = SmoothedClassifier(make(nn.Sequential(nn.Flatten(), nn.Linear(64, 3))), 0.25, 3)
    assert smoothed.certify(torch.full(SHAPE, 128, dtype=torch.uint8), n0=10, n=100).counts.sum() == 100


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "score",
    [
        lambda s: torch.sigmoid(20 + s),
        lambda s: s - 1e9,
        lambda s: (1e6 * s).long() + 2**40,
        lambda s: torch.exp(60 * (s + 3)),
    ],
)
def test_votes_are_those_of_the_model_where_32_bits_cannot_tell_its_logits_apart(score, device):
    """Rounded to float32 all classes would be equal, and class 0 certified."""
    model = Forward(lambda x: score(torch.stack([x.flatten(1)[:, i].double() for i in range(3)], 1)))
    image = torch.zeros(SHAPE, dtype=torch.uint8)
    image[0, 0, 2] = 255
    certificate = SmoothedClassifier(model, 0.25, 3, device=device).certify(image, n0=50, n=1000)
    assert certificate.predict == 2


class Sneaky(nn.Module):
    """Behaves while batches are small, as those of the checks before certification are."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        score = (x - 0.5).flatten(1).sum(1)
        return two(score if len(x) <= self.size else score.mean().expand(len(x)))


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_mix_only_in_large_batches_are_found_while_it_certifies(device):
    smoothed = SmoothedClassifier(Sneaky(64), 0.5, 2, device=device, batch_size=128)
    smoothed.prepare(torch.full(SHAPE, 140, dtype=torch.uint8))  # nothing to be seen yet
    with pytest.raises(ModelError, match="depends on"):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8), n0=20, n=200)


def test_later_batches_are_looked_at_too(monkeypatch):
    class Turning(Sneaky):
        """Turns bad after a thousand images, so only a look at a later batch can see it."""

        def forward(self, x):
            self.seen = getattr(self, "seen", [0])
            self.seen[0] += len(x)
            return super().forward(x) if self.seen[0] > 1000 else two((x - 0.5).flatten(1).sum(1))

    monkeypatch.setattr(network_module, "RATE", 0.5)
    smoothed = SmoothedClassifier(Turning(64), 0.5, 2, batch_size=128)
    with pytest.raises(ModelError, match="depends on"):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8), n0=20, n=20_000)


class Dropped(nn.Module):
    """A branch that tracing drops without a word: values that are traced cannot be compared."""

    def __init__(self, bright):
        super().__init__()
        self.bright = bright
        self.fc = nn.Linear(64, 2)

    def forward(self, x):
        logits = self.fc(x.flatten(1))
        try:
            bright = torch.stack([row.mean() > self.bright for row in x])
            return torch.where(bright[:, None], logits.flip(1) + 3, logits)
        except TypeError:
            return logits


def test_a_branch_that_tracing_drops_is_kept_where_noisy_copies_take_it():
    """No synthetic probe is as bright as this image, so only its own noisy copies show the branch."""
    torch.manual_seed(0)
    model, image = Dropped(0.8), torch.full(SHAPE, 255, dtype=torch.uint8)
    smoothed = SmoothedClassifier(model, 0.12, 2)
    certificate = smoothed.certify(image, n0=50, n=500)
    with torch.inference_mode():
        answer = int(model(image[None].float() / 255).argmax())
    assert certificate.predict == answer
    dark = SmoothedClassifier(model, 0.12, 2)
    dark.prepare(torch.zeros(SHAPE, dtype=torch.uint8))  # prepared where the branch is not taken
    if "folded" in dark.prepare(torch.zeros(SHAPE, dtype=torch.uint8)).steps:
        with pytest.raises(ModelError, match="prepared for sampling gives other answers"):
            dark.certify(image, n0=50, n=500)


class Masked(nn.Module):
    """A buffer with infinite or huge values, as masks of attention are."""

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", torch.tensor([mask, 0.0]))
        self.fc = nn.Linear(64, 2)

    def forward(self, x):
        return self.fc(x.flatten(1))


@pytest.mark.parametrize("mask", [-torch.inf, torch.finfo(torch.float32).min, torch.nan])
def test_no_value_of_a_buffer_hides_a_change_of_the_weights(mask):
    model, image = Masked(mask), torch.full(SHAPE, 128, dtype=torch.uint8)
    smoothed = SmoothedClassifier(model, 0.1, 2)
    smoothed.certify(image, n0=10, n=50)
    for wanted in (0, 1):
        with torch.no_grad():
            model.fc.bias.data = torch.tensor([100.0, 0.0] if wanted == 0 else [0.0, 100.0])
        assert smoothed.certify(image, n0=10, n=50).selected == wanted


def test_a_replaced_hook_or_forward_is_seen():
    model, image = Linear(), torch.full(SHAPE, 128, dtype=torch.uint8)
    smoothed = SmoothedClassifier(model, 0.1, 2)
    for wanted in (0, 1, 0, 1):
        handle = model.register_forward_hook(lambda _, __, y, c=wanted: F.one_hot(torch.full((len(y),), c), 2).float())
        assert smoothed.certify(image, n0=10, n=50).selected == wanted
        handle.remove()
    for wanted in (0, 1):
        model.forward = lambda x, c=wanted: F.one_hot(torch.full((len(x),), c), 2).float()
        assert smoothed.certify(image, n0=10, n=50).selected == wanted


SETTINGS = {"sigma": 0.5, "n0": 10, "n": 100, "alpha": 0.01, "quiet": True}


class Attributed(nn.Module):
    def __init__(self, sign, shift=0.0, hidden=1.0):
        super().__init__()
        self.sign = sign
        self.fc = nn.Linear(784, 10)
        nn.init.constant_(self.fc.bias, 0.0)
        self.fc.weight.data = torch.linspace(-1, 1, 7840).sin().view(10, 784)
        self.register_buffer("hidden", torch.full((), hidden), persistent=False)
        self.shift = [shift]  # neither a plain attribute nor a tensor

    def forward(self, x):
        return self.sign * self.hidden * self.fc(x.flatten(1)) + self.shift[0] * torch.arange(10)


class OtherForward(Attributed):
    def forward(self, x):
        return super().forward(x).flip(1)


OtherForward.__name__ = OtherForward.__qualname__ = "Attributed"


@pytest.mark.parametrize(
    "other", [Attributed(-1.0), Attributed(1.0, shift=3.0), Attributed(1.0, hidden=-1.0), OtherForward(1.0)]
)
def test_a_store_takes_no_rows_of_a_network_that_behaves_otherwise(tmp_path, other):
    """All have the same weights and the same repr."""
    data = load_dataset("mnist-mini")
    certify_with(Attributed(1.0), data, tmp_path, selection=Selection(max=4, shard=0, shards=2), **SETTINGS)
    with pytest.raises(StoreError, match="behaviour: the network answers probe images differently"):
        certify_with(other, data, tmp_path, selection=Selection(max=4, shard=1, shards=2), **SETTINGS)
    certify_with(Attributed(1.0), data, tmp_path, selection=Selection(max=4, shard=1, shards=2), **SETTINGS)


def test_what_was_looked_at_again_is_written_down(tmp_path):
    store = certify_with(
        build_model("lenet", seed=0), load_dataset("mnist-mini"), tmp_path, selection=Selection(max=3), **SETTINGS
    )
    (record,) = map(json.loads, (store.folder / "checks.jsonl").read_text().splitlines())
    assert record["shard"] == "0/1"
    assert record["rechecked"] >= 16
    assert record["differ"] == 0
    words = f"{record['rechecked']:,} answers evaluated again, 0 differed"
    assert checks_in_words(store.folder) == words
    assert provenance(read_store(store.folder), "run").settings["the network treats each image alone"] == words
