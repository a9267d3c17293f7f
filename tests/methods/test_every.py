"""What holds for every method: modes and generators left alone, no waiting for the device, and it learns."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from smoothcert.config import TrainConfig
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress
from smoothcert.training.fit import fit
from tests.methods.every import EVERY, IDS, batch, network
from tests.training.tiny import tiny


class Watch(TorchDispatchMode):
    """Lets every operation through except those between host and device, or whose shape depends on a value."""

    READS = (
        "aten._local_scalar_dense",
        "aten.nonzero",
        "aten.is_nonzero",
        "aten.masked_select",
        "aten.equal",
    )
    WRITES = ("aten.lift_fresh",)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        waits = name.startswith(self.READS + self.WRITES)
        if name.startswith(
            ("aten.index.", "aten.index_put")
        ):  # by a mask, whose shape depends on values
            waits = any(
                isinstance(entry, torch.Tensor) and entry.dtype == torch.bool for entry in args[1]
            )
        assert not waits, f"{name} waits for the device"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("settings", EVERY, ids=IDS)
def test_no_loss_waits_for_the_device(settings):
    """Neither .item() nor a branch on a value, so that a step can become a CUDA graph."""
    model, data = network(), batch()
    with Watch():
        build_method(settings).loss(model, data, 0.25, Progress(0, 2)).total.backward()


def test_the_watch_sees_what_it_is_for():
    with Watch():
        for wait in (
            lambda x: x.sum().item(),
            lambda x: bool(x.any()),
            lambda x: x[x > 0],
            lambda x: x.new_tensor([1.0]),
        ):
            with pytest.raises(AssertionError, match="waits for the device"):
                wait(torch.rand(3))


@pytest.mark.parametrize("settings", EVERY, ids=IDS)
def test_training_mode_and_parameters_are_left_as_they_were(settings):
    model = network()
    losses = build_method(settings).loss(model, batch(), 0.25, Progress(20, 90))
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    losses.total.backward()
    assert all(
        parameter.grad is not None and parameter.grad.isfinite().all()
        for parameter in model.parameters()
    )
    assert losses.total.isfinite()
    assert all(value.ndim == 0 for value in losses.terms.values())


FORWARDS = [1, 2, 1, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(("settings", "forwards"), list(zip(EVERY, FORWARDS, strict=True)), ids=IDS)
def test_batchnorm_counts_the_training_forwards_alone(settings, forwards):
    model = network()
    build_method(settings).loss(model, batch(), 0.25, Progress(20, 90))
    assert int(model.body[1].num_batches_tracked) == forwards


@pytest.mark.parametrize("settings", EVERY, ids=IDS)
def test_all_randomness_comes_from_the_batch(settings):
    values = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        state = torch.get_rng_state()
        model = network()
        torch.set_rng_state(state)
        values.append(
            build_method(settings).loss(model, batch(), 0.25, Progress(0, 2)).total.item()
        )
        assert torch.equal(torch.get_rng_state(), state)
    assert values[0] == values[1]


@pytest.mark.parametrize("settings", EVERY, ids=IDS)
def test_every_method_learns(settings, tmp_path):
    """A sign or a scale gone wrong shows here, whatever the formulas say."""
    more = {"soft_labels": {"n": 20, "epochs": 2}} if settings["name"] == "catrs" else {}
    config = TrainConfig(
        "tiny",
        "tests.training.tiny.TinyNet",
        0.25,
        settings,
        epochs=4,
        batch_size=16,
        lr=0.05,
        evaluate_every=4,
        as_printed=settings.get("as_printed", False),
        **more,
    )
    run = fit(
        config, tmp_path / "run", train=tiny(), test=tiny("test", 64, 1), device="cpu", quiet=True
    )
    assert run.records("metrics.jsonl")[-1]["noisy_test_accuracy"] > 0.8
