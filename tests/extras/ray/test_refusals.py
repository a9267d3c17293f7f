"""Networks, workers and clusters that `--ray` refuses before anything is written."""

import functools
import os

import pytest
import torch
from torch import nn

from smoothcert.certification.certifier import Certifier
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError, ModelError, StoreError
from tests.extras.ray.clusters import MARKS, NODE, SETTINGS, certify, until
from tests.results import certify_with

pytestmark = MARKS


class Mixing(nn.Module):
    def forward(self, x):
        flat = x.flatten(1)
        return (flat - flat.mean(0))[:, :10]


def test_a_network_that_is_refused_is_refused_before_anything_is_written(cluster, data, tmp_path):
    with pytest.raises(ModelError, match="the other images in its batch"):
        certify(cluster, Mixing(), data, tmp_path / "ray")
    assert not (tmp_path / "ray").exists()


class Scaled(nn.Module):
    """Answers otherwise where the environment of its process says so."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(28 * 28, 10)

    def forward(self, x):
        return self.layer(x.flatten(1)) * float(os.environ.get("SCALE", "1"))


def test_a_worker_that_would_make_other_rows_is_not_used(cluster, data, capsys):
    from smoothcert.certification.ray_workers import RayWorkers

    config = CertifyConfig(sigma=0.5, n0=32, n=200, kernels="off")
    make = functools.partial(
        Certifier, Scaled(), 10, config, data.image(0), seed=1, alpha=0.001, batch_size=100
    )

    def read(names):
        return names, [data.image(index) for index in names], [0] * len(names)

    with RayWorkers(make, read, "cpu", cluster.address) as workers:
        cluster.add_node(**NODE, env_vars={"SCALE": "2"})
        said = []

        def refused():
            assert workers.collect() == []
            said.append(capsys.readouterr().err)
            return "a worker is not used" in said[-1]

        until(refused)
        assert "answers probe images differently" in said[-1]
        assert workers.note == "1 worker"
        workers.submit([0])
        workers.submit([1])
        assert not workers.idle  # the other one gets nothing
        made = []
        until(lambda: made.extend(workers.collect()) or len(made) == 2)
        assert [list(group.names) for group in made] == [[0], [1]]


def test_workers_of_another_version_are_refused(cluster, model, data, tmp_path, monkeypatch):
    monkeypatch.setattr("smoothcert.__version__", "0.0.1")
    with pytest.raises(StoreError, match=r"no worker .* and the command 0\.0\.1"):
        certify(cluster, model, data, tmp_path / "ray")
    assert not (tmp_path / "ray").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="the node only says that it has a GPU")
def test_gpus_of_the_cluster_are_taken_where_it_has_any(cluster, model, data, tmp_path):
    cluster.add_node(**NODE, num_gpus=1)
    for device in (None, "cuda"):
        with pytest.raises(StoreError, match=r"no worker .* sees no GPU"):
            certify(cluster, model, data, tmp_path / "ray", device=device)
    assert not (tmp_path / "ray").exists()


def test_places_that_are_not_there_are_named(head, model, data, tmp_path):
    with pytest.raises(ConfigError, match=r"no Ray cluster to join at address 127\.0\.0\.1:1"):
        certify_with(model, data, tmp_path, executor="ray", address="127.0.0.1:1", **SETTINGS)
    with pytest.raises(ConfigError, match="device is auto, cpu or cuda, found cuda:1"):
        certify(head, model, data, tmp_path, device="cuda:1")
