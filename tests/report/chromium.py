"""A real browser for tests of the page: Chromium driven by Playwright, without a network."""

import contextlib
import shutil

import pytest

from tests.processes import PATIENCE

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser test needs the package playwright"
)
CHROMIUM = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
expect = sync_api.expect
expect.set_options(timeout=1000 * PATIENCE)  # not five seconds: a busy machine is no failure


@contextlib.contextmanager
def chromium():
    if CHROMIUM is None:
        pytest.skip("the browser test needs chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=FLAGS, timeout=1000 * PATIENCE
        )
        yield started
        started.close()


@contextlib.contextmanager
def tab(browser, **options):
    """An empty page of its own; an error in a page that it shows later fails the test."""
    context = browser.new_context(**options)
    page, troubles = context.new_page(), []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    assert troubles == []


def values(page, explorer="accuracy"):
    """The column of values beside a chart."""
    return page.locator(f"#{explorer}-explorer td.value").all_inner_texts()


def order(page):
    """The runs in the order of the main table."""
    return page.locator('[aria-label="Results"] tbody th').all_inner_texts()
