"""How charts look, as files and in the page: well formed, true to the numbers, small."""

import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.report import certified_accuracy, save
from smoothcert.report.curves import step_corners
from smoothcert.report.plot import COLOURS, DASHES, inline_svg
from smoothcert.report.views.accuracy import accuracy_figure
from tests.report.drawn import labels, lines, words

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["\x00\x1b\ufffe", "<script>", "]]>", '"', "\ud800", 'id="x" #222222 url(#y)', "$\\broken"]


@pytest.fixture
def runs(make):
    rng = np.random.default_rng(0)
    return [
        make(rng.exponential(0.5, 300), name=name, sigma=0.5) for name in ("gaussian", "smoothmix")
    ]


@pytest.mark.parametrize(
    ("kind", "start"), [("pdf", b"%PDF-"), ("png", b"\x89PNG"), ("SVG", b"<?xml")]
)
def test_files(runs, tmp_path, kind, start):
    for name in ("a", "b"):
        save(accuracy_figure(runs), tmp_path / f"{name}.{kind}")
    content = (tmp_path / f"a.{kind}").read_bytes()
    assert content.startswith(start)
    assert content == (tmp_path / f"b.{kind}").read_bytes()  # no date, no random name
    assert "matplotlib.pyplot" not in sys.modules
    with pytest.raises(ConfigError, match=r"ends in \.pdf, \.png, \.svg, found '\.jpg'"):
        save(accuracy_figure(runs), tmp_path / "a.jpg")


def test_what_a_user_has_set_changes_no_chart_and_stays_set(runs, tmp_path):
    import matplotlib

    before = accuracy_figure(runs)
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        after = accuracy_figure(runs)
        save(after, tmp_path / "a.svg")
        assert matplotlib.rcParams["font.size"] == 30
    save(before, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_corners_of_a_known_curve(make):
    x, y = step_corners(make([0.5, 0.5, 1.0, 2.0], correct=[1, 1, 1, 0]))
    assert x.tolist() == [0, 0, 0.5, 0.5, 1.0, 1.0]
    assert y.tolist() == [0.75, 0.75, 0.75, 0.25, 0.25, 0.0]


def read(svg):
    """The data that lines of runs have in a chart of the page, by its `data-` attributes."""
    root = ET.fromstring(svg)
    left, right, top, bottom, start, end, high = (
        float(root.get(f"data-{key}"))
        for key in ("left", "right", "top", "bottom", "x-start", "x-top", "y-top")
    )
    found = {}
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "run" and (path := group.find(f"{SVG}path")) is not None:
            numbers = re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path.get("d"))
            x, y = np.array(numbers, float).T
            radius = start + (x - left) / (right - left) * (end - start)
            found[int(group.get("data-run"))] = radius, (bottom - y) / (bottom - top) * high
    return found


def test_the_page_knows_where_data_stand(make):
    runs = [make([0.5, 1.0]), make([0.25], name="other")]
    found = read(inline_svg(accuracy_figure(runs), "curves"))
    np.testing.assert_allclose(found[0][0], [0, 0, 0.5, 0.5, 1, 1], atol=1e-4)
    np.testing.assert_allclose(found[0][1], [1, 1, 1, 0.5, 0.5, 0], atol=1e-4)
    np.testing.assert_allclose(found[1][0], [0, 0, 0.25, 0.25], atol=1e-4)


@pytest.mark.parametrize("saturated", [0, 0.4])
def test_a_curve_of_many_radii_is_small_and_true(make, saturated):
    rng = np.random.default_rng(7)
    radius = rng.exponential(1.0, 10_000)
    c = make(np.minimum(radius, np.quantile(radius, 1 - saturated)), rng.random(10_000) < 0.9)
    text = inline_svg(accuracy_figure([c]), "curves")
    assert len(text) < 60_000
    x, y = read(text)[0]
    grid = np.linspace(0, x[-1], 1000)
    drawn, near = np.interp(grid, x, y), 0.005 * x[-1]
    assert (drawn <= certified_accuracy(c, np.maximum(grid - near, 0)) + 0.005).all()
    assert (drawn >= certified_accuracy(c, grid + near) - 0.005).all()


def test_the_page_gives_a_chart_its_colours_and_its_legend(runs):
    text = inline_svg(accuracy_figure(runs), "curves")
    assert not re.findall("#[0-9a-f]{6}", text)
    assert not {"gaussian", "smoothmix"} & {e.text for e in ET.fromstring(text).iter()}
    assert "gaussian" in {
        e.text for e in ET.fromstring(inline_svg(accuracy_figure(runs), "a", keys=True)).iter()
    }
    both = text + inline_svg(accuracy_figure(runs), "again")
    ids = re.findall(' id="([^"]*)"', both)
    assert len(ids) == len(set(ids)) > 0
    assert {*re.findall(r'(?:href="#|url\(#)([^")]*)', both)} <= {*ids}


@pytest.mark.parametrize("name", NAMES)
def test_names_come_from_anyone(make, tmp_path, name):
    figure = accuracy_figure([make([0.5], name=name)])
    save(figure, tmp_path / "a.svg")
    ET.fromstring((tmp_path / "a.svg").read_text())
    save(figure, tmp_path / "a.png")
    texts = [e.text for e in ET.fromstring(inline_svg(figure, "curves", keys=True)).iter()]
    assert labels(figure)[0] in texts


def test_every_run_is_in_the_legend(make):
    """matplotlib leaves out names that begin with an underscore, and reads formulas between dollars."""
    names = ["_first", "$second$", "third_"]
    figure = accuracy_figure([make([0.5, 1.0], name=name) for name in names])
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == names


def test_a_file_tells_what_it_shows(make, tmp_path):
    long = "c" * 90
    runs = [make([0.5], name="a & <b>", sigma=0.5), make([0.7], name=long, sigma=1.0)]
    figure = accuracy_figure(runs)
    save(figure, tmp_path / "a.svg")
    root = ET.parse(tmp_path / "a.svg").getroot()
    assert root.get("role") == "img"
    told = "a & <b> (σ=0.5): 100.0 % at radius 0, average certified radius 0.500"
    assert told in root.get("aria-label")
    assert "a & <b> (σ=0.5)" in [e.text for e in root.iter(f"{SVG}text")]
    assert any(re.fullmatch("c{50,80}…", text) for text in words(figure))


@pytest.mark.parametrize("radius", [[0.0], [1e-5], [500.0], [0.3] * 5000])
@pytest.mark.parametrize("correct", [True, False])
def test_extreme_runs_are_drawn(make, radius, correct):
    text = inline_svg(accuracy_figure([make(radius, correct=[correct] * len(radius))]), "c")
    assert "nan" not in text


@pytest.mark.parametrize("count", [8, 9, 24])
def test_a_legend_of_many_runs_lies_below_the_curves(make, count):
    runs = [
        make([0.5, 1.0], name=f"a run with a number, {place}", sigma=0.5) for place in range(count)
    ]
    figure = accuracy_figure(runs)
    figure.draw_without_rendering()  # lays it out
    (axes,) = figure.axes
    inside, curves = figure.bbox, axes.get_window_extent()
    assert curves.height > 0.7 * 3.4 * figure.dpi  # they keep their room
    legends = figure.legends or [axes.get_legend()]
    assert len(legends[0].get_texts()) == count
    box = legends[0].get_window_extent()
    assert inside.x0 <= box.x0 < box.x1 <= inside.x1
    assert inside.y0 <= box.y0 < box.y1 <= inside.y1
    assert (box.y1 <= curves.y0) == (count > 8)


def test_forty_lines_are_distinct(make):
    drawn = lines(accuracy_figure([make([0.5, 1.0], name=f"run {place}") for place in range(8)]))
    assert len({line.colour for line in drawn}) == len(COLOURS) == 8
    assert len({str(dash) for dash in DASHES}) == 5


@pytest.mark.parametrize("count", [5, 10])
def test_the_keys_of_a_legend_show_the_dashes(make, count):
    """The fifth run of a method has the longest dashes: its key was as solid as that of the first."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = accuracy_figure([make([0.5, 1.0], name=f"gaussian/{place}") for place in range(count)])
    figure.set_dpi(300)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    dark = np.asarray(canvas.buffer_rgba())[::-1, :, 0] < 128
    (legend,) = figure.legends or [figure.axes[0].get_legend()]
    parts = []
    for key in legend.get_lines():
        box = key.get_window_extent()
        row = dark[round((box.y0 + box.y1) / 2), int(box.x0) - 5 : int(box.x1) + 6]
        parts.append(int(np.count_nonzero(row[1:] & ~row[:-1])))
    assert [min(number, 2) for number in parts] == [1, 2, 2, 2, 2] * (count // 5)
