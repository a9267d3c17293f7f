"""Checkpoints by others than the field: the names under which they keep a state dict, and the prefixes in it."""

import pytest
import torch
from torch import nn

from smoothcert.models import LeNet, load_published, weights_hash


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.pt"


@pytest.mark.parametrize("key", ["state_dict", "net", "model_state_dict", "model", None])
@pytest.mark.parametrize(
    "prefix",
    ["", "model.", "net.", "network.1.", "model._orig_mod.", "_orig_mod.module.", "model.net."],
)
def test_the_names_that_others_save_by(path, key, prefix):
    """PyTorch's tutorial, Lightning, torch.compile and DataParallel around one another."""
    net = LeNet()
    state = {prefix + name: value for name, value in net.state_dict().items()}
    torch.save(state if key is None else {key: state, "epoch": 3}, path)
    model, _ = load_published(path, arch="lenet")
    assert weights_hash(model[1]) == weights_hash(net)


class Wrapped(nn.Module):
    """A network of the user's whose own names begin with what is elsewhere a prefix."""

    def __init__(self, classes):
        super().__init__()
        self.net = LeNet(classes)

    def forward(self, x):
        return self.net(x)


@pytest.mark.parametrize("prefix", ["", "model."])
def test_names_of_the_network_itself_are_no_prefix(path, prefix):
    net = Wrapped(10)
    torch.save(
        {"state_dict": {prefix + name: value for name, value in net.state_dict().items()}}, path
    )
    arch = f"{__name__}.Wrapped"
    model, _ = load_published(path, arch=arch, classes=10, normalisation="none")
    assert weights_hash(model[1]) == weights_hash(net)
