"""The file of a page: small, harmless whatever runs are called, the same each time, and written whole or not at all."""

import os
import subprocess
import sys

import numpy as np
import pytest

from smoothcert.errors import ConfigError, StoreError
from tests.report.page import Page, report, write_report


def test_seven_runs_of_ten_thousand_certificates_are_one_small_file(make, tmp_path):
    rng = np.random.default_rng(0)
    label = np.arange(10_000) % 10
    noise = rng.integers(
        0, 256, (10_000, 3, 32, 32), np.uint8
    )  # the worst there is: nothing packs it

    class Noise:
        def image(self, i):
            return noise[i]

    runs = []
    for k in range(7):
        predict = np.where(rng.random(10_000) < 0.7, label, rng.integers(-1, 10, 10_000))
        radius = np.where(predict < 0, 0.0, np.minimum(rng.exponential(0.7, 10_000), 1.9057))
        counts = np.array(["1:90000,3:9000,7:1000"] * 10_000, object)
        runs.append(make(radius, predict == label, name=f"run {k}", label=label, predict=predict, counts=counts,
                         sigma=0.5, n=100_000, alpha=0.001))  # fmt: skip
    text = report(tmp_path, runs, images={c.name: Noise() for c in runs})
    assert len(text.encode()) < 1_500_000
    assert len(Page(text).data["gallery"]["cards"]) > 7 * 4 * 3


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        "</script><script>alert(1)//",
        '" onload="alert(1)',
        "{{ 7*7 }}",
        "]]>",
    ],
)
def test_names_from_users_are_harmless(make, tmp_path, evil):
    manifest = {"identity": {"model": evil}}
    c = make([0.5], name=evil, warnings=(evil,), manifest=manifest)
    losses = [{"epoch": e, "loss": 1.0} for e in range(3)]
    plain = Page(
        report(tmp_path, [make([0.5], manifest=manifest, warnings=("w",))], training={"a": losses})
    )
    page = Page(report(tmp_path, [c], title=evil, training={evil: losses}))
    assert page.tags == plain.tags  # the same elements: no name became one
    assert evil in page.text


def test_same_results_same_bytes(make, tmp_path):
    assert report(tmp_path, [make([0.5])]) == report(tmp_path, [make([0.5])])


def test_old_report_survives_a_failed_write(make, tmp_path, monkeypatch):
    before = report(tmp_path, [make([0.5])])

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StoreError, match="disk full"):
        write_report([make([0.9])], tmp_path / "out" / "report.html")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["report.html"]
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == before


def test_report_to_a_folder_is_refused(make, tmp_path):
    with pytest.raises(ConfigError, match="add a file name"):
        write_report([make([0.5])], tmp_path)


def test_no_runs(tmp_path):
    with pytest.raises(ConfigError, match="at least one run"):
        write_report([], tmp_path / "report.html")


def test_import_is_light():
    heavy = ("torch", "scipy", "jinja2", "rich", "matplotlib", "yaml")
    code = f"import sys, smoothcert.report; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
