"""Captured steps do what plain steps do, for every method; and what cannot be captured still trains."""

import dataclasses
import types

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from smoothcert.data import Batches, Dataset, load_dataset
from smoothcert.data.interleaved import Interleaved
from smoothcert.kernels.trainable import products, trainable
from smoothcert.methods import METHODS, build_method
from smoothcert.methods.base import Losses, Method, Progress, noisy_copies
from smoothcert.models import build_model
from smoothcert.training.ranks import Ranks
from smoothcert.training.steps import Stepper


def data():
    whole = load_dataset("mnist-mini", "train")
    return Dataset(
        "part", "train", whole.images[:200], whole.labels[:200], 10
    )  # 64, 64, 64 and 8 images


def coloured():
    """The same as images of 32 x 32 with three channels."""
    part = data()
    images = np.pad(part.images, ((0, 0), (0, 0), (2, 2), (2, 2))).repeat(3, axis=1)
    return Dataset("part", "train", images, part.labels, 10)


class InFloat64(torch.nn.Sequential):
    """In float32 the order of sums is enough to change a loss by 4e-4 in three epochs, since attacks amplify it."""

    def forward(self, x):
        return super().forward(x.double())


def train(method, device, capture, epochs=3, resnet=None):
    """Losses of each epoch and final weights; of LeNet in float64, or of a ResNet in a precision."""
    torch.manual_seed(0)
    model = build_model("lenet" if resnet is None else "resnet14", seed=0).to(device)
    network = (
        InFloat64(model.double())
        if resnet is None
        else trainable(model, (3, 32, 32), torch.device(device), resnet).network
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    part = data() if resnet is None else coloured()
    soft = np.full((len(part), 10), 0.02) + 0.8 * np.eye(10)[part.labels]
    batches = Batches(
        part, 64, seed=3, device=device, soft_labels=soft if method.uses_soft_labels else None
    )
    stepper = Stepper(network, optimizer, method, 0.5, Ranks(torch.device(device)), capture)
    losses = []
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 if epoch < 2 else 0.005
        stepper.start_epoch(Progress(epoch, epochs))
        model.train()
        for batch in batches.epoch(epoch):
            stepper.take(batch)
        losses.append(stepper.means())
    return losses, model.state_dict(), stepper


def at_once(name):
    """A method that does from the first epoch on all that it ever does; or the same as printed."""
    name, _, printed = name.partition(", ")
    more = {"as_printed": True} if printed else {}
    return build_method({"name": name, **({"deferred": 0} if name == "sun" else more)})


@pytest.mark.cuda
@pytest.mark.parametrize(
    "name", [*METHODS, *(f"{name}, printed" for name in METHODS if name != "sun")]
)
def test_captured_steps_equal_plain_steps(name):
    method = at_once(name)
    plain, plain_weights, _ = train(method, "cuda", capture=False)
    fast, fast_weights, stepper = train(method, "cuda", capture=True)
    assert stepper.capture, "this method should be capturable"
    for one, two in zip(plain, fast, strict=True):
        assert one == pytest.approx(two, rel=1e-6)
    for key, value in plain_weights.items():
        assert torch.allclose(value, fast_weights[key], rtol=0, atol=1e-6), key


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["gaussian", "smoothadv", "catrs", "sun", "smoothadv, printed", "catrs, printed"]
)
def test_captured_steps_of_a_resnet_equal_plain_steps(name, precision):
    """Its kernels read parameters that change between replays, and move statistics."""
    method = at_once(name)
    with products(torch.device("cuda"), precision):
        plain, plain_weights, _ = train(method, "cuda", capture=False, resnet=precision)
        fast, fast_weights, stepper = train(method, "cuda", capture=True, resnet=precision)
    assert stepper.capture
    assert fast[0]["loss"] == pytest.approx(plain[0]["loss"], rel=0.05)
    one, two = (weights["1.bn1.running_mean"] for weights in (plain_weights, fast_weights))
    assert (one - two).norm() < 0.05 * one.norm()  # attacks amplify the last bits of sums
    key = "1.bn1.num_batches_tracked"
    assert torch.equal(plain_weights[key], fast_weights[key])


@dataclasses.dataclass(frozen=True)
class Peeks(Method):
    """Reads a value on the host, which no graph can do."""

    def loss(self, model, batch, sigma, progress):
        images = F.dropout(
            noisy_copies(batch, sigma, 1), 0.1
        )  # draws from the batch's and from the global generator
        loss = F.cross_entropy(model(images), batch.labels)
        return Losses(loss * (1.0 if loss.item() > -1 else 0.0))


@pytest.mark.cuda
def test_a_method_that_cannot_be_captured_trains_plainly():
    plain, _, _ = train(Peeks(), "cuda", capture=False)
    with pytest.warns(UserWarning, match="cannot be captured"):
        fast, _, stepper = train(Peeks(), "cuda", capture=True)
    assert not stepper.capture
    assert [entry["loss"] for entry in fast] == pytest.approx(
        [entry["loss"] for entry in plain], rel=0.1
    )
    assert torch.rand(3, device="cuda").isfinite().all()  # and the generators work as before


@dataclasses.dataclass(frozen=True)
class RunsOut(Method):
    """Finds no memory for the graph of a last batch."""

    def loss(self, model, batch, sigma, progress):
        loss = F.cross_entropy(model(noisy_copies(batch, sigma, 1)), batch.labels)
        if len(batch.images) == 8 and torch.cuda.is_current_stream_capturing():
            raise torch.OutOfMemoryError("CUDA out of memory")
        return Losses(loss)


@pytest.mark.cuda
def test_without_memory_for_another_graph_only_last_batches_are_plain():
    plain, _, _ = train(RunsOut(), "cuda", capture=False, epochs=4)
    fast, _, stepper = train(RunsOut(), "cuda", capture=True, epochs=4)
    assert stepper.capture
    assert [entry["loss"] for entry in fast] == pytest.approx(
        [entry["loss"] for entry in plain], rel=1e-6
    )
    recorded = stepper._labelled.recorded
    assert recorded[64].graph is not None
    assert recorded[8].plain


def test_on_the_cpu_steps_are_plain_and_means_are_over_images():
    method = build_method({"name": "consistency"})
    losses, weights, stepper = train(method, "cpu", capture=True)
    assert not stepper.capture
    again, same, _ = train(method, "cpu", capture=False)
    assert losses == again
    assert all(torch.equal(value, same[key]) for key, value in weights.items())
    assert losses[1]["loss"] < losses[0]["loss"]
    assert losses[0]["loss"] == pytest.approx(
        losses[0]["cross_entropy"] + 10 * losses[0]["divergence"] + 0.5 * losses[0]["entropy"],
        rel=1e-5,
    )
    assert stepper.state()["images"] == 0


def steps(method, device, prepare=lambda stepper: None, rates=(0.01, 0.01, 0.01), **options):
    """Losses of each epoch and final weights, on three labelled and three pseudo-labelled batches an epoch."""
    rng = np.random.default_rng(0)
    data = [
        Dataset(
            "grey",
            "train",
            rng.integers(0, 256, (size, 1, 28, 28)).astype(np.uint8),
            np.arange(size) % 10,
            10,
        )
        for size in (40, 60)
    ]
    model = build_model("lenet", seed=0).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    batches = Interleaved(Batches(data[0], 16, seed=3, device=device), data[1])
    stepper = Stepper(
        model, optimizer, method, 0.5, Ranks(torch.device(device)), pseudo_weight=0.3, **options
    )
    prepare(stepper)
    losses = []
    for epoch, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = rate
        stepper.start_epoch(Progress(epoch, len(rates)))
        model.train()
        for batch in batches.epoch(epoch):
            stepper.take(batch)
        losses.append(stepper.means())
    return losses, model.state_dict()


def pretend(captured):
    """Lets a stepper capture graphs that are none: they repeat the step they were made of on what their memory holds.

    Like a graph, such a step has the learning rate, the weight and the progress of its capture, whatever comes later,
    and adds to sums that were there then; sums that it would make itself begin with 0 in every replay. `captured` gets
    the epoch, the weight and the size of each.
    """

    def prepare(stepper):
        def record(kind, recorded):
            rate, weight, progress = (
                stepper.optimizer.param_groups[0]["lr"],
                kind.weight,
                stepper._progress,
            )
            captured.append(
                (object.__getattribute__(progress, "epoch"), weight, len(recorded.batch.images))
            )
            sums, made_by_itself = kind.sums, not kind.sums

            def replay():
                now = (
                    stepper.optimizer.param_groups[0]["lr"],
                    kind.weight,
                    stepper._progress,
                    kind.sums,
                )
                stepper.optimizer.param_groups[0]["lr"], kind.weight, stepper._progress = (
                    rate,
                    weight,
                    progress,
                )
                kind.sums = sums
                if made_by_itself:
                    sums.clear()
                stepper._step(recorded.batch, kind)
                (
                    stepper.optimizer.param_groups[0]["lr"],
                    kind.weight,
                    stepper._progress,
                    kind.sums,
                ) = now

            recorded.graph = types.SimpleNamespace(replay=replay)
            return True

        stepper.capture, stepper._record = True, record

    return prepare


@dataclasses.dataclass(frozen=True)
class Asks(Method):
    """A loss that depends on the progress as it is told to."""

    how: str

    def loss(self, model, batch, sigma, progress):
        factor = {
            "never": lambda: 1.0,
            "epoch": lambda: 1.0 + progress.epoch,
            "ramp": lambda: progress.ramp(2),
            "reached": lambda: 1.0 + progress.reached(1),
            "term": lambda: 1.0,
        }[self.how]()
        loss = factor * F.cross_entropy(model(noisy_copies(batch, sigma, 1)), batch.labels)
        return Losses(
            loss, {"early": loss} if self.how == "term" and not progress.reached(1) else {}
        )


@pytest.mark.parametrize(
    ("how", "epochs", "last"),
    [
        ("never", [0, 3], [1]),
        ("epoch", [0, 1, 2, 3], []),
        ("ramp", [0, 1, 3], [2]),
        ("reached", [0, 1, 3], [2]),
    ],
)
def test_steps_are_captured_anew_where_the_rate_or_an_answer_of_the_progress_changes(
    how, epochs, last
):
    """In the epochs that are given; the smaller labelled batch, which comes last and once, in those of `last`."""
    rates, captured = (0.01, 0.01, 0.01, 0.001), []
    plain, plain_weights = steps(Asks(how), "cpu", rates=rates)
    fast, fast_weights = steps(Asks(how), "cpu", pretend(captured), rates=rates)
    full = [(epoch, weight, 16) for epoch in epochs for weight in (0.3, 1.0)]
    assert sorted(captured) == sorted(full + [(epoch, 1.0, 8) for epoch in last])
    assert plain == fast
    assert all(torch.equal(value, fast_weights[name]) for name, value in plain_weights.items())


@pytest.mark.parametrize("start", [0, 2, 3])
def test_a_resumed_epoch_of_one_batch_spoils_no_later_one(start):
    """Of 64, 64, 64 and 8 images, all, two or one are left in the first epoch; sums are those of plain steps."""
    found, captured = [], []
    for prepare in (lambda stepper: None, pretend(captured)):
        model = build_model("lenet", seed=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        stepper = Stepper(model, optimizer, Asks("never"), 0.5, Ranks(torch.device("cpu")))
        prepare(stepper)
        batches = Batches(data(), 64, seed=3)
        for epoch in range(3):
            stepper.start_epoch(Progress(epoch, 3))
            for batch in batches.epoch(epoch, start=0 if epoch else start):
                stepper.take(batch)
            found.append(stepper.means())
    assert found[:3] == found[3:]
    assert [size for _, _, size in captured] == [64, 8]  # whatever came first, each size once


def test_terms_that_end_are_told_no_more():
    plain, _ = steps(Asks("term"), "cpu")
    fast, _ = steps(Asks("term"), "cpu", pretend([]))
    assert plain == fast
    assert "early" in fast[0]
    assert "early" not in fast[1]


def test_each_kind_is_captured_with_its_own_weight_and_sums():
    captured, method = [], build_method({"name": "consistency", "noises": 2})
    plain, plain_weights = steps(method, "cpu")
    fast, fast_weights = steps(method, "cpu", pretend(captured))
    assert sorted(captured) == [(0, 0.3, 8), (0, 1.0, 4), (0, 1.0, 8)]  # two parts of each batch
    assert plain == fast
    assert {"loss", "pseudo_labelled_loss", "pseudo_labelled_divergence"} <= plain[0].keys()
    assert all(torch.equal(value, fast_weights[name]) for name, value in plain_weights.items())


@pytest.mark.cuda
@pytest.mark.parametrize("name", [name for name in METHODS if name != "catrs"])
def test_captured_steps_of_both_kinds_equal_plain_steps(name):
    method = at_once(name)
    with products(torch.device("cuda"), "float32"):
        plain, plain_weights = steps(method, "cuda", capture=False)
        fast, fast_weights = steps(method, "cuda", capture=True)
    # attacks amplify the last bits of sums, the more so on the random images here
    for one, two in zip(plain, fast, strict=True):
        assert one == pytest.approx(two, rel=2e-3, abs=1e-6)
    for key, value in plain_weights.items():
        assert float((value - fast_weights[key]).norm()) <= 0.1 * float(value.norm()), key
