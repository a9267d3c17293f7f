"""Certificates, logs and stores made by hand."""

import json

import numpy as np
import pytest

from smoothcert.report import Certificates

HEADER = ["idx", "label", "predict", "radius", "correct", "time"]
OURS = ["n0", "n", "counts0", "counts", "p_lower", "multiclass_radius", "noise", "seed"]


@pytest.fixture(scope="session")
def make():
    """`make([0.5, 1.0], correct=[1, 0])`: certificates with these radii; not correct means an abstention."""

    def build(radius, correct=None, **changes):
        rows = len(radius)
        correct = np.ones(rows, bool) if correct is None else np.array(correct, bool)
        values = {
            "name": "run",
            "idx": np.arange(rows),
            "label": np.zeros(rows, np.int64),
            "predict": np.where(correct, 0, -1),
            "radius": np.array(radius, np.float64),
            "correct": correct,
        }
        return Certificates(**(values | changes))

    return build


@pytest.fixture
def write_log(tmp_path):
    """Write rows of (idx, label, predict, radius) as the field's log; the text of `tail` follows as it is."""

    def write(rows, name="noise_0.5.tsv", *, columns=HEADER, newline="\n", tail=""):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ["\t".join(columns)]
        for idx, label, predict, radius in rows:
            values = dict(zip(HEADER, (idx, label, predict, radius, int(label == predict), "0:00:01.25"), strict=True))
            lines.append("\t".join(str(values.get(column, "x")) for column in columns))
        path.write_bytes((newline.join(lines) + newline + tail).encode())
        return path

    return write


@pytest.fixture
def write_store(tmp_path):
    """Write RUN/certify/NAME with one part file for each list of (idx, label, predict, radius)."""

    def write(*parts, run="run", name="test", inputs=4, tail="", **identity):
        folder = tmp_path / run / "certify" / name
        folder.mkdir(parents=True)
        settings = {"sigma": 0.5, "n0": 100, "n": 1000, "alpha": 0.001, "seed": 0, "noise": "quantised"} | identity
        manifest = {"identity": settings, "inputs": inputs, "environment": {"smoothcert": "0.1.0"}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        for shard, rows in enumerate(parts):
            lines = ["\t".join(HEADER + OURS)]
            for idx, label, predict, radius in rows:
                fixed = [f"0:00:0{shard}.5", 100, 1000, f"{label}:100", f"{label}:1000", 0.99, radius, "quantised", 0]
                lines.append("\t".join(map(str, [idx, label, predict, radius, int(label == predict), *fixed])))
            text = "\n".join(lines) + "\n" + (tail if shard == 0 else "")
            (folder / f"part-{shard}-of-{len(parts)}.tsv").write_text(text)
        return folder

    return write
