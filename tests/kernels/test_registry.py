"""The one boundary of kernels: which are used, which are not and why; by Triton's interpreter where there is no GPU."""

import dataclasses
import logging
import subprocess
import sys

import pytest
import torch
from torch import nn

from smoothcert.devices import launching
from smoothcert.devices.products import tf32_products
from smoothcert.errors import ConfigError
from smoothcert.kernels import prepare as prepare_module
from smoothcert.kernels import registry
from smoothcert.kernels.prepare import prepare
from smoothcert.kernels.registry import KERNELS
from smoothcert.kernels.trainable import products, trainable
from smoothcert.models import build_model

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPE = (1, 28, 28)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The interpreter in the place of a GPU, float16 included."""
    pytest.importorskip("triton")
    monkeypatch.setattr(registry, "runs_triton", lambda _: True)
    monkeypatch.setattr(prepare_module, "check_precision", lambda *_: None)


def prepared(model, shape=SHAPE, precision="float16", **settings):
    return prepare(model.to(DEVICE).eval(), shape, DEVICE, precision, **settings)


def test_names_in_manifests_stay():
    """Stores of certificates are known by them: with another name, an old store would not resume."""
    assert [entry.title for entry in KERNELS] == ["LeNet kernels 2", "ResNet kernels"]
    assert dataclasses.replace(KERNELS[1], version=2).title == "ResNet kernels 2"


def test_the_list_imports_no_triton():
    code = "import sys, smoothcert.kernels.prepare, smoothcert.kernels.trainable; assert 'triton' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_network_that_fits_gets_its_kernels_and_nothing_is_skipped():
    found = prepared(build_model("lenet", seed=0))
    assert (found.steps, found.skipped) == (("LeNet kernels 2",), ())
    assert (found.precision, found.batch_size, found.any_batch) == ("float16", 32768, True)
    model = build_model("lenet", seed=0).to(DEVICE)
    network, kernels, reasons = trainable(model, SHAPE, DEVICE, "tf32")
    assert (kernels, reasons) == ("LeNet kernels 2", ())
    assert network is not model
    assert [id(p) for p in network.parameters()] == [id(p) for p in model.parameters()]


def with_a_changed_layer():
    model = build_model("lenet", seed=0)
    model[1].conv2 = nn.Conv2d(20, 50, 5, padding_mode="reflect")
    return model


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize(
    ("model", "shape", "reason"),
    [
        (
            with_a_changed_layer(),
            SHAPE,
            "no LeNet kernels: its layers are not those of a LeNet: conv2 differs",
        ),
        (
            build_model("lenet", seed=0, first=10, second=20, hidden=64),
            SHAPE,
            "no LeNet kernels: its layers are not those of a LeNet: conv1 differs",
        ),
        (
            build_model("lenet", 65, seed=0),
            SHAPE,
            "no LeNet kernels: made for at most 64 classes, found 65",
        ),
        (
            build_model("resnet8", seed=0),
            (3, 14, 14),
            "no ResNet kernels: made for images [3, H, W] with sides divisible by 4, found [3, 14, 14]",
        ),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(784, 2)),
            SHAPE,
            "no kernels: made for LeNet and ResNet, found another network",
        ),
    ],
    ids=["layer", "widths", "classes", "shape", "network"],
)
def test_the_reason_why_not_to_sample_by_kernels_is_kept_and_logged(model, shape, reason, caplog):
    caplog.set_level(logging.INFO, "smoothcert")
    found = prepared(model, shape)
    assert set(found.steps) <= {"folded", "layer kernels", "channels last"}
    assert found.skipped[0] == reason
    assert caplog.messages.count(reason) == 1


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize(
    ("model", "precision", "reason"),
    [
        (
            with_a_changed_layer(),
            "tf32",
            "no LeNet kernels: its layers are not those of a LeNet: conv2 differs",
        ),
        (build_model("resnet8").double(), "tf32", "no ResNet kernels: made for float32"),
        (
            build_model("lenet"),
            "float32",
            "no kernels in float32: they compute in tf32 or bfloat16",
        ),
        (nn.Linear(784, 2), "tf32", "no kernels: made for LeNet and ResNet, found another network"),
    ],
    ids=["layer", "type", "precision", "network"],
)
def test_the_reason_why_not_to_train_by_kernels_is_kept_and_logged(
    model, precision, reason, caplog
):
    caplog.set_level(logging.INFO, "smoothcert")
    network, kernels, reasons = trainable(model.to(DEVICE), SHAPE, DEVICE, precision)
    assert (network, kernels, reasons) == (model, None, (reason,))
    assert caplog.messages == [f"training by PyTorch alone: {reason}"]


@pytest.mark.usefixtures("as_on_a_gpu")
def test_precisions_that_the_kernels_do_not_have_are_a_reason():
    found = prepared(build_model("lenet", seed=0), precision="float32")
    assert found.skipped == ("no kernels in float32: they compute in float16 or bfloat16",)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_kernels_can_be_switched_off():
    model = build_model("lenet", seed=0).to(DEVICE)
    found = prepared(model, kernels="off")
    assert found.steps[0] == "folded"
    assert found.skipped == ("no kernels: switched off by kernels: off",)
    network, kernels, reasons = trainable(model, SHAPE, DEVICE, "tf32", "off")
    assert (network, kernels, reasons) == (
        model,
        None,
        ("no kernels: switched off by kernels: off",),
    )
    for wrong in (
        lambda: prepared(model, kernels="on"),
        lambda: trainable(model, SHAPE, DEVICE, "tf32", "on"),
    ):
        with pytest.raises(ConfigError, match="setting of kernels is one of auto, off, found 'on'"):
            wrong()


def test_training_without_kernels_attacks_without_them(monkeypatch):
    monkeypatch.setattr(launching, "runs_triton", lambda _: True)
    with products(DEVICE, "tf32"):
        assert launching.may_launch(DEVICE)
    with products(DEVICE, "tf32", "off"):
        assert not launching.may_launch(DEVICE)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_kernels_that_fail_are_a_reason_not_an_error(monkeypatch):
    def breaks(*_):
        raise ValueError("no such instruction")

    monkeypatch.setattr(
        registry, "KERNELS", (dataclasses.replace(KERNELS[0], sampling=breaks), *KERNELS[1:])
    )
    found = prepared(build_model("lenet", seed=0))
    assert found.skipped == ("no kernels in float16: ValueError: no such instruction",)
    assert found.steps[0] == "folded"


class Uncompilable(nn.Module):
    """Computes with a kernel that no compiler takes."""

    def __init__(self, model, _):
        super().__init__()
        self.model = model

    def forward(self, x):
        from tests.kernels.uncompilable import kernel

        kernel[(1,)](x)
        return self.model(x)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_training_kernels_that_do_not_compile_are_a_reason_not_an_error(monkeypatch, caplog):
    """They are compiled when they are launched, so the first step would be the first to know."""
    caplog.set_level(logging.INFO, "smoothcert")
    monkeypatch.setattr(
        registry, "KERNELS", (dataclasses.replace(KERNELS[0], training=Uncompilable),)
    )
    model = build_model("lenet", seed=0).to(DEVICE)
    network, kernels, (reason,) = trainable(model, SHAPE, DEVICE, "tf32")
    assert (network, kernels) == (model, None)
    assert reason.startswith("no kernels: ")
    assert caplog.messages == [f"training by PyTorch alone: {reason}"]


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_training_on_the_cpu_multiplies_in_float32_beside_a_gpu_too(monkeypatch, precision):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with products(torch.device("cpu"), precision):
        assert not tf32_products()
    with products(torch.device("cuda"), precision):
        assert tf32_products()


@pytest.mark.usefixtures("as_on_a_gpu")
def test_layer_kernels_that_fail_are_a_reason_not_an_error(monkeypatch):
    def breaks(net):
        raise ValueError("no such layer")

    model = build_model("lenet", 65, seed=0)
    assert "layer kernels" in prepared(model).steps
    monkeypatch.setattr(prepare_module, "put_layer_kernels", breaks)
    found = prepared(model)
    assert found.steps[0] == "folded"
    assert "layer kernels" not in found.steps
    assert "no layer kernels: ValueError: no such layer" in found.skipped


@pytest.mark.skipif(DEVICE.type == "cuda", reason="a GPU runs Triton")
def test_where_triton_does_not_run_the_device_is_the_reason():
    model = build_model("lenet", seed=0).eval()
    assert prepare(model, SHAPE, DEVICE).skipped == ("no kernels: Triton does not run on cpu",)
    found = trainable(model, SHAPE, DEVICE, "tf32")
    assert (found.network, found.kernels, found.reasons) == (
        model,
        None,
        ("no kernels: Triton does not run on cpu",),
    )
