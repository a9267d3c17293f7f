"""The report page as its tests read it."""

import json
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path

from smoothcert.report import Report, ReportOptions, Training

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
        loading = [
            value
            for name, value in attrs
            if name in ("src", "href", "srcset", "data", "xlink:href")
        ]
        self.loads += [value for value in loading if not value.startswith("#")]
        if tag not in VOID:
            self.open.append((tag, attributes))

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open and self.open[-1][0] not in ("script", "style"):
            self.text.append(data.strip())
        if self.open and self.open[-1][1].get("id") == "data":
            self.data = json.loads(data)


def report(tmp_path, results, **options):
    path = tmp_path / "out" / "report.html"
    write_report(results, path, **options)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    return path.read_text(encoding="utf-8")


def a_report(results, **given):
    """A report with these options and this material; `training` is a mapping of names to epochs."""
    names = {field.name for field in fields(ReportOptions)}
    options = ReportOptions(**{name: given.pop(name) for name in names & {*given}})
    training = given.pop("training", {})
    given.setdefault("trainings", [Training(name, name, own) for name, own in training.items()])
    return Report(results, options, **given)


def write_report(results, path, *, title=None, **given):
    a_report(results, **given).write(Path(path), title)


def report_tables(report, names=()):
    return report.tables(*names)


def draw(name, report):
    return report.plot(name)
