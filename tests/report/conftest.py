"""Certificates, logs and stores made by hand, and a browser."""

import numpy as np
import pytest

from smoothcert.certification.certifier import certificate_row
from smoothcert.report import Certificates
from smoothcert.runs.identity import digest_of
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.rows import COLUMNS
from smoothcert.runs.store import row_check
from smoothcert.statistics import bounds
from tests.counted import sampled
from tests.report.attack_stores import ABOUT, ABSTAIN, RIGHT, WRONG, write_attacks
from tests.runs.rows import IDENTITY

HEADER = ["idx", "label", "predict", "radius", "correct", "time"]


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
            values = dict(
                zip(
                    HEADER,
                    (idx, label, predict, radius, int(label == predict), "0:00:01.25"),
                    strict=True,
                )
            )
            lines.append("\t".join(str(values.get(column, "x")) for column in columns))
        path.write_bytes((newline.join(lines) + newline + tail).encode())
        return path

    return write


@pytest.fixture
def write_store(tmp_path):
    """Write RUN/certify/NAME with one part file for each list of (idx, label, predict, radius).

    Each row has counts whose radius is the nearest to the one asked for; an abstention has half of them.
    """

    def write(*parts, run="run", name="test", inputs=4, tail="", **identity):
        folder = tmp_path / run / "certify" / name
        folder.mkdir(parents=True)
        every = 20 if any(row[0] >= 20 for rows in parts for row in rows) else 1
        settings = {**IDENTITY, "classes": 10, "start": 0, "every": every, **identity}
        for follows in ("procedure", "norm", "tau"):  # what the other settings decide
            settings.pop(follows, None)
        settings = {key: value for key, value in settings.items() if value is not None}
        environment = {"smoothcert": "0.1.0"}
        manifest = Manifest(settings, inputs, environment)
        (folder / "manifest.json").write_bytes(manifest.written())
        digest = digest_of(settings, inputs)
        for shard, rows in enumerate(parts):
            part = f"part-{shard}-of-{len(parts)}"
            lines = ["\t".join(COLUMNS)]
            for idx, label, predict, radius in rows:
                certificate = _certificate(
                    label if predict < 0 else predict,
                    None if predict < 0 else float(radius),
                    manifest.procedure,
                )
                cells = certificate_row(certificate, index=idx, label=label)
                cells["time"] = f"0:00:0{shard}.5"
                line = "\t".join(str(cells[column]) for column in COLUMNS[:-1])
                lines.append(f"{line}\t{row_check(digest, line)}")
            text = "\n".join(lines) + "\n" + (tail if shard == 0 else "")
            (folder / f"{part}.tsv").write_text(text)
        return folder

    return write


def _certificate(selected, radius, test):
    """The certificate of a class with about this radius; without one, of a class that half of the samples name."""
    radii = test.law.radius(bounds.lower_bound(np.arange(test.n + 1), test.n, test.alpha), 0.5)
    near = np.where(radii > 0, np.abs(radii - (radius or 0)), np.inf).argmin()
    shares = np.zeros(10)
    top = test.n // 2 if radius is None else int(near)
    shares[selected], shares[(selected + 1) % 10] = top / test.n, 1 - top / test.n
    counts0 = np.where(np.arange(10) == selected, 100, 0)
    return sampled(test, counts0, lambda seen: np.round(seen * shares).astype(int))


@pytest.fixture
def run(tmp_path, write_store):
    """Four inputs with radii of about 1, 1, 0.5 and none, and PGD on them at 0.25 and 0.75."""
    write_store([(0, 1, 1, 1.0), (1, 1, 1, 1.0), (2, 1, 1, 0.5), (3, 1, -1, 0)], **ABOUT)
    answers = {(0, 0.25): RIGHT, (1, 0.25): RIGHT, (2, 0.25): RIGHT, (3, 0.25): ABSTAIN}
    answers |= {(0, 0.75): RIGHT, (1, 0.75): RIGHT, (2, 0.75): WRONG, (3, 0.75): WRONG}
    write_attacks(tmp_path / "run" / "attack" / "pgd", answers)
    return tmp_path / "run"


@pytest.fixture(scope="module")
def browser():
    from tests.report.chromium import (
        chromium,
    )  # here, since its tests skip where its package is missing

    with chromium() as started:
        yield started
