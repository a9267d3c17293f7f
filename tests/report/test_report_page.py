"""The page: complete in itself, harmless, written whole."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from smoothcert.errors import ConfigError, StoreError
from smoothcert.report import read_store, write_report

VOID = {"meta", "input", "br", "link", "img"}


class Page(HTMLParser):
    """Tags must nest; collects elements, texts, and every attribute that could load something."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.loads, self.text, self.data = [], [], [], [], [], None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attributes = dict(attrs)
        assert not [name for name in attributes if name.startswith("on")]
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.loads += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "xlink:href")]
        if tag not in VOID:
            self.open.append((tag, attributes))

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open and self.open[-1][0] not in ("script", "style"):
            self.text.append(data.strip())
        if self.open and self.open[-1][1].get("id") == "reading":
            self.data = json.loads(data)


def report(tmp_path, results, **options):
    path = tmp_path / "out" / "report.html"
    write_report(results, path, **options)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    return path.read_text(encoding="utf-8")


def test_page_has_everything_and_loads_nothing(make, tmp_path, write_store):
    store = read_store(write_store([(0, 1, 1, 0.5), (1, 2, -1, 0.0)]))
    log = make([0.5, 0.8], name="log", sigma=0.5, label=np.array([1, 2]), predict=np.array([1, 2]))
    losses = [{"epoch": e, "loss": 1 / (e + 1)} for e in range(5)]
    text = report(tmp_path, [store, log], title="A & B", training={"log": losses})
    page = Page(text)
    assert page.loads == []
    assert "@import" not in text
    assert "url(" not in text
    assert len(page.ids) == len(set(page.ids))
    for part in ("A & B", "run/test", "0.650", "2 of 4", "How to read this.", "Before you compare", "not recorded"):
        assert part in page.text
    assert "run/test: partial, 2 of 4 inputs" in page.text
    assert any('"environment"' in part for part in page.text)
    assert page.tags.count("polyline") == 3
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_single_run_without_notes_or_training(make, tmp_path):
    page = Page(report(tmp_path, [make([0.5, 0.7])]))
    assert "Before you compare" not in page.text
    assert "Training" not in page.text
    assert page.tags.count("polyline") == 1


def test_readings_agree_with_the_table(make, tmp_path):
    radius = np.zeros(400)
    radius[:293] = 0.35
    page = Page(report(tmp_path, [make(radius)], radii=[0.35]))
    place = page.data["radii"].index(0.35)
    assert page.data["values"][0][place] == 73.2  # 73.25 in binary; the tie at 0.35 counts
    assert page.data["values"][0][place + 1 :] == []
    assert "73.2" in page.text


@pytest.mark.parametrize("top", [0.0, 1e-4, 3.81, 30.0, 4000.0])
def test_readings_cover_any_axis_with_few_points(make, tmp_path, top):
    data = Page(report(tmp_path, [make([top])])).data
    assert 1 <= len(data["radii"]) <= 401
    assert data["radii"][-1] <= 1.02 * top + 1
    assert 0 <= data["start"] < len(data["radii"])


def test_rounded_and_chosen_radii(make, tmp_path):
    page = Page(report(tmp_path, [make([1.9057])], radii=[1.91], rounded=True))
    assert "1.91" in page.text
    assert "100.0" in page.text
    assert any("3 significant digits" in part for part in page.text)


@pytest.mark.parametrize(
    "evil", ["<script>alert(1)</script>", "</script><script>alert(1)//", '" onload="alert(1)', "{{ 7*7 }}", "]]>"]
)
def test_names_from_users_are_harmless(make, tmp_path, evil):
    manifest = {"identity": {"model": evil}}
    c = make([0.5], name=evil, noise=evil, warnings=(evil,), manifest=manifest)
    losses = [{"epoch": e, "loss": 1.0} for e in range(3)]
    plain = Page(report(tmp_path, [make([0.5], manifest=manifest, warnings=("w",))], training={"a": losses}))
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
    code = "import sys, smoothcert.report; print([m for m in ('torch', 'scipy', 'jinja2', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
