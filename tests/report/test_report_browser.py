"""The page in a real browser: Chromium driven by Playwright, without a network."""

import shutil
import threading

import numpy as np
import pytest

from smoothcert.report import read_results, write_report
from smoothcert.report.page.live import LiveReport, open_server
from smoothcert.report.page.page import render_report
from tests.processes import PATIENCE

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser test needs the package playwright")
CHROMIUM = shutil.which("chromium")
sync_api.expect.set_options(timeout=1000 * PATIENCE)  # not five seconds: a busy machine is no failure
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser test needs chromium: apt-get install chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


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
        make(np.where(lazy < 0, 0, radius / 2), lazy == label, name="smoothmix", predict=lazy, **shared),
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(runs, path, images={c.name: Squares() for c in runs})
    return path


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=1000 * PATIENCE)
        yield started
        started.close()


@pytest.fixture
def page(browser, file):
    """The page, opened; whatever it logs, breaks or asks of the network fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened, troubles = context.new_page(), []
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on(
        "request", lambda request: troubles.append(request.url) if request.url[:5] not in ("file:", "data:") else None
    )
    opened.goto(file.as_uri())
    yield opened
    context.close()
    assert troubles == []


def values(page, explorer="curves"):
    return page.locator(f"#{explorer} td.value").all_inner_texts()


def test_hover_shows_the_values_there(page):
    chart = page.locator("#curves svg.smoothcert-chart")
    tip = page.locator("#curves .tip")
    assert tip.is_hidden()
    box = chart.bounding_box()
    top = float(chart.get_attribute("data-x-top"))
    at = (64 + (704 - 64) * 0.25 / top) / 720  # radius 0.25 in the chart's own pixels
    chart.hover(position={"x": at * box["width"], "y": box["height"] / 2})
    assert tip.is_visible()
    # gaussian: radius >= 0.25 on 31 of 40, of which 4 are wrong; smoothmix: radius/2 >= 0.25 on 21
    assert tip.inner_text().split("\n") == ["r = 0.25", "gaussian", "67.5\u00a0%", "smoothmix", "52.5\u00a0%"]
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def test_slider_changes_the_table_and_works_by_keyboard(page):
    slider = page.locator("#curves-slider")
    slider.fill("0")
    assert values(page) == ["90.0\u00a0%", "95.0\u00a0%"]
    assert page.locator("#curves td.gap").all_inner_texts() == ["−5.0", "best"]
    slider.focus()
    for _ in range(50):
        page.keyboard.press("ArrowRight")
    assert page.locator("#curves output").inner_text() == "0.50"
    assert values(page) == ["45.0\u00a0%", "2.5\u00a0%"]
    assert slider.get_attribute("aria-valuetext") == "0.50"


def test_confidence_has_a_slider_of_its_own(page):
    page.locator("#confidence-slider").fill("0")
    assert values(page, "confidence") == ["90.0\u00a0%", "95.0\u00a0%"]
    assert values(page) != ["90.0\u00a0%", "95.0\u00a0%"]


def test_toggle_hides_a_curve_in_every_chart(page):
    curves = [page.locator(f'#{chart} .run[data-run="0"]') for chart in ("curves", "confidence")]
    assert all(curve.is_visible() for curve in curves)
    page.locator('#curves tr[data-run="0"] input').uncheck()
    assert all(curve.is_hidden() for curve in curves)
    assert not page.locator('#confidence tr[data-run="0"] input').is_checked()
    assert page.locator('.run[data-run="1"]').first.is_visible()
    assert page.locator("#curves td.gap").all_inner_texts() == ["", "best"]
    page.locator('#confidence tr[data-run="0"] input').check()
    assert all(curve.is_visible() for curve in curves)
    compared = page.locator('.above .run[data-run="1"]').all()  # the line of its differences, and their key
    assert [part.is_visible() for part in compared] == [True, True]
    page.locator('#curves tr[data-run="1"] input').uncheck()
    assert [part.is_visible() for part in compared] == [False, False]


@pytest.fixture
def sorted_page(browser, make, tmp_path):
    """Five runs: two with the same ACR, one without any, one of a log that knows neither n nor alpha."""
    tested = {"identity": {"procedure": "radius", "radii": [0]}}
    runs = [
        make([0.5, 0.5], name="seed10", n=10_000, alpha=0.001),
        make([0.5, 0.0], name="tested", n=20_000, alpha=0.01, manifest=tested),
        make([0.4, 0.6], name="seed9", n=9_000, alpha=1e-5),
        make([0.9, 0.9], name="Alpha", expected=4),
        make([0.1, 0.1], name="seed100", n=100_000, alpha=0.001),
    ]
    write_report(runs, tmp_path / "page.html")
    context = browser.new_context()
    opened, troubles = context.new_page(), []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.goto((tmp_path / "page.html").as_uri())
    yield opened
    context.close()
    assert troubles == []


def order(page):
    return page.locator('[aria-label="Results"] tbody th').all_inner_texts()


GIVEN = ["seed10", "tested", "seed9", "Alpha", "seed100"]


BY_COLUMN = {  # what has no value stands last either way, and what is equal stays as it was
    "ACR": ("descending", "Alpha seed10 seed9 seed100 tested", "seed100 seed10 seed9 Alpha tested"),
    "n": ("descending", "seed100 tested seed10 seed9 Alpha", "seed9 seed10 tested seed100 Alpha"),
    "α": ("descending", "tested seed10 seed100 seed9 Alpha", "seed9 seed10 seed100 tested Alpha"),
    "run": ("ascending", "Alpha seed9 seed10 seed100 tested", "tested seed100 seed10 seed9 Alpha"),
    "0.25": ("descending", "seed10 seed9 Alpha seed100 tested", "seed100 seed10 seed9 Alpha tested"),
}


def test_a_click_on_a_column_sorts_by_it(sorted_page):
    page = sorted_page
    for column, (first, once, twice) in BY_COLUMN.items():
        button = page.get_by_role("button", name=column, exact=True).first
        head = page.locator('[aria-label="Results"] th').filter(has=button)
        second = {"descending": "ascending", "ascending": "descending"}[first]
        assert (order(page), head.get_attribute("aria-sort")) == (GIVEN, None)
        for names, direction in ((once, first), (twice, second)):
            button.click()
            assert (order(page), head.get_attribute("aria-sort")) == (names.split(), direction)
        button.click()
    assert (order(page), page.locator("[aria-sort]").count()) == (GIVEN, 0)


def test_sorting_works_by_keyboard_for_one_column_at_a_time_and_prints(sorted_page):
    page = sorted_page
    for column, key, first in (("ACR", "Enter", "Alpha"), ("n", "Space", "seed100")):
        page.get_by_role("button", name=column, exact=True).first.focus()
        page.keyboard.press(key)
        assert order(page)[0] == first
        assert page.locator('[aria-label="Results"] [aria-sort]').all_inner_texts() == [column]
    assert page.evaluate("document.activeElement.textContent") == "n"
    page.emulate_media(media="print")
    assert order(page)[0] == "seed100"
    best = page.locator('[aria-label="Results"] td.best').first
    assert best.evaluate("cell => cell.parentElement.cells[0].textContent") == "seed100"  # marks go with their rows


def test_a_served_page_follows_its_store_and_keeps_what_the_reader_chose(browser, write_store):
    rows = [(i, i % 3, i % 3, 0.4 + 0.1 * i) for i in range(4)]
    store, other = write_store(rows, run="runs/a"), write_store(rows[:2], run="runs/b")
    runs = store.parent.parent.parent
    parts = {folder / "part-0-of-1.tsv": (folder / "part-0-of-1.tsv").read_text() for folder in (store, other)}
    for part in parts:
        part.write_text("")

    def render(version):
        return render_report(read_results(runs), "Title", None, False, {}, {}, version=version)

    server = open_server(LiveReport([runs], render))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    context = browser.new_context(viewport={"width": 800, "height": 300})
    page, troubles = context.new_page(), []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    status = page.locator("#serving")
    page.clock.install()
    try:
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        sync_api.expect(status).to_have_text("Live: 0 of 8 inputs certified")
        assert page.locator(".lead").inner_text() == "There is nothing to report yet."
        for part, rows_of_it in parts.items():
            part.write_text(rows_of_it)
        page.clock.fast_forward(5_000)
        sync_api.expect(status).to_have_text("Live: 6 of 8 inputs certified")
        page.get_by_role("button", name="run", exact=True).first.click()
        page.get_by_role("button", name="run", exact=True).first.click()
        page.locator('#curves tr[data-run="0"] input').uncheck()
        page.locator("#curves-slider").fill("30")
        page.evaluate("scrollTo(0, 400)")
        before = page.evaluate("[scrollY, document.activeElement.id]")
        assert before == [400, "curves-slider"]
        part.write_text(parts[store / "part-0-of-1.tsv"])
        page.clock.fast_forward(5_000)
        sync_api.expect(status).to_have_text("All runs are finished")
        assert order(page) == ["b", "a"]
        assert page.locator('[aria-label="Results"] td', has_text="of 4").count() == 0
        assert page.evaluate("[scrollY, document.activeElement.id]") == before
        assert page.locator("#curves output").inner_text() == "0.30"
        assert page.locator("#curves tr.off .name").all_inner_texts() == ["a"]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    page.clock.fast_forward(60_000)
    sync_api.expect(status).to_have_text("The server has gone: this is what it showed last")
    assert order(page) == ["b", "a"]
    context.close()
    assert troubles == []


def test_gallery_filters_by_run_kind_and_class(page):
    cards, count = page.locator("#cards figure"), page.locator("#filters output")
    assert count.inner_text() == f"{cards.count()} images"
    assert page.locator("#cards h3").all_inner_texts() == ["Most robust", "Least robust", "Wrong", "Abstained"]
    page.locator("[name=kind]").select_option("wrong")
    assert cards.count() == 4
    assert cards.first.inner_text().split("\n") == [
        "bird: says cat", "radius 1.000", "cat", "700", "dog", "200", "fish", "100", "input 39"
    ]  # fmt: skip
    page.locator("[name=label]").select_option(label="dog")
    assert [text.split("\n")[0] for text in cards.all_inner_texts()] == ["dog: says fish", "dog: says fish"]
    page.locator("[name=run]").select_option(label="smoothmix")
    assert cards.count() == 0
    page.locator("[name=kind]").select_option("abstained")
    assert cards.first.inner_text().split("\n")[:2] == ["dog: abstains", "no radius"]
    images = page.evaluate("[...document.images].map((image) => [image.naturalWidth, image.complete])")
    assert images == [[16, True]]


def test_pages_fit_a_phone_and_a_dark_room(browser, file):
    context = browser.new_context(viewport={"width": 360, "height": 700}, color_scheme="dark")
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    context.close()


def test_without_scripts_the_numbers_are_there(browser, file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("#curves-slider").is_hidden()
    assert page.locator("#curves td.value").count() == 2
    assert page.locator('.run[data-run="0"]').first.is_visible()
    assert page.get_by_role("button").count() == 0
    context.close()


def test_print_opens_every_section(page):
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every((one) => one.open)")
    assert page.locator("#curves-slider").is_hidden()
    assert page.locator("nav").is_hidden()


def test_a_run_that_tested_some_radii_has_no_value_between_them(browser, make, tmp_path):
    tested = {"identity": {"procedure": "radius", "radii": [0, 0.5]}}
    write_report([make([0.5, 0.0], name="tested", manifest=tested), make([0.5, 0.4])], tmp_path / "page.html")
    context = browser.new_context()
    page, troubles = context.new_page(), []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    for place, shown in (("50", ["50.0\u00a0%", "50.0\u00a0%"]), ("20", ["–", "100.0\u00a0%"])):
        page.locator("#curves-slider").fill(place)
        assert values(page) == shown
    assert page.locator("#curves td.gap").all_inner_texts() == ["", "best"]
    page.locator("#curves svg.smoothcert-chart").hover(position={"x": 200, "y": 100})
    assert "tested" not in page.locator("#curves .tip").inner_text()
    context.close()
    assert troubles == []
