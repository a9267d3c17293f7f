"""Words beside points: none covers a point, a line or another word, in our SVG and as matplotlib draws them."""

import itertools
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from smoothcert.report.charts.chart import Chart, Text, chart_svg
from smoothcert.report.charts.line_styles import LineStyle
from smoothcert.report.charts.scatter import trade_off_svg
from smoothcert.report.charts.svg import Frame, Line
from smoothcert.report.charts.words import place_words
from smoothcert.report.measures.tradeoff import Point, TradeOff

SVG = "{http://www.w3.org/2000/svg}"
AREA = (0.0, 0.0, 400.0, 300.0)


def crowd(seed, count=14):
    """Points of a curve that goes to and fro in a small part of the area, with words of one to five letters."""
    draw = np.random.default_rng(seed)
    points = [tuple(point) for point in draw.normal((200, 150), (25, 15), (count, 2)).tolist()]
    return [(point, "1.234"[: 1 + k % 5]) for k, point in enumerate(points)], points


def overlap(a, b):
    """Of boxes (left, top, right, bottom), by more than rounding."""
    return min(a[2], b[2]) - max(a[0], b[0]) > 1e-6 and min(a[3], b[3]) - max(a[1], b[1]) > 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_words_of_a_crowd_cover_no_point_no_line_and_no_other_word(seed):
    words, points = crowd(seed)
    places = place_words(words, [points], AREA)
    boxes = []
    for (point, text), place in zip(words, places, strict=True):
        if place is None:
            continue
        (x, y), half = place.at, 3 * len(text)
        boxes.append((x - half, y - 5, x + half, y + 5))
        assert np.hypot(x - point[0], y - point[1]) < 80
        if place.line is None:
            assert abs(x - point[0]) < half + 12
            assert abs(y - point[1]) < 15
    assert len(boxes) >= 10
    assert any(place.line for place in places if place)
    assert not any(itertools.starmap(overlap, itertools.combinations(boxes, 2)))
    for box in boxes:
        assert not any(overlap(box, (x - 5, y - 5, x + 5, y + 5)) for x, y in points)
        for (a, b), (c, d) in itertools.pairwise(points):
            x, y = (np.linspace(*ends, 500) for ends in ((a, c), (b, d)))
            assert not ((box[0] < x) & (x < box[2]) & (box[1] < y) & (y < box[3])).any()


def test_a_word_alone_stands_above_its_point_and_without_room_nowhere():
    assert place_words([((200, 150), "5")], [[(200, 150)]], AREA)[0].at == (200, 137)
    assert place_words([((200, 5), "5")], [[(200, 5)]], AREA)[0].at == (
        200,
        18,
    )  # not outside of the area
    assert place_words([((5, 5), "5")], [[(5, 5)]], (0.0, 0.0, 10.0, 10.0)) == [None]
    assert place_words([], [], AREA) == []


def chart_of(points):
    x, y = np.array(points).T
    line = Line("a method", x, y, LineStyle(0), 0, marker="full")
    texts = tuple(Text(*point, f"{k}.5") for k, point in enumerate(points))
    return Chart((line,), Frame((0, 1), (0, 1)), "t", "d", ("x", "y"), "c", texts=texts)


CLOSE = [(0.5 + 0.012 * k, 0.5 + 0.01 * (k % 3)) for k in range(8)]


def test_close_points_of_a_chart_keep_all_their_words_in_svg():
    texts = list(ET.fromstring(chart_svg(chart_of(CLOSE))).iter(f"{SVG}text"))
    words = [text for text in texts if text.text.endswith(".5")]
    assert len(words) == len(CLOSE)
    boxes = [
        (float(w.get("x")) - 8, float(w.get("y")) - 8, float(w.get("x")) + 8, float(w.get("y")))
        for w in words
    ]
    assert not any(itertools.starmap(overlap, itertools.combinations(boxes, 2)))


def test_close_points_of_a_trade_off_keep_all_their_words():
    clean, acr = [0.9] * 5 + [0.95], [1.5, 1.51, 1.52, 1.53, 1.54, 1.7]
    points = tuple(
        Point(float(k), *place, 0) for k, place in enumerate(zip(clean, acr, strict=True))
    )
    texts = list(
        ET.fromstring(trade_off_svg(TradeOff("m", "eta", points), [LineStyle(0)], "t")).iter(
            f"{SVG}text"
        )
    )
    places = [(float(t.get("x")), float(t.get("y"))) for t in texts if t.get("font-size") == "11"]
    assert len(places) == len(points)
    assert not any(
        abs(a - c) < 6 and abs(b - d) < 9 for (a, b), (c, d) in itertools.combinations(places, 2)
    )


def test_close_points_of_a_chart_keep_all_their_words_by_matplotlib():
    """By the boxes that matplotlib itself has for the words, in a figure that is smaller than our SVG."""
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text as Drawn

    from smoothcert.report.charts.axes import draw_charts

    figure = draw_charts([chart_of(CLOSE)], "", (4.5, 3))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert len(axes.texts) == len(CLOSE)
    boxes = [
        Drawn.get_window_extent(text).extents for text in axes.texts
    ]  # without the lines to their points
    assert not any(itertools.starmap(overlap, itertools.combinations(boxes, 2)))
    for left, bottom, right, top in boxes:
        assert not any(
            left < x < right and bottom < y < top for x, y in axes.transData.transform(CLOSE)
        )
