"""From names to models, and the checks on what a model returns."""

import subprocess
import sys
import textwrap
from types import ModuleType

import pytest
import torch
from torch import nn

import smoothcert.models
from smoothcert.errors import ConfigError, MissingExtra, ModelError
from smoothcert.models import (
    MODELS,
    CifarResNet,
    LeNet,
    Normalise,
    ResNet50,
    build_model,
    check_shape,
)

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("arch", "classes", "normalisation", "first", "network", "blocks"),
    [
        ("lenet", 10, "none", nn.Identity, LeNet, None),
        ("resnet20", 10, "cifar10", Normalise, CifarResNet, 3),
        ("resnet110", 100, "cifar100", Normalise, CifarResNet, 18),
        ("resnet56", 10, "cifar10-mean", Normalise, CifarResNet, 9),
        ("resnet50", 1000, "imagenet", Normalise, ResNet50, 3),
    ],
)
def test_names(arch, classes, normalisation, first, network, blocks):
    model = build_model(arch, classes, normalisation)
    assert [type(part) for part in model] == [first, network]
    assert all(key.startswith("1.") for key in model.state_dict())
    assert list(model.parameters())[-1].shape == (classes,)
    if blocks:
        assert len(model[1].layer1) == blocks


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("lenett", "unknown model 'lenett': did you mean lenet?"),
        ("cifar_resnet110", "did you mean resnet110"),
        ("vgg", "unknown model 'vgg': known: .*resnet110"),
        ("no_package:vgg", "importing 'no_package' failed"),
        ("keras:", "unknown model 'keras:'"),
        ("..", "unknown model"),
        ("", "unknown model"),
        ("resnet18", r"6n\+2.*not 18"),
    ],
)
def test_unknown_names(arch, message):
    with pytest.raises(ConfigError, match=message):
        build_model(arch)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arch": "lenet", "classes": 1}, "at least 2 classes, not 1"),
        (
            {"arch": "lenet", "width": 3},
            "'lenet' does not take the arguments width: .*'width'",
        ),
        ({"arch": "resnet20", "depth": 8}, "'resnet20' does not take the arguments depth"),
        (
            {"arch": "lenet", "normalisation": "cifr10"},
            "unknown normalisation 'cifr10': did you mean cifar10",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ConfigError, match=message):
        build_model(**arguments)


def test_seed_alone_decides_the_weights():
    def weights(seed):
        return torch.cat([p.flatten() for p in build_model("resnet8", seed=seed).parameters()])

    torch.manual_seed(1)
    first = weights(5)
    torch.manual_seed(2)
    assert torch.equal(weights(5), first)
    assert not torch.equal(weights(6), first)
    assert not torch.equal(weights(None), weights(None))


def test_seed_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    build_model("lenet", seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    build_model("lenet")
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.cuda
def test_seed_is_the_same_under_a_cuda_default_device():
    before = torch.cuda.get_rng_state()
    with torch.device("cuda"):
        model = build_model("lenet", seed=3)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert torch.equal(model[1].conv1.weight, build_model("lenet", seed=3)[1].conv1.weight)


# --- networks from elsewhere -------------------------------------------------------------------------------------


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """A package `ownnets` in the working directory, which is not on the path."""
    package = tmp_path / "ownnets"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text(
        textwrap.dedent("""
            from torch import nn
            number = 3
            class Linear(nn.Sequential):
                def __init__(self, classes, size=4):
                    super().__init__(nn.Flatten(), nn.Linear(size, classes))
            def fixed():
                return Linear(10)
            def wrong(classes):
                return classes, "no network"
        """)
    )
    (package / "broken.py").write_text("import does_not_exist_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "ownnets"]:
        del sys.modules[name]


@pytest.mark.usefixtures("own_package")
def test_own_network_by_dotted_path():
    model = build_model("ownnets.nets.Linear", 3, "cifar10", size=12)
    assert model(torch.zeros(5, 3, 2, 2)).shape == (5, 3)
    assert list(model.state_dict()) == ["1.1.weight", "1.1.bias"]


@pytest.mark.usefixtures("own_package")
@pytest.mark.parametrize(
    ("arch", "error", "message"),
    [
        (
            "nowhere.nets.Linear",
            ConfigError,
            "model 'nowhere.nets.Linear': importing 'nowhere.nets' failed",
        ),
        (
            "ownnets.broken.Net",
            ConfigError,
            "ModuleNotFoundError: No module named 'does_not_exist_at_all'",
        ),
        ("ownnets.nets.Liner", ConfigError, "expected 'Liner' in .*nets.py, found nothing"),
        ("ownnets.nets.number", ModelError, "found a int"),
        ("ownnets.nets.wrong", ModelError, "expected a torch.nn.Module, got a tuple of 2"),
        ("ownnets/nets.py:Liner", ConfigError, "expected 'Liner' in .*nets.py, found nothing"),
        ("ownnets/nots.py:Linear", ConfigError, "expected a file at .*nots.py, found none"),
        ("ownnets.py", ConfigError, "write ownnets.py:NAME"),
    ],
)
def test_own_network_errors(arch, error, message):
    with pytest.raises(error, match=message):
        build_model(arch)


def net(num_classes, **options):
    layer = nn.Linear(4, num_classes)
    layer.options = options
    return layer


@pytest.fixture
def stand_ins(monkeypatch):
    """timm and torchvision with the few functions that are called."""
    timm, torchvision = ModuleType("timm"), ModuleType("torchvision")
    timm.is_model = lambda name: name == "vit_tiny"
    timm.list_models = lambda: ["vit_tiny", "vit_small"]
    timm.create_model = lambda name, **options: net(**options)
    torchvision.models = ModuleType("torchvision.models")
    torchvision.models.list_models = lambda module: (
        ["resnet18", "resnet34"] if module.get_model else []
    )
    torchvision.models.get_model = lambda name, **options: net(**options)
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize(
    ("arch", "misspelt", "message"),
    [
        (
            "timm:vit_tiny",
            "timm:vit_tinny",
            "unknown timm model 'vit_tinny': did you mean vit_tiny",
        ),
        (
            "torchvision:resnet18",
            "torchvision:resnet19",
            "unknown torchvision model 'resnet19': did you mean",
        ),
    ],
)
def test_networks_of_other_libraries(arch, misspelt, message):
    model = build_model(arch, 7, dropout=0.5)
    assert model(torch.zeros(2, 4)).shape == (2, 7)
    assert model[1].options == {"dropout": 0.5}
    with pytest.raises(ConfigError, match=message):
        build_model(misspelt)


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_absent_library(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtra, match=rf"needs the package '{package}'.*smoothcert\[{package}\]"
    ):
        build_model(f"{package}:resnet18")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "raise RuntimeError('operator nms does not exist')",
            "does not import .*operator nms.*belongs to",
        ),
        ("import does_not_exist_at_all", "timm needs the module 'does_not_exist_at_all'"),
    ],
)
def test_library_that_does_not_import(code, message, tmp_path, monkeypatch):
    (tmp_path / "timm.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(ModelError, match=message):
        build_model("timm:vit_tiny")


# --- what a model returns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            torch.zeros(4, 9),
            r"logits \[4, 10\] .* returned a tensor \[4, 9\]: build it with the .* of classes",
        ),
        (torch.zeros(4), r"a tensor \[4\]"),
        (torch.zeros(4, 10, 1, 1), r"a tensor \[4, 10, 1, 1\]"),
        (
            (torch.zeros(4, 10), torch.zeros(4, 10)),
            "returned a tuple of 2: .* returns its logits alone",
        ),
        ({"logits": torch.zeros(4, 10)}, "a dict of 1"),
        (None, "a NoneType"),
    ],
)
def test_bad_output(output, message):
    with pytest.raises(ModelError, match=message):
        check_shape(output, 4, 10)


def test_good_output():
    logits = torch.zeros(2, 2)
    assert check_shape(logits, 2, 2) is logits


# --- the package itself ------------------------------------------------------------------------------------------


def test_metadata_needs_no_torch():
    code = (
        "import sys, smoothcert.models as m; m.MODELS; dir(m);"
        "assert 'torch' not in sys.modules; m.LeNet; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names():
    assert {
        name for name in dir(smoothcert.models) if getattr(smoothcert.models, name, None) is None
    } == set()
    assert all("\n" not in line for line in MODELS.values())
    with pytest.raises(AttributeError, match="no attribute 'LeNett'"):
        smoothcert.models.LeNett  # noqa: B018
