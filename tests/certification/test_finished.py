"""A store that is finished needs no workers: Ray is not even imported."""

import sys

import numpy as np
import pytest

from smoothcert.data import Dataset
from smoothcert.errors import MissingExtra
from smoothcert.models import build_model
from smoothcert.runs.selection import Selection
from tests.results import certify_with

SETTINGS = {"sigma": 0.5, "n0": 8, "n": 100, "alpha": 0.001, "quiet": True}
RAY = {"executor": "ray", "address": "auto"}


def images(seed=0):
    rng = np.random.default_rng(seed)
    return Dataset("noise", "test", rng.integers(0, 256, (6, 1, 28, 28)).astype(np.uint8), np.arange(6), 10)


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # whoever imports it fails, also where it is installed


@pytest.fixture(scope="module")
def model():
    return build_model("lenet", seed=0)


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory):
    """A folder with a store that no test may change."""
    return certify_with(model, images(), tmp_path_factory.mktemp("finished"), **asked(seed=0)).folder


def asked(**changes):
    chosen = {"start": 0, "every": 2, "max": 2} | changes.pop("selection", {})
    return {**SETTINGS, "selection": Selection(**chosen), "device": "cpu", **changes}


@pytest.mark.parametrize("procedure", [{}, {"radii": (0.0, 0.25)}, {"tolerance": 0.1}, {"simultaneous": True}])
def test_nothing_is_started_where_nothing_is_to_do(model, tmp_path, procedure):
    made = certify_with(model, images(), tmp_path, **asked(**procedure))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for device in ("auto", "cpu", None):
        again = certify_with(model, images(), tmp_path, **asked(**procedure) | RAY | {"device": device})
        assert again.done() == made.done() == {0, 2}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_shard_that_is_done_and_fewer_inputs_have_nothing_to_do(model, tmp_path):
    certify_with(model, images(), tmp_path, **asked(selection={"shard": 1, "shards": 2}))
    certify_with(model, images(), tmp_path, **asked(selection={"shard": 1, "shards": 2}) | RAY)
    with pytest.raises(MissingExtra):
        certify_with(model, images(), tmp_path, **asked() | RAY)
    certify_with(model, images(), tmp_path, **asked())
    certify_with(model, images(), tmp_path, **asked(selection={"max": 1}) | RAY)


@pytest.mark.parametrize(
    "change",
    [
        {"selection": {"max": 3}},
        {"selection": {"start": 2}},
        {"selection": {"every": 1}},
        {"n": 101},
        {"alpha": 0.002},
        {"sigma": 0.25},
        {"noise": "float"},
        {"seed": 1},
        {"beacon": "of today"},
        {"radii": (0.0,)},
        {"tolerance": 0.1},
        {"skip_wrong": True},
        {"simultaneous": True},
        {"precision": "float16"},
        {"kernels": "off"},
        {"device": "cuda"},
    ],
)
def test_other_settings_are_for_the_workers_to_refuse_or_do(model, finished, change):
    with pytest.raises(MissingExtra):
        certify_with(model, images(), finished, **asked(**{"seed": 0} | change) | RAY)


def test_another_network_and_other_data_are_not_finished(model, finished):
    for network, data in ((build_model("lenet", seed=1), images()), (model, images(1))):
        with pytest.raises(MissingExtra):
            certify_with(network, data, finished, **asked(seed=0) | RAY)


def test_all_inputs_at_once_share_alpha_among_the_same_inputs(model, tmp_path):
    certify_with(model, images(), tmp_path, **asked(simultaneous=True))
    with pytest.raises(MissingExtra):
        certify_with(model, images(), tmp_path, **asked(simultaneous=True, selection={"max": 1}) | RAY)
