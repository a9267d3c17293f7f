"""The page in a real browser: what a reader points at, chooses, prints, or sees on a phone."""

import numpy as np
import pytest

from tests.report.chromium import tab, values
from tests.report.page import write_report


class Squares:
    class_names = ("cat", "dog", "fish", "bird")

    def image(self, i):
        return np.full((3, 16, 16), 40 + i, np.uint8)


@pytest.fixture(scope="module")
def file(make, tmp_path_factory):
    """Two runs of 40 inputs: `gaussian` has radius i/40 on input i, `smoothmix` the half of it and two abstentions."""
    label = np.arange(40) % 4
    wrong = np.where(np.arange(40) % 10 == 9, (label + 1) % 4, label)
    lazy = np.where(np.arange(40) < 2, -1, label)
    counts = np.array(["0:700,1:200,2:100"] * 40, object)
    shared = {"label": label, "sigma": 0.5, "n": 1000, "alpha": 0.001, "counts": counts}
    radius = np.arange(1, 41) / 40
    runs = [
        make(radius, wrong == label, name="gaussian", predict=wrong, **shared),
        make(
            np.where(lazy < 0, 0, radius / 2),
            lazy == label,
            name="smoothmix",
            predict=lazy,
            **shared,
        ),
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(runs, path, images={c.name: Squares() for c in runs})
    return path


@pytest.fixture
def page(browser, file):
    """The page, opened; whatever it logs, breaks or asks of the network fails the test."""
    troubles = []
    with tab(browser, viewport={"width": 1200, "height": 900}) as opened:
        opened.on("console", lambda message: troubles.append(message.text))
        opened.on(
            "request",
            lambda request: troubles.append(request.url) if outside(request.url) else None,
        )
        opened.goto(file.as_uri())
        yield opened
    assert troubles == []


def outside(url):
    return not url.startswith(("file:", "data:"))


def test_hover_shows_the_values_there(page):
    chart = page.locator("#accuracy-explorer svg.smoothcert-chart")
    tip = page.locator("#accuracy-explorer .tip")
    assert tip.is_hidden()
    box = chart.bounding_box()
    left, right, top = (
        float(chart.get_attribute(f"data-{key}")) for key in ("left", "right", "x-top")
    )
    width = float(chart.get_attribute("viewBox").split()[2])
    at = (left + (right - left) * 0.25 / top) / width  # radius 0.25
    chart.hover(position={"x": at * box["width"], "y": box["height"] / 2})
    assert tip.is_visible()
    # gaussian: radius >= 0.25 on 31 of 40, of which 4 are wrong; smoothmix: radius/2 >= 0.25 on 21
    assert tip.inner_text().split("\n") == [
        "r = 0.25",
        "gaussian",
        "67.5\u00a0%",
        "smoothmix",
        "52.5\u00a0%",
    ]
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def test_slider_changes_the_table_and_works_by_keyboard(page):
    slider = page.locator("#accuracy-slider")
    slider.fill("0")
    assert values(page) == ["90.0\u00a0%", "95.0\u00a0%"]
    assert page.locator("#accuracy-explorer td.gap").all_inner_texts() == ["−5.0", "best"]
    slider.focus()
    for _ in range(50):
        page.keyboard.press("ArrowRight")
    assert page.locator("#accuracy-explorer output").inner_text() == "0.50"
    assert values(page) == ["45.0\u00a0%", "2.5\u00a0%"]
    assert slider.get_attribute("aria-valuetext") == "0.50"


def test_confidence_has_a_slider_of_its_own(page):
    page.locator("#confidence-slider").fill("0")
    assert values(page, "confidence") == ["90.0\u00a0%", "95.0\u00a0%"]
    assert values(page) != ["90.0\u00a0%", "95.0\u00a0%"]


def test_toggle_hides_a_curve_in_every_chart(page):
    curves = [
        page.locator(f'#{chart}-explorer .run[data-run="0"]')
        for chart in ("accuracy", "confidence")
    ]
    assert all(curve.is_visible() for curve in curves)
    page.locator('#accuracy-explorer tr[data-run="0"] input').uncheck()
    assert all(curve.is_hidden() for curve in curves)
    assert not page.locator('#confidence-explorer tr[data-run="0"] input').is_checked()
    assert page.locator('.run[data-run="1"]').first.is_visible()
    assert page.locator("#accuracy-explorer td.gap").all_inner_texts() == ["", "best"]
    page.locator('#confidence-explorer tr[data-run="0"] input').check()
    assert all(curve.is_visible() for curve in curves)
    compared = page.locator(
        '.above .run[data-run="1"]'
    ).all()  # the line of its differences, its band, and their key
    assert [part.is_visible() for part in compared] == [True] * 3
    page.locator('#accuracy-explorer tr[data-run="1"] input').uncheck()
    assert [part.is_visible() for part in compared] == [False] * 3


def test_gallery_filters_by_run_kind_and_class(page):
    cards, count = page.locator("#cards figure"), page.locator("#filters output")
    assert count.inner_text() == f"{cards.count()} images"
    assert page.locator("#cards h3").all_inner_texts() == [
        "Most robust",
        "Least robust",
        "Wrong",
        "Abstained",
    ]
    page.locator("[name=kind]").select_option("wrong")
    assert cards.count() == 4
    assert cards.first.inner_text().split("\n") == [
        "bird: says cat", "radius 1.000", "cat", "700", "dog", "200", "fish", "100", "input 39"
    ]  # fmt: skip
    page.locator("[name=label]").select_option(label="dog")
    assert [text.split("\n")[0] for text in cards.all_inner_texts()] == [
        "dog: says fish",
        "dog: says fish",
    ]
    page.locator("[name=run]").select_option(label="smoothmix")
    assert cards.count() == 0
    page.locator("[name=kind]").select_option("abstained")
    assert cards.first.inner_text().split("\n")[:2] == ["dog: abstains", "no radius"]
    images = page.evaluate(
        "[...document.images].map((image) => [image.naturalWidth, image.complete])"
    )
    assert images == [[16, True]]


def test_pages_fit_a_phone_and_a_dark_room(browser, file):
    with tab(browser, viewport={"width": 360, "height": 700}, color_scheme="dark") as page:
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"


def test_without_scripts_the_numbers_are_there(browser, file):
    with tab(browser, java_script_enabled=False) as page:
        page.goto(file.as_uri())
        assert page.locator("#accuracy-slider").is_hidden()
        assert page.locator("#accuracy-explorer td.value").count() == 2
        assert page.locator('.run[data-run="0"]').first.is_visible()
        assert page.get_by_role("button").count() == 0


def test_print_opens_every_section(page):
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every((one) => one.open)")
    assert page.locator("#accuracy-slider").is_hidden()
    assert page.locator("nav").is_hidden()


def test_a_run_that_tested_some_radii_has_no_value_between_them(browser, make, tmp_path):
    tested = {"identity": {"procedure": "radius", "radii": [0, 0.5]}}
    write_report(
        [make([0.5, 0.0], name="tested", manifest=tested), make([0.5, 0.4])], tmp_path / "page.html"
    )
    with tab(browser) as page:
        page.goto((tmp_path / "page.html").as_uri())
        for place, shown in (("50", ["50.0\u00a0%", "50.0\u00a0%"]), ("20", ["–", "100.0\u00a0%"])):
            page.locator("#accuracy-slider").fill(place)
            assert values(page) == shown
        assert page.locator("#accuracy-explorer td.gap").all_inner_texts() == ["", "best"]
        page.locator("#accuracy-explorer svg.smoothcert-chart").hover(position={"x": 200, "y": 100})
        assert "tested" not in page.locator("#accuracy-explorer .tip").inner_text()
