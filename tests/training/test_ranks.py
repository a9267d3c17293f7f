import pytest
import torch

from smoothcert.devices.pick import pick_device
from smoothcert.errors import ConfigError
from smoothcert.training.ranks import join_ranks


def test_auto_is_cuda_where_there_is_one():
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["tpu", "gpu0", "meta", "cuda:99"])
def test_unusable_devices_are_refused(name):
    with pytest.raises(ConfigError, match="device"):
        pick_device(name)


def test_one_process_is_the_main_one(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    ranks = join_ranks("cpu")
    assert (ranks.rank, ranks.world_size, ranks.is_main) == (0, 1, True)
    assert ranks.sum(torch.ones(2)).tolist() == [1.0, 1.0]
