"""Certificates are compared with attacks on the same network, also where another PyTorch certified it."""

import json

import numpy as np
import pytest
from torch import nn

from smoothcert.certification import smoothed
from smoothcert.data import Dataset
from smoothcert.report import empirical_rows, read_attacks
from smoothcert.runs.attack_rows import unlike
from tests.results import attack_with, certify_with
from tests.verification.simulated import recheck


class Turned(nn.Module):
    """The brightest of four pixels, counted on by `turn`, which is none of its weights."""

    def __init__(self, turn):
        super().__init__()
        self.turn = turn

    def forward(self, x):
        return x.flatten(1).roll(self.turn, 1) * 9

    def extra_repr(self):
        return f"turn={self.turn}"


def pixels():
    images = np.array([[[[250, 5], [5, 5]]], [[[5, 250], [5, 5]]]], np.uint8)
    return Dataset("pixels", "test", images, np.array([0, 1]), 4)


@pytest.mark.parametrize("version", ["", "torch 1.0"])
@pytest.mark.parametrize(("turn", "compared"), [(0, True), (1, False)])
def test_a_network_that_answers_otherwise_raises_no_alarm_about_certificates_of_another(
    tmp_path, version, turn, compared
):
    data = pixels()
    certificates = certify_with(Turned(0), data, tmp_path / "c", sigma=0.25, n0=10, n=200)
    path = certificates.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    words = manifest["identity"]["network"].rpartition(":")[2]
    manifest["identity"]["network"] = f"{version}:{words[::-1]}".lstrip(
        ":"
    )  # as another version would print it
    path.write_text(json.dumps(manifest))
    recheck(certificates, certificates.parts()[0])
    settings = {"sigma": 0.25, "radii": (0.0,), "n": 200, "noises": 2, "steps": 1}
    store = attack_with(Turned(turn), data, tmp_path / "a", certificates=certificates, **settings)
    (row,) = empirical_rows(read_attacks(store.folder))
    assert row.alarms == ()
    assert (row.certified is not None) == compared
    differing = unlike(store.manifest().described, certificates.manifest().described)
    assert differing == ([] if compared else ["network"])


@pytest.mark.parametrize(("certified", "times"), [("float32", 1), ("bfloat16", 2)])
def test_the_network_is_attacked_in_the_precision_that_it_was_certified_in(
    tmp_path, monkeypatch, certified, times
):
    """It must be prepared before it is known whether certificates are its own, and again only in another precision."""
    settings = {"sigma": 0.25, "n": 200}
    certificates = certify_with(
        Turned(0), pixels(), tmp_path / "c", n0=10, precision=certified, **settings
    )
    made, ready = [], smoothed.ready_network
    monkeypatch.setattr(
        smoothed, "ready_network", lambda *args, **more: made.append(1) or ready(*args, **more)
    )
    settings |= {"radii": (0.0,), "noises": 2, "steps": 1, "certificates": certificates}
    store = attack_with(Turned(0), pixels(), tmp_path / "a", **settings)
    assert (store.manifest().identity["precision"], len(made)) == (certified, times)
    asked = attack_with(Turned(0), pixels(), tmp_path / "asked", precision="float32", **settings)
    assert asked.manifest().identity["precision"] == "float32"
