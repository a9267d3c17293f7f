"""`--ray` makes the rows of one process, whatever workers, nodes and drivers are lost meanwhile."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.data import Dataset
from smoothcert.errors import ModelError
from smoothcert.models import build_model
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore
from tests.extras.ray.clusters import (
    INPUTS,
    MARKS,
    NODE,
    SETTINGS,
    actors,
    certify,
    moments,
    table,
    until,
    watched,
)
from tests.processes import Child
from tests.results import certify_with

pytestmark = MARKS


def test_the_rows_are_those_of_one_process_and_either_resumes_the_other(
    cluster, model, data, tmp_path, reference
):
    cluster.add_node(**NODE)  # two workers
    some = Selection(max=5)
    certify_with(model, data, tmp_path / "here", selection=some, **SETTINGS)
    assert table(certify(cluster, model, data, tmp_path / "here")) == reference
    certify(cluster, model, data, tmp_path / "there", selection=some)
    assert '"rechecked": 0' not in (tmp_path / "there" / "checks.jsonl").read_text()
    assert table(certify_with(model, data, tmp_path / "there", **SETTINGS)) == reference


def test_others_do_what_a_killed_worker_had(cluster, model, data, tmp_path, reference, capsys):
    killed = []

    def kill():
        killed.extend(actors())
        os.kill(killed[0], signal.SIGKILL)

    moments[10] = kill
    assert table(certify(cluster, model, data, tmp_path / "ray", quiet=False)) == reference
    assert len(killed) == 1
    assert "a worker is gone" in capsys.readouterr().err


def test_a_node_may_leave_and_another_one_join(cluster, model, data, tmp_path, reference, capsys):
    def exchange():
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(**NODE)

    moments[10] = exchange
    assert table(certify(cluster, model, data, tmp_path / "ray", quiet=False)) == reference
    assert "a worker is gone" in capsys.readouterr().err


def certify_until(report, address, out):
    """Of a child: it waits for ever before it reads input 10."""
    data = watched()
    moments[10] = lambda: (report(actors()), signal.pause())
    certify_with(
        build_model("lenet", seed=0), data, out, executor="ray", address=address, **SETTINGS
    )


def test_workers_end_with_a_killed_driver_and_the_same_command_resumes(
    cluster, model, data, tmp_path, reference
):
    out = tmp_path / "ray"
    child = Child(certify_until, cluster.address, out)
    (worker,) = child.next_report()
    assert child.kill()
    until(lambda: not Path(f"/proc/{worker}").exists())
    before = table(ResultStore(out))
    assert 0 < len(before) < INPUTS
    assert table(certify(cluster, model, data, out)) == reference
    assert before.items() <= reference.items()


class Deadly(nn.Module):
    """Ends its process when it sees an image that is a chessboard but for some noise."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        flat = x.flatten(1)
        if bool(((flat[:, ::2].mean(1) > 0.9) & (flat[:, 1::2].mean(1) < 0.1)).any()):
            os._exit(1)
        return flat[:, :2] * self.scale


def test_an_input_at_which_three_workers_die_ends_the_command(cluster, tmp_path):
    images = np.zeros((8, 1, 4, 4), np.uint8)
    images[5].reshape(-1)[::2] = 255
    data = Dataset("mine", "test", images, np.zeros(8, np.int64), 2)
    with pytest.raises(ModelError, match=r"5.* 3 workers failed"):
        certify(cluster, Deadly(), data, tmp_path, sigma=0.05, kernels="off")
    done = ResultStore(tmp_path).done()
    assert 0 in done
    assert 5 not in done
