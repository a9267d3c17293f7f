"""Weights on disk: round trips, damage, disks that fail, and the fingerprint."""

import errno
import os

import pytest
import torch
from torch import nn

from smoothcert.errors import ModelError, StoreError
from smoothcert.models import build_model, load_weights, save_weights, weights_hash


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.b.weight = self.a.weight


def channels_last():
    return build_model("resnet8").to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "make",
    [
        lambda: build_model("lenet"),
        lambda: build_model("resnet8"),
        lambda: build_model("lenet").bfloat16(),
        lambda: nn.Flatten(),
        Tied,
        channels_last,
    ],
    ids=["lenet", "batch-norm", "bfloat16", "empty", "tied", "channels-last"],
)
def test_round_trip(make, tmp_path):
    path = tmp_path / "weights.safetensors"
    model, other = make(), make()
    save_weights(model, path)
    load_weights(other, path)
    assert weights_hash(other) == weights_hash(model)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_failing_disk_leaves_the_old_file(function, code, tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    save_weights(build_model("lenet", seed=1), path)
    old = path.read_bytes()

    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(StoreError, match=f"{path}: {os.strerror(code)}.* untouched"):
        save_weights(build_model("lenet", seed=2), path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == [path.name]


def test_unusable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="could not write"):
        save_weights(build_model("lenet"), tmp_path / "file" / "weights.safetensors")


def test_damaged_file(tmp_path):
    path = tmp_path / "weights.safetensors"
    model = build_model("resnet8", seed=1)
    before = weights_hash(model)
    save_weights(build_model("resnet8", seed=2), path)
    data = path.read_bytes()
    damaged = [data[:n] for n in (0, 1, 7, 8, 9, 200, len(data) // 2, len(data) - 1)]
    for content in [*damaged, data + b"x", b"\xff" * 8 + data[8:], b"no weights at all" * 9]:
        path.write_bytes(content)
        with pytest.raises(ModelError, match=f"{path} are damaged or not a safetensors file"):
            load_weights(model, path)
    assert weights_hash(model) == before


def test_missing_file(tmp_path):
    with pytest.raises(ModelError, match=r"no weights at .*absent: train the model first"):
        load_weights(build_model("lenet"), tmp_path / "absent")
    with pytest.raises(ModelError, match="damaged or not a safetensors file"):
        load_weights(build_model("lenet"), tmp_path)


def test_every_misfit_is_named_and_nothing_changes(tmp_path):
    path = tmp_path / "weights.safetensors"
    stored, model = build_model("lenet", 12), build_model("lenet", 10)
    stored[1].conv3, stored[1].conv1 = stored[1].conv1, nn.Identity()
    stored[1].conv2.bias = nn.Parameter(torch.zeros(50, dtype=torch.int64), requires_grad=False)
    save_weights(stored, path)
    before = weights_hash(model)
    with pytest.raises(ModelError) as error:
        load_weights(model, path)
    for part in (
        str(path),
        "missing: 1.conv1.weight, 1.conv1.bias;",
        "unexpected: 1.conv3.bias, 1.conv3.weight;",
        "1.conv2.bias (found int64 [50], expected float32 [50])",
        "1.fc2.weight (found float32 [12, 500], expected float32 [10, 500])",
        "1.fc2.bias (found float32 [12], expected float32 [10])",
    ):
        assert part in str(error.value)
    assert weights_hash(model) == before


def test_state_that_is_no_tensor():
    class Odd(nn.Module):
        def get_extra_state(self):
            return "text"

    with pytest.raises(ModelError, match=r"only tensors can be stored.*_extra_state"):
        weights_hash(Odd())


# --- the fingerprint ---------------------------------------------------------------------------------------------


class Two(nn.Module):
    def __init__(self, order):
        super().__init__()
        for name in order:
            self.register_parameter(name, nn.Parameter(torch.full((2,), float(ord(name)))))


def test_hash_depends_on_every_bit():
    model = build_model("lenet", seed=1)
    first = weights_hash(model)
    with torch.no_grad():
        bits = model[1].fc1.weight.view(torch.int32)
        bits[3, 4] ^= 1
    second = weights_hash(model)
    with torch.no_grad():
        bits[3, 4] ^= 1
    assert len(first) == 64
    assert first != second
    assert weights_hash(model) == first


def test_hash_sees_running_statistics():
    model = build_model("resnet8", seed=1)
    first = weights_hash(model)
    model(torch.rand(2, 3, 8, 8))
    assert weights_hash(model) != first


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (Two("xy"), Two("yx"), True),
        (Two("xy"), Two("xz"), False),
        (Two("xy"), Two("xy").half(), False),
        (nn.Linear(2, 3).half().float(), nn.Linear(3, 2), False),
        (build_model("resnet8", seed=1), channels_last(), False),
        (build_model("lenet", seed=1), build_model("lenet", seed=1), True),
        (build_model("lenet", seed=1), build_model("lenet", seed=2), False),
    ],
)
def test_hash_compares(a, b, same):
    assert (weights_hash(a) == weights_hash(b)) is same


def test_hash_ignores_memory_layout():
    model = build_model("resnet8", seed=1)
    first = weights_hash(model)
    assert weights_hash(model.to(memory_format=torch.channels_last)) == first


def test_hash_tells_shapes_apart():
    a, b = nn.Linear(2, 3, bias=False), nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        a.weight.zero_()
        b.weight.zero_()
    assert weights_hash(a) != weights_hash(b)


@pytest.mark.cuda
def test_hash_ignores_the_device(tmp_path):
    model = build_model("resnet8", seed=1)
    first = weights_hash(model)
    assert weights_hash(model.cuda()) == first
    save_weights(model, tmp_path / "w.safetensors")
    other = build_model("resnet8").cuda()
    load_weights(other, tmp_path / "w.safetensors")
    assert weights_hash(other) == first
