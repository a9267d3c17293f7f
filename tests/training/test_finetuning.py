"""Starting from the weights of another run or of a published checkpoint."""

import dataclasses
import shutil

import pytest
import torch

from smoothcert.config import TrainConfig
from smoothcert.errors import ConfigError, ModelError, StoreError
from smoothcert.models import build_model
from smoothcert.models.start import start_from, start_from_file
from smoothcert.runs.folder import RunFolder
from smoothcert.training.fit import fit
from tests.training.tiny import CONFIG, tiny

# no learning: what comes out is what it started from, but for BatchNorm's statistics
STILL = dataclasses.replace(CONFIG, epochs=1, lr=1e-30, weight_decay=0.0, evaluate_every=0)


def train(out, config, data=None):
    return fit(config, out, train=data or tiny(), device="cpu", quiet=True)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return train(
        tmp_path_factory.mktemp("runs") / "source",
        dataclasses.replace(CONFIG, epochs=1, evaluate_every=0),
    )


def weights(run):
    return dict(run.load_model(trust_code=True)[0].named_parameters())


def test_a_run_starts_from_another(source, tmp_path):
    found = weights(
        train(tmp_path / "run", dataclasses.replace(STILL, init_from=str(source.path), seed=5))
    )
    for name, value in weights(source).items():
        assert torch.equal(found[name], value), name


def test_the_last_layer_is_new_where_the_classes_differ(source, tmp_path):
    more = dataclasses.replace(tiny(), classes=7)
    found = weights(
        train(
            tmp_path / "run", dataclasses.replace(STILL, init_from=str(source.path), seed=5), more
        )
    )
    fresh = weights(train(tmp_path / "fresh", dataclasses.replace(STILL, seed=5), more))
    for name, value in weights(source).items():
        expected = fresh[name] if "body.5" in name else value
        assert torch.equal(found[name], expected), name


def test_a_run_starts_from_a_published_checkpoint(tmp_path):
    published = build_model("resnet20", 1000, "cifar10", seed=0)
    torch.save(
        {"arch": "cifar_resnet20", "state_dict": published.state_dict()},
        tmp_path / "checkpoint.pth.tar",
    )
    model = build_model("resnet20", 10, "cifar10", seed=1)
    head = {name: value.clone() for name, value in model.state_dict().items() if ".fc." in name}
    start_from_file(model, tmp_path / "checkpoint.pth.tar", 10)
    for name, value in model.state_dict().items():
        assert torch.equal(value, head[name] if name in head else published.state_dict()[name]), (
            name
        )


def test_weights_that_do_not_fit_are_refused(source, tmp_path):
    trained, _ = source.load_model(trust_code=True)
    with pytest.raises(ModelError, match="does not fit the model"):
        start_from(build_model("tests.training.tiny.Plain", 4), trained, 4, 4, "somewhere")
    with pytest.raises(StoreError, match="is not a run folder"):
        train(tmp_path / "b", dataclasses.replace(STILL, init_from=str(tmp_path)))
    with pytest.raises(ModelError, match="no checkpoint at"):
        train(tmp_path / "c", dataclasses.replace(STILL, init_from=str(tmp_path / "nothing.pth")))
    headless = torch.nn.Linear(3, 3)
    with pytest.raises(ModelError, match="no layer of the network has one row per class"):
        start_from(headless, torch.nn.Linear(3, 3), 5, 4, "somewhere")


def test_a_resumed_run_goes_on_from_its_own_state(source, tmp_path):
    config = dataclasses.replace(CONFIG, init_from=str(source.path), epochs=2, evaluate_every=0)
    whole = train(tmp_path / "whole", config)
    run = train(tmp_path / "run", config)
    (run.path / "model.json").unlink()
    assert torch.equal(
        weights(train(run.path, config))["1.body.0.weight"], weights(whole)["1.body.0.weight"]
    )
    assert isinstance(RunFolder(run.path).config(), TrainConfig)
    with pytest.raises((StoreError, ConfigError), match="init_from"):
        train(run.path, dataclasses.replace(config, init_from=None))


def test_a_finished_run_needs_its_source_no_more(source, tmp_path):
    start = tmp_path / "start"
    shutil.copytree(source.path, start)
    config = dataclasses.replace(CONFIG, init_from=str(start))
    run = fit(config, tmp_path / "run", train=tiny(), device="cpu", quiet=True)
    before = (run.path / "weights.safetensors").read_bytes()
    shutil.rmtree(start)
    fit(config, tmp_path / "run", train=tiny(), device="cpu", quiet=True)
    assert (run.path / "weights.safetensors").read_bytes() == before


# ---------------------------------------------------------------- weights of anyone's

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes=4, width=6):
        super().__init__()
        self.body = nn.Linear(64, width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)).relu())

def trained(classes):
    net = Net(classes)
    nn.init.constant_(net.body.bias, 3.0)
    return net
"""


@pytest.fixture
def nets(tmp_path):
    (tmp_path / "own_nets.py").write_text(NETS)
    return tmp_path / "own_nets.py"


def own(nets, **changes):
    found = {"model": f"{nets}:Net", "normalisation": "mean=0.5 std=0.25", **changes}
    return dataclasses.replace(STILL, **found)


def test_own_code_starts_from_a_plain_file_of_weights(nets, tmp_path):
    given = build_model(f"{nets}:Net", 9, width=5, seed=3).get_submodule("1").state_dict()
    torch.save(
        {"epoch": 3, "model": {f"module.{name}": value for name, value in given.items()}},
        tmp_path / "w.pth",
    )
    config = own(nets, init_from=str(tmp_path / "w.pth"), model_options={"width": 5})
    run = train(tmp_path / "run", config)
    found = weights(run)
    assert torch.equal(found["1.body.weight"], given["body.weight"])
    assert found["1.head.weight"].shape == (4, 5)  # new: the file has 9 classes
    spec = run.spec()
    assert (spec.options, spec.normalisation) == ({"width": 5}, "mean=0.5 std=0.25")
    assert "mean=[0.5], std=[0.25]" in repr(run.load_model(trust_code=True)[0])
    with pytest.raises(ModelError, match="does not fit the model"):
        train(
            tmp_path / "other",
            own(nets, init_from=str(tmp_path / "w.pth"), model_options={"width": 8}),
        )
    assert not (tmp_path / "other").exists()


def test_pretrained_means_as_the_network_comes(nets, tmp_path):
    config = own(nets, model=f"{nets}:trained", init_from="pretrained", normalisation="pretrained")
    run = train(tmp_path / "run", config)
    assert torch.equal(weights(run)["1.body.bias"], torch.full((6,), 3.0))
    assert run.spec().normalisation == "none"
    with pytest.raises(ConfigError, match="lenet has no weights of its own: give init_from"):
        train(tmp_path / "b", dataclasses.replace(config, model="lenet"))


def test_a_run_folder_says_the_normalisation_and_the_options_of_its_network(nets, tmp_path):
    first = train(tmp_path / "first", own(nets, model_options={"width": 5}))
    config = own(nets, init_from=str(first.path), normalisation="pretrained", seed=8)
    second = train(tmp_path / "second", config)
    assert second.spec().normalisation == first.spec().normalisation
    assert second.spec().options == {"width": 5}
    assert torch.equal(weights(second)["1.body.weight"], weights(first)["1.body.weight"])
