"""Status lines from records that are complete, old, thin or damaged."""

import json

import pytest

from smoothcert.runs.manifest import Manifest
from tests.results import status_lines
from tests.runs.rows import IDENTITY

FULL = {"device": "NVIDIA H200", "precision": "tf32", "kernels": "LeNet kernels 2", "skipped": []}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "model.json").write_text("{}")  # as of an imported model
    return tmp_path


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (FULL, "  computed on NVIDIA H200, tf32, LeNet kernels 2"),
        (
            {**FULL, "kernels": None, "skipped": ["no kernels: switched off by kernels: off"]},
            "  computed on NVIDIA H200, tf32, PyTorch alone (no kernels: switched off by kernels: off)",
        ),
        ({"device": "x86_64", "skipped": None}, "  computed on x86_64, PyTorch alone"),
        ({}, "  computed on an unknown device, PyTorch alone"),
    ],
)
def test_how_weights_were_made(run, record, line):
    (run / "environment.jsonl").write_text(
        json.dumps({"device": "an older start"}) + "\n" + json.dumps(record) + "\n"
    )
    assert status_lines(run) == [f"{run}: imported model", line]


def test_a_damaged_record_of_the_environment_hides_nothing_else(run):
    (run / "environment.jsonl").write_text("{\n{}\n")
    assert status_lines(run) == [f"{run}: imported model"]


@pytest.mark.parametrize(
    ("identity", "environment", "lines"),
    [
        ({}, {}, []),
        (
            {"precision": "float16", "prepared": ["folded", "channels last"]},
            {"device": "NVIDIA H200", "skipped": ["no kernels: another network"]},
            [
                "    computed on NVIDIA H200, float16, folded, channels last (no kernels: another network)"
            ],
        ),
        ({}, {"skipped": []}, ["    computed on an unknown device, float32, PyTorch alone"]),
    ],
)
def test_how_certificates_are_computed(run, identity, environment, lines):
    store = run / "certify" / "test"
    store.mkdir(parents=True)
    manifest = Manifest({**IDENTITY, **identity}, 3, environment)
    (store / "manifest.json").write_bytes(manifest.written())
    _, second, *rest = status_lines(run)
    assert (
        second == "  certify test: 0 of 3 inputs done, 3 missing (n 1000, alpha 0.001, exact noise)"
    )
    assert rest == lines
