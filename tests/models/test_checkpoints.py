"""Published checkpoints: every form they have come in, and files that mean harm."""

import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.errors import ConfigError, ModelError
from smoothcert.models import (
    CifarResNet,
    LeNet,
    Normalise,
    build_model,
    load_published,
    weights_hash,
)

PREFIXES = ["", "1.", "1.module.", "module.", "module.1.", "module.1.module."]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.pth.tar"


def write(path, net, prefix="1.", zipped=True, **rest):
    state = OrderedDict((prefix + name, value) for name, value in net.state_dict().items())
    torch.save({"state_dict": state, **rest}, path, _use_new_zipfile_serialization=zipped)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("net", "named", "arch"),
    [
        (LeNet(), "lenet", "lenet"),
        (LeNet(5), "LeNet", "lenet"),
        (CifarResNet(8), "cifar_resnet8", "resnet8"),
    ],
)
def test_round_trip(path, net, named, arch, prefix, zipped):
    write(path, net, prefix, zipped, arch=named, epoch=90)
    model, about = load_published(path)
    classes = net.state_dict()["fc2.weight" if arch == "lenet" else "fc.weight"].shape[0]
    normalisation = "none" if arch == "lenet" else "cifar10"
    assert about == {
        "arch": arch,
        "classes": classes,
        "normalisation": normalisation,
        "checkpoint": {"arch": named, "epoch": 90},
    }
    assert weights_hash(model[1]) == weights_hash(net)
    assert not model.training


@pytest.mark.parametrize(
    ("classes", "given", "expected"),
    [
        (10, None, "cifar10"),
        (100, None, "cifar100"),
        (1000, None, "cifar10"),
        (10, "cifar10-mean", "cifar10-mean"),
    ],
)
def test_normalisation(path, classes, given, expected):
    write(path, CifarResNet(8, classes), arch="cifar_resnet8")
    model, about = load_published(path, normalisation=given)
    assert about["normalisation"] == expected
    assert isinstance(model[0], Normalise)
    assert (model[0].std is None) == expected.endswith("mean")


def test_imagenet(path):
    net = build_model("resnet50", 2)[1]
    write(path, net, "1.module.", arch="resnet50")
    model, about = load_published(path)
    assert about["normalisation"] == "imagenet"
    assert weights_hash(model[1]) == weights_hash(net)


def test_macer_file(path):
    """MACER stores the bare network as 'net', no architecture, and does not normalise."""
    net = CifarResNet(8)
    torch.save({"net": net.state_dict(), "epoch": 440}, path)
    model, about = load_published(path, arch="cifar_resnet8")
    assert about == {
        "arch": "resnet8",
        "classes": 10,
        "normalisation": "none",
        "checkpoint": {"epoch": 440},
    }
    assert weights_hash(model[1]) == weights_hash(net)


def test_bare_state_dict(path):
    net = LeNet()
    torch.save(net.state_dict(), path)
    assert weights_hash(load_published(path, arch="lenet")[0][1]) == weights_hash(net)


def test_half_precision_is_widened(path):
    write(path, LeNet().half(), arch="lenet")
    assert load_published(path)[0][1].fc1.weight.dtype == torch.float32


def test_files_older_than_the_batch_counter(path):
    state = {
        k: v
        for k, v in CifarResNet(8).state_dict().items()
        if not k.endswith("num_batches_tracked")
    }
    torch.save({"arch": "cifar_resnet8", "state_dict": state}, path)
    model, _ = load_published(path)
    assert torch.equal(model[1].layer3[0].bn2.weight, state["layer3.0.bn2.weight"])


def test_optimiser_and_scalars_are_no_hindrance(path):
    net = LeNet()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.rand(2, 1, 28, 28)).sum().backward()
    optimiser.step()
    scalars = {
        "best_acc": np.float64(0.75),
        "acc": np.float32(0.5),
        "step": np.int64(3),
        "done": np.bool_(True),
    }
    for zipped in (True, False):
        write(path, net, zipped=zipped, arch="lenet", optimizer=optimiser.state_dict(), **scalars)
        _, about = load_published(path)
        expected = {"arch": "lenet", "best_acc": 0.75, "acc": 0.5, "step": 3, "done": True}
        assert about["checkpoint"] == expected


def test_scalars_of_the_old_numpy(path):
    """Before numpy 2 the module was called numpy.core."""
    write(path, LeNet(), zipped=False, arch="lenet", best_acc=np.float64(0.75))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert load_published(path)[1]["checkpoint"]["best_acc"] == 0.75


def test_own_network(path, tmp_path, monkeypatch):
    (tmp_path / "published_net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, classes):\n"
        "        super().__init__()\n"
        "        self.last = nn.Linear(4, classes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    torch.save({"state_dict": {"last.weight": torch.ones(3, 4), "last.bias": torch.zeros(3)}}, path)
    arch = "published_net.Net"
    model, _ = load_published(path, arch=arch, classes=3, normalisation="none")
    assert torch.equal(model[1].last.weight, torch.ones(3, 4))
    with pytest.raises(ModelError, match="no layer 'fc' to count the classes of: give classes="):
        load_published(path, arch=arch)
    with pytest.raises(
        ConfigError, match=r"no default normalisation for published_net\.Net with 3 classes"
    ):
        load_published(path, arch=arch, classes=3)


# --- files that do not fit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "arguments", "parts"),
    [
        (
            {"state_dict": LeNet().state_dict()},
            {},
            ["name lenet, cifar_resnet", "found None: give arch="],
        ),
        (
            {"state_dict": LeNet().state_dict(), "arch": "cifar_densenet40"},
            {},
            ["'cifar_densenet40'"],
        ),
        ({"state_dict": LeNet().state_dict(), "arch": 7}, {}, ["found 7"]),
        (
            {"state_dict": LeNet().state_dict(), "arch": "lenet"},
            {"classes": 9},
            ["10 classes", "classes=9"],
        ),
        (
            {
                "state_dict": {f"other.{k}": v for k, v in LeNet().state_dict().items()},
                "arch": "lenet",
            },
            {},
            [
                "missing: conv1.weight, conv1.bias,",
                "unexpected: other.conv1.weight,",
                "other.fc2.bias",
            ],
        ),
        (
            {
                "state_dict": {**LeNet().state_dict(), "conv1.weight": torch.ones(20, 3, 5, 5)},
                "arch": "lenet",
            },
            {"classes": 10},
            [
                "of another form: conv1.weight (found float32 [20, 3, 5, 5], expected float32 [20, 1, 5, 5])"
            ],
        ),
        (
            {"state_dict": CifarResNet(8).state_dict(), "arch": "cifar_resnet14"},
            {},
            ["missing: layer1.1.conv1.weight", "and 22 more. "],
        ),
        (
            {"state_dict": {}, "arch": "lenet"},
            {},
            ["a state dict of named tensors, found an empty one"],
        ),
        ({"state_dict": {"a": torch.ones(1), "b": 3, 4: 5}, "arch": "lenet"}, {}, ["found b, 4"]),
        ({"weights": 3}, {"arch": "lenet"}, ["found weights"]),
        (torch.ones(3), {}, ["expected a dict with a state_dict, found a Tensor"]),
        ([1, 2], {}, ["found a list"]),
    ],
)
def test_misfits(path, content, arguments, parts):
    torch.save(content, path)
    with pytest.raises(ModelError) as error:
        load_published(path, **arguments)
    for part in (str(path), *parts):
        assert part in str(error.value)


def test_missing_last_layer_with_classes_given(path):
    state = LeNet().state_dict()
    del state["fc2.weight"]
    torch.save({"state_dict": state, "arch": "lenet"}, path)
    for arguments in ({}, {"classes": 4}):
        with pytest.raises(ModelError, match=r"missing: fc2\.weight"):
            load_published(path, **arguments)


def test_missing_and_unreadable_paths(tmp_path):
    with pytest.raises(ModelError, match=r"no checkpoint at .*absent"):
        load_published(tmp_path / "absent")
    with pytest.raises(ModelError, match="damaged or not a torch checkpoint"):
        load_published(tmp_path)


class Small(nn.Module):
    """Few bytes, so that every cut can be tried."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_every_truncation_is_refused(path, zipped):
    write(path, Small(), zipped=zipped, arch="resnet8")
    data = path.read_bytes()
    for length in range(0, len(data), 7 if zipped else 3):
        path.write_bytes(data[:length])
        with pytest.raises(
            ModelError, match=r"damaged or not a torch checkpoint|refused"
        ):  # a cut name is strange
            load_published(path)


@pytest.mark.parametrize(
    "content", [b"<html>404</html>" * 50, bytes(1000), b"\x80\x02" * 200, b"PK\x03\x04" * 99]
)
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ModelError, match="damaged or not a torch checkpoint"):
        load_published(path)


# --- files that mean harm ----------------------------------------------------------------------------------------


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def payloads(target):
    return [
        Payload(os.system, f"touch {target}"),
        Payload(eval, f"open({str(target)!r}, 'w')"),
        Payload(os.mkdir, str(target)),
        Payload(np.fromfile, str(target)),
    ]


def writers():
    return {
        "zip": lambda value, path: torch.save(value, path),
        "legacy": lambda value, path: torch.save(value, path, _use_new_zipfile_serialization=False),
        "pickle": lambda value, path: path.write_bytes(pickle.dumps(value)),
        "pickle protocol 2": lambda value, path: path.write_bytes(pickle.dumps(value, protocol=2)),
    }


@pytest.mark.parametrize("form", writers())
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("place", ["alone", "state_dict", "beside"])
def test_code_is_refused_and_never_runs(path, tmp_path, form, number, place):
    target = tmp_path / "harm"
    payload = payloads(target)[number]
    state = LeNet().state_dict() if form in ("zip", "legacy") else {}
    content = {
        "alone": payload,
        "state_dict": {"arch": "lenet", "state_dict": payload},
        "beside": {"arch": "lenet", "state_dict": state, "optimizer": payload},
    }[place]
    writers()[form](content, path)
    with pytest.raises(
        ModelError, match=r"refused, and nothing in it was run|damaged or not a torch checkpoint"
    ):
        load_published(path)
    assert not target.exists()


def test_the_payload_would_have_worked(tmp_path):
    """The test above means something only if plain pickle does run it."""
    target = tmp_path / "harm"
    pickle.loads(pickle.dumps(payloads(target)[2]))
    assert target.exists()


def test_refusal_names_the_object(path):
    torch.save({"arch": "lenet", "state_dict": Payload(os.system, "true")}, path)
    with pytest.raises(
        ModelError, match=r"found the Python object posix\.system, which could run code"
    ):
        load_published(path)


@pytest.mark.parametrize("arch", ["harmful.Net", "timm:resnet18", "torchvision:resnet18"])
def test_a_file_cannot_choose_what_is_imported(path, tmp_path, monkeypatch, arch):
    target = tmp_path / "harm"
    (tmp_path / "harmful.py").write_text(f"open({str(target)!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    write(path, LeNet(), arch=arch)
    with pytest.raises(ModelError, match="give arch="):
        load_published(path)
    assert not target.exists()


def test_allowance_for_numpy_ends_with_the_call(path):
    write(path, LeNet(), arch="lenet", best_acc=np.float64(0.5))
    load_published(path)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)
