"""The main table in a real browser: sorted by its columns, and renewed while it is served."""

import threading

import pytest

from smoothcert.report import read_results
from smoothcert.report.page.live import LiveReport, open_server
from smoothcert.report.page.page import render_page
from smoothcert.report.report import Report
from tests.report.chromium import expect, order, tab
from tests.report.page import write_report


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
    with tab(browser) as opened:
        opened.goto((tmp_path / "page.html").as_uri())
        yield opened


GIVEN = ["seed10", "tested", "seed9", "Alpha", "seed100"]

BY_COLUMN = {  # what has no value stands last either way, and what is equal stays as it was
    "ACR": ("descending", "Alpha seed10 seed9 seed100 tested", "seed100 seed10 seed9 Alpha tested"),
    "n": ("descending", "seed100 tested seed10 seed9 Alpha", "seed9 seed10 tested seed100 Alpha"),
    "α": ("descending", "tested seed10 seed100 seed9 Alpha", "seed9 seed10 seed100 tested Alpha"),
    "run": ("ascending", "Alpha seed9 seed10 seed100 tested", "tested seed100 seed10 seed9 Alpha"),
    "0.25": (
        "descending",
        "seed10 seed9 Alpha seed100 tested",
        "seed100 seed10 seed9 Alpha tested",
    ),
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


def test_marks_of_best_values_go_with_their_rows(browser, make, tmp_path):
    write_report(
        [make([0.1], name="worse"), make([0.4], name="better")],
        tmp_path / "page.html",
        radii=[0.25],
    )
    with tab(browser) as page:
        page.goto((tmp_path / "page.html").as_uri())
        best = page.locator('[aria-label="Results"] td.best')
        for names in (["worse", "better"], ["better", "worse"]):
            assert order(page) == names
            assert set(
                best.evaluate_all("cells => cells.map(c => c.parentElement.cells[0].textContent)")
            ) == {"better"}
            page.get_by_role("button", name="ACR", exact=True).first.click()


def test_a_served_page_follows_its_store_and_keeps_what_the_reader_chose(browser, write_store):
    rows = [(i, i % 3, i % 3, 0.4 + 0.1 * i) for i in range(4)]
    store, other = write_store(rows, run="runs/a"), write_store(rows[:2], run="runs/b")
    runs = store.parent.parent.parent
    parts = {
        folder / "part-0-of-1.tsv": (folder / "part-0-of-1.tsv").read_text()
        for folder in (store, other)
    }
    for part in parts:
        part.write_text("")

    def render(version):
        return render_page(Report(read_results(runs)), "Title", version)

    server = open_server(LiveReport([runs], render))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with tab(browser, viewport={"width": 800, "height": 300}) as page:
        status = page.locator("#serving")
        page.clock.install()
        try:
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            expect(status).to_have_text("Live: 0 of 8 inputs certified")
            assert page.locator(".lead").inner_text() == "There is nothing to report yet."
            for part, rows_of_it in parts.items():
                part.write_text(rows_of_it)
            page.clock.fast_forward(5_000)
            expect(status).to_have_text("Live: 6 of 8 inputs certified")
            page.get_by_role("button", name="run", exact=True).first.click()
            page.get_by_role("button", name="run", exact=True).first.click()
            page.locator('#accuracy-explorer tr[data-run="0"] input').uncheck()
            page.locator("#accuracy-slider").fill("30")
            page.evaluate("scrollTo(0, 400)")
            before = page.evaluate("[scrollY, document.activeElement.id]")
            assert before == [400, "accuracy-slider"]
            part.write_text(parts[store / "part-0-of-1.tsv"])
            page.clock.fast_forward(5_000)
            expect(status).to_have_text("All runs are finished")
            assert order(page) == ["b", "a"]
            assert page.locator('[aria-label="Results"] td', has_text="of 4").count() == 0
            assert page.evaluate("[scrollY, document.activeElement.id]") == before
            assert page.locator("#accuracy-explorer output").inner_text() == "0.30"
            assert page.locator("#accuracy-explorer tr.off .name").all_inner_texts() == ["a"]
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        page.clock.fast_forward(60_000)
        expect(status).to_have_text("The server has gone: this is what it showed last")
        assert order(page) == ["b", "a"]
