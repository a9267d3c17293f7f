"""The report: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert import __version__
from smoothcert.errors import ConfigError
from smoothcert.files import write_text
from smoothcert.progress import printable
from smoothcert.report.attack_values import alarms
from smoothcert.report.certificate_table import INTERVALS
from smoothcert.report.measures.same_data import comparable, contenders
from smoothcert.report.notes import alarm_notes, settings_notes
from smoothcert.report.page.gallery import Gallery, build_gallery
from smoothcert.report.page.provenance import provenance
from smoothcert.report.page.sections import gallery_data, headline, heat, section, told_once
from smoothcert.report.page.verified import verified
from smoothcert.report.plot import COLOURS, DARK_COLOURS, key_svg, run_styles
from smoothcert.report.read.names import labels_of
from smoothcert.report.views import VIEWS
from smoothcert.statistics.printed import doubt

if TYPE_CHECKING:
    from smoothcert.report.report import Report

TITLE = "Certified robustness"


def write_page(
    report: Report, path: Path, title: str = TITLE, opening: tuple[str, str] | None = None
) -> None:
    """Write tables, charts, notes and provenance of the runs to `path`.

    The same results give the same bytes. Killed at any moment, it leaves the old file or the new one.
    """
    if path.is_dir():
        raise ConfigError(
            f"{path}: expected the name of a file to write, found a folder; add a file name"
        )
    if not report.runs and not report.corrupted:
        raise ConfigError("a table needs at least one run, found none")
    write_text(path, render_page(report, title, opening=opening))


def render_page(
    report: Report,
    title: str = TITLE,
    version: str | None = None,
    opening: tuple[str, str] | None = None,
) -> str:
    """The page as text. A `version` makes it one that asks its server whether there is a newer one (live.py)."""
    everything = replace(report, on_page=True)
    # runs without labels share no chart with others
    shown = replace(everything, runs=report.labelled or report.runs)
    runs = shown.runs
    if runs and shown.options.reference is not None:
        shown.reference_place()  # whoever asks for it later: it is one of them
    made = (section(view, shown, everything) for view in VIEWS.values())
    told = (
        *alarm_notes(report.runs),
        *settings_notes(runs),
        INTERVALS,
    )  # by words of the page's own
    sections = told_once([each for each in made if each is not None], told)
    readings = {each.view.name: each.reading for each in sections if each.reading}
    labels, gallery = labels_of(runs), build_gallery(runs, report.images)
    from markupsafe import Markup

    context: dict[str, Any] = {
        **_frame(title, version),
        "opening": opening and (opening[0], Markup(opening[1])),
        "sections": sections,
        "headline": headline(runs, shown.radii_of(runs), shown.options.rounded) if runs else None,
        "alarms": alarms(report.attacks, report.runs),
        "files": sum(map(len, report.corrupted)),
        "labels": labels,
        "labelled": bool(report.labelled),
        "comparable": bool(runs) and comparable(runs),
        "keys": [
            Markup(key_svg(style, dots=c.tested_radii is not None))
            for c, style in zip(runs, run_styles(runs), strict=True)
        ],
        **_gallery(gallery),
        "doubtful": any(doubt(c.noise) for c in runs),
        "verified": verified(runs, labels),
        "runs": [
            provenance(c, label, _words(report))
            for c, label in zip(report.runs, labels_of(report.runs), strict=True)
        ],
        "data": {
            "labels": labels,
            "contenders": contenders(runs, range(len(runs))),
            "colours": [style.colour for style in run_styles(runs)],
            "readings": readings,
            "gallery": gallery_data(gallery),
        },
    }
    return _filled("page.html.j2", context)


def _words(report: Report) -> list[str]:
    """The words of `smoothcert report` that change what is shown of a run; others are about several of them."""
    options = report.options
    words = [] if options.radii is None else ["--radius", *map(str, options.radii)]
    return words + ["--rounded"] * options.rounded + ["--intervals"] * options.intervals


def render_waiting(version: str, text: str, *, waiting: bool) -> str:
    """A page in place of the report: there is nothing to report yet, or it cannot be made."""
    return _filled("waiting.html.j2", {**_frame(TITLE, version), "text": text, "waiting": waiting})


def _frame(title: str, version: str | None) -> dict[str, Any]:
    """What every page has: its looks, its scripts and who made it."""
    from markupsafe import Markup

    return {
        "title": title,
        "style": Markup(_style_sheet()),
        "script": Markup(_file("page.js")),
        "live": version,
        "live_script": Markup(_file("live.js")),
        "version": __version__,
        "heat": lambda *place: Markup(_heat_style(heat(*place))),
        "emphasised": _emphasised,
        "has_intervals": lambda table: any(cell.around for row in table.cells for cell in row),
    }


def _filled(name: str, context: Mapping[str, Any]) -> str:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    pages = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_file),
    )
    return printable(pages.get_template(name).render(context).lstrip(), "\n\t")


def _gallery(gallery: Gallery | None) -> dict[str, Any]:
    cards = gallery.cards if gallery else ()
    return {
        "gallery": gallery,
        "gallery_runs": sorted({card.run for card in cards}),
        "gallery_classes": sorted({card.label for card in cards if card.label >= 0}),
        "kinds": gallery.kinds if gallery else {},
    }


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _style_sheet() -> str:
    """The style sheet, with the colours of the runs for light and for dark."""
    sheet = _file("page.css")
    for name, colours in (("light", COLOURS), ("dark", DARK_COLOURS)):
        variables = " ".join(f"--run-{place}: {colour};" for place, colour in enumerate(colours))
        sheet = sheet.replace("{{ " + name + " }}", variables)
    return sheet


def _heat_style(share: float | None) -> str:
    return "" if share is None else f' style="--v:{share:.2f}"'


def _emphasised(text: str) -> Any:
    from markupsafe import Markup, escape

    return Markup(re.sub(r"\*(.+?)\*", r"<em>\1</em>", str(escape(text))))
