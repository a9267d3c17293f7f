"""Networks that are no function of one image: refused before anything is certified, or while it is."""

import json
import random

import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

from smoothcert.certification import audit
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.data import load_dataset
from smoothcert.errors import ModelError, NoFunctionError
from smoothcert.models import build_model
from smoothcert.report import read_store
from smoothcert.report.page.provenance import provenance
from smoothcert.runs.checks import checks_in_words
from smoothcert.runs.selection import Selection
from tests.networks import DEVICES, SHAPE, Returns, two
from tests.results import certify_with


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


BATCH_NORM = nn.Sequential(
    nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten(), nn.Linear(64, 2)
)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Returns(by_the_mean_of_the_batch), "depends on"),
        (Returns(less_the_mean_of_the_batch), "depends on"),
        (Returns(ranked_in_the_batch), "depends on"),
        (Returns(by_its_place), "depends on the order"),
        (Returns(by_the_size_of_the_batch), "depends on the number"),
        (BATCH_NORM, "track_running_stats=False"),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten(),
                       nn.Linear(144, 2)), "track_running_stats=False"),
        (Returns(by_a_coin), r"the same batch twice|depends on"),
        (Returns(with_dropout_left_on), "dropout"),
        (Returns(with_augmentation), "augmentation"),
        (Counting(), "the same batch twice"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("noise", ["exact", "float"])
def test_a_network_that_is_no_function_of_one_image_is_refused(model, reason, noise, device):
    smoothed = SmoothedClassifier(
        model, CertifyConfig(0.5, noise=noise, n0=20, n=200), device=device
    )
    with pytest.raises(ModelError, match=reason):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8))


def test_a_coin_in_the_forward_is_refused_at_every_start():
    """Forty starts with other coins; a trace would freeze the first toss, which certified every other start."""
    for start in range(40):
        random.seed(start)
        with pytest.raises(ModelError, match=r"the same batch twice|depends on"):
            SmoothedClassifier(Returns(by_a_coin), CertifyConfig(0.5, n0=20, n=200)).certify(
                torch.full(SHAPE, 140, dtype=torch.uint8)
            )


def fails_on_what_is_no_image(x):
    if bool((x.flatten(1).mean(1) < 0.5).any()):
        raise ValueError("too dark")
    return two(x.flatten(1).sum(1) - x.sum() / len(x))


def nan_on_what_is_no_image(x):
    return two(x.flatten(1).sum(1) - x.sum() / len(x)).where(
        x.flatten(1).mean(1)[:, None] > 0.5, torch.nan
    )


def nan_alone(x):
    return two((x - 0.5).flatten(1).sum(1) + (torch.nan if len(x) < 10 else 0.0))


@pytest.mark.parametrize("forward", [fails_on_what_is_no_image, nan_on_what_is_no_image, nan_alone])
def test_a_network_that_evades_synthetic_images_is_checked_on_real_ones(forward):
    smoothed = SmoothedClassifier(Returns(forward), CertifyConfig(0.1, n0=20, n=200))
    with pytest.raises(ModelError, match="depends on"):
        smoothed.certify(torch.full(SHAPE, 230, dtype=torch.uint8))


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
        *(
            Pooled(masked(value))
            for value in (-1e4, -1e9, torch.finfo(torch.float32).min, -torch.inf)
        ),
        *(Pooled(with_a_common_part(factor)) for factor in (0.5, 8.0, 200.0)),
        Pooled(lambda logits, x: F.dropout(logits, 0.3).index_fill(1, torch.tensor([9]), -1e9)),
        Pooled(lambda logits, x: 1e8 * logits),
        Pooled(lambda logits, x: 1e-8 * logits),
        Pooled(lambda logits, x: logits.double() - 1e9),
        nn.Sequential(AdaptingBatchNorm(1), nn.Flatten(), nn.Linear(64, 10)),
    ],
    ids=str,
)
@pytest.mark.parametrize("batch_size", [None, 32])
def test_no_scale_of_logits_and_no_size_of_batches_hides_it(model, batch_size):
    refused_for_mixing(model, batch_size)


def test_a_size_of_batches_written_into_the_forward_does_not_hide_it():
    refused_for_mixing(BatchOf(32), 32)


class TowardsTheMean(nn.Module):
    """Logits are drawn to the mean of the batch; what is added to all of a row hides by how much from a tolerance."""

    def __init__(self, add):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.add = nn.Linear(64, 10), add

    def forward(self, x):
        z = self.fc(x.flatten(1))
        return self.add(z + 2.7 * (z.mean(0) - z), x)


def far_third_class(logits, x):
    return torch.cat([logits, torch.full_like(logits[:, :1], -1e7)], 1)


@pytest.mark.parametrize("batch_size", [None, 64])
@pytest.mark.parametrize(
    "add",
    [
        *(lambda logits, x, c=c: logits + c for c in (3e5, -3e5, 1e6)),
        lambda logits, x: logits + 3e5 * (1 + x.flatten(1).mean(1, keepdim=True).abs()),
        far_third_class,
        lambda logits, x: far_third_class(logits + 3e5, x),
    ],
)
def test_no_offset_hides_that_votes_move(add, batch_size):
    model = TowardsTheMean(add)
    smoothed = SmoothedClassifier(model, CertifyConfig(0.5, n0=100, n=1000), batch_size=batch_size)
    smoothed.classes = model(torch.zeros(2, *SHAPE)).shape[1]
    image = torch.randint(
        0, 256, SHAPE, dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )
    with pytest.raises(NoFunctionError, match="depends on"):
        smoothed.certify(image)


class Remembering(nn.Module):
    """State where no one looks: in a list or a dictionary."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.kept = nn.Linear(64, 2), {}


class Calibrating(Remembering):
    """The middle of the first batch decides every later answer."""

    def forward(self, x):
        z = self.fc(x.flatten(1))
        return z - self.kept.setdefault("middle", z.median(0).values)


class Caching(Remembering):
    """The first image of a kind is answered, and all others of its kind alike."""

    def forward(self, x):
        kinds = (x.flatten(1).mean(1) * 50).round().int().tolist()
        z = self.fc(x.flatten(1))
        return torch.stack(
            [self.kept.setdefault(kind, row) for kind, row in zip(kinds, z, strict=True)]
        )


@pytest.mark.parametrize("make", [Calibrating, Caching])
@pytest.mark.parametrize("kernels", ["auto", "off"])
def test_a_network_that_keeps_something_of_its_first_batch_is_refused(make, kernels):
    with pytest.raises(NoFunctionError, match="depends on"):
        SmoothedClassifier(make(), CertifyConfig(0.5, kernels=kernels, n0=20, n=200)).certify(
            torch.full(SHAPE, 128, dtype=torch.uint8)
        )


class Moving(nn.Module):
    """Moves a share of its votes in batches that are not those of the checks, as its companions decide."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        score = torch.where(x.flatten(1).sum(1) > 0, 1.0, -1.0)
        if len(x) <= 64:
            return two(score)
        number = (1e4 * (x.flatten(1)[:, :4].sum() + x.flatten(1)[:, 0]).double()).long()
        return two(torch.where(number % 10_000 < 10_000 * self.share, -score, score))


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_a_share_of_moved_votes_is_caught_as_often_as_promised(share, monkeypatch):
    """1 - (1 - q)^m for the m samples that are looked at, of which 16 are in the first batch."""
    monkeypatch.setattr(audit, "RATE", 1 / 20)
    n, caught, runs, model = 1000, 0, 150, Moving(share)
    image = torch.full(SHAPE, 128, dtype=torch.uint8)
    smoothed = SmoothedClassifier(model, CertifyConfig(0.5, kernels="off"), batch_size=128)
    smoothed.prepare(image)
    for run in range(runs):
        smoothed._ready[2].audit._sizes.clear()
        try:
            smoothed.count(image, n, "estimation", run)
        except NoFunctionError:
            caught += 1
    looked_at = 16 + (n - 16) / 20
    assert stats.binomtest(caught, runs, 1 - (1 - share) ** looked_at).pvalue > 1e-4


def test_what_was_caught_is_not_stored_and_the_rest_is_named(tmp_path):
    """A network that turns bad after some images: none of the group is stored, and the part of before is named."""

    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.seen = nn.Linear(784, 10), [0]

        def forward(self, x):
            self.seen[0] += len(x)
            z = self.fc(x.flatten(1))
            return z if self.seen[0] < 12_000 else z.mean(0) + 0 * z + torch.rand(10)

    settings = {"sigma": 0.5, "n0": 100, "n": 1000, "alpha": 0.01, "quiet": True, "batch_size": 100}
    with pytest.raises(NoFunctionError, match=r"part-0-of-1\.tsv"):
        certify_with(
            Late(), load_dataset("mnist-mini"), tmp_path, selection=Selection(max=60), **settings
        )
    stored = (tmp_path / "part-0-of-1.tsv").read_text().splitlines()
    assert 1 < len(stored) < 13


def refused_for_mixing(model, batch_size):
    smoothed = SmoothedClassifier(model, CertifyConfig(0.25, n0=32, n=320), batch_size=batch_size)
    with pytest.raises(ModelError, match=r"depends on|the same batch twice"):
        smoothed.certify(torch.randint(0, 256, SHAPE, dtype=torch.uint8))


def test_a_network_that_takes_no_probes_is_not_certified_unchecked():
    config = CertifyConfig(0.25, n0=64, n=640)
    smoothed = SmoothedClassifier(BatchOf(64), config, classes=10, batch_size=64)
    with pytest.raises(ModelError, match="it cannot be checked"):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8))


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
    smoothed = SmoothedClassifier(
        Sneaky(64), CertifyConfig(0.5, n0=20, n=200), device=device, batch_size=128
    )
    smoothed.prepare(torch.full(SHAPE, 140, dtype=torch.uint8))  # nothing to be seen yet
    with pytest.raises(ModelError, match="depends on"):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8))


def test_few_answers_that_their_place_decides_are_no_rounding(monkeypatch):
    """One row in 64, where no check before sampling looks: fewer than rounding may move, but far more than a little."""

    def answered(x):
        score = (x - 0.5).flatten(1).sum(1)
        score = torch.where(torch.arange(len(x), device=x.device) % 64 == 40, -score, score)
        return two(score)

    monkeypatch.setattr(audit, "RATE", 0.2)
    smoothed = SmoothedClassifier(Returns(answered), 0.5, 2, batch_size=256)
    with pytest.raises(ModelError, match="its place in the batch"):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8), n0=20, n=20_000)


def test_later_batches_are_looked_at_too(monkeypatch):
    class Turning(Sneaky):
        """Turns bad after a thousand images, so only a look at a later batch can see it."""

        def forward(self, x):
            self.seen = getattr(self, "seen", [0])
            self.seen[0] += len(x)
            return super().forward(x) if self.seen[0] > 1000 else two((x - 0.5).flatten(1).sum(1))

    monkeypatch.setattr(audit, "RATE", 0.5)
    smoothed = SmoothedClassifier(Turning(64), CertifyConfig(0.5, n0=20, n=20000), batch_size=128)
    with pytest.raises(ModelError, match="depends on"):
        smoothed.certify(torch.full(SHAPE, 140, dtype=torch.uint8))


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
        except (
            Exception
        ):  # as code that wants to be robust has it: the error of the trace is caught here
            return logits


def test_a_branch_that_tracing_drops_is_kept_where_noisy_copies_take_it():
    """No synthetic probe is as bright as this image, so only its own noisy copies show the branch."""
    torch.manual_seed(0)
    model, image = Dropped(0.8), torch.full(SHAPE, 255, dtype=torch.uint8)
    smoothed = SmoothedClassifier(model, CertifyConfig(0.12, n0=50, n=500))
    assert "folded" not in smoothed.prepare(image).steps
    certificate = smoothed.certify(image)
    with torch.inference_mode():
        answer = int(model(image[None].float() / 255).argmax())
    assert certificate.predict == answer
    dark = SmoothedClassifier(model, CertifyConfig(0.12, n0=50, n=500))
    assert (
        "folded" in dark.prepare(torch.zeros(SHAPE, dtype=torch.uint8)).steps
    )  # where the branch is not taken
    with pytest.raises(ModelError, match="prepared for sampling gives other answers"):
        dark.certify(image)


def test_what_was_looked_at_again_is_written_down(tmp_path):
    settings = {"sigma": 0.5, "n0": 10, "n": 100, "alpha": 0.01, "quiet": True}
    model, data = build_model("lenet", seed=0), load_dataset("mnist-mini")
    store = certify_with(model, data, tmp_path, selection=Selection(max=3), **settings)
    (record,) = map(json.loads, (store.folder / "checks.jsonl").read_text().splitlines())
    assert record["shard"] == "0/1"
    assert record["rechecked"] >= 16
    assert record["differ"] == 0
    words = f"{record['rechecked']:,} answers evaluated again, 0 differed"
    assert checks_in_words(store.folder) == words
    assert (
        provenance(read_store(store.folder), "run").settings["the network treats each image alone"]
        == words
    )
