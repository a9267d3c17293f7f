"""docs/adding-a-view.md, carried out: a view is one file and its name."""

import re
from pathlib import Path

import pytest

from smoothcert.errors import ConfigError
from smoothcert.report import Report, save
from smoothcert.report.views import VIEWS
from tests.report.page import Page, report

GUIDE = Path(__file__, "../../../docs/adding-a-view.md").resolve()


@pytest.fixture
def view(monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    made = {}
    exec(compile(code, GUIDE.name, "exec"), made)
    monkeypatch.setitem(VIEWS, "medians", made["VIEW"])


def test_the_view_of_the_guide_is_printed_drawn_and_on_the_page(view, make, tmp_path):
    runs = [make([0.5, 1.0, 2.0], name="<b>a</b>"), make([0.25, 0.5], [1, 0], name="b")]
    table = Report(runs).table("medians")
    assert table.rows == (("<b>a</b>", "1.000"), ("b", "0.250"))
    save(Report(runs).plot("medians"), tmp_path / "medians.pdf")
    page = Page(report(tmp_path, runs))
    assert "medians" in page.ids
    for text in ("Median radii", "1.000", "median radius of correct answers"):
        assert text in page.text


def test_where_it_cannot_be_made_the_page_leaves_it_out(view, make, tmp_path):
    wrong = [make([0.5], [0])]
    with pytest.raises(ConfigError, match="found none"):
        Report(wrong).table("medians")
    assert "Median radii" not in [part for part in Page(report(tmp_path, wrong)).text if part]
