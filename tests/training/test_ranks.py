"""The device, and several processes that train as one."""

import dataclasses
import os
import subprocess
import sys

import pytest
import torch

from smoothcert.devices.pick import pick_device
from smoothcert.errors import ConfigError
from smoothcert.runs.folder import RunFolder
from smoothcert.training.ranks import join_ranks
from tests.processes import run_ranks
from tests.training.tiny import CONFIG, HERE, SAMPLED, train, train_as_rank


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


CLEAN = dataclasses.replace(CONFIG, method={"name": f"{HERE}.Clean"}, model=f"{HERE}.Plain", epochs=2)
SCRIPT = """
import os, sys
from tests.training.test_ranks import CLEAN, train
train(sys.argv[1], CLEAN)
os._exit(0)  # PyTorch's threads now and then abort a process that exits on a busy machine
"""


def test_two_processes_train_like_one(tmp_path):
    """torchrun with two CPU ranks and no noise: the averaged gradient is the gradient of the whole batch."""
    alone = train(tmp_path / "alone", CLEAN)
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command += [str(tmp_path / "script.py"), str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    two = RunFolder(tmp_path / "two")
    one, other = (run.load_model(trust_code=True)[0].state_dict() for run in (alone, two))
    for name in one:
        assert torch.allclose(one[name], other[name], atol=1e-5), name
    losses = [[entry["loss"] for entry in run.records("metrics.jsonl")] for run in (alone, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_two_processes_draw_the_images_that_one_draws(tmp_path):
    """Hardly any noise: both discard and weigh the same images, and take the same steps on them."""
    method = {**SAMPLED.method, "noises": 1}  # ranks cut their own shares of a batch, so more would be other steps
    config = dataclasses.replace(SAMPLED, method=method, model=f"{HERE}.Plain", sigma=1e-6, lr=0.002)
    alone = train(tmp_path / "alone", config)
    run_ranks(train_as_rank, tmp_path / "two", config)
    two = RunFolder(tmp_path / "two")
    one, other = (run.load_state() for run in (alone, two))
    assert torch.equal(one["sampling"], other["sampling"])
    assert 0 < int((one["sampling"] == 0).sum()) < 150
    for name in one["model"]:
        assert torch.allclose(one["model"][name], other["model"][name], atol=1e-5), name
