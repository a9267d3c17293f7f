"""The report: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from smoothcert import __version__
from smoothcert.errors import ConfigError
from smoothcert.files import write_text
from smoothcert.progress import printable
from smoothcert.report.charts.chart import chart_svg
from smoothcert.report.charts.curves import confidence_chart, curve_svg
from smoothcert.report.charts.line_styles import COLOURS, DARK_COLOURS, LineStyle, run_styles
from smoothcert.report.charts.svg import fill, stroke
from smoothcert.report.charts.training import Epochs
from smoothcert.report.measures.analysis import default_radii
from smoothcert.report.measures.confidence import saturation
from smoothcert.report.measures.pairing import reference_place
from smoothcert.report.measures.published_comparison import OF_ROUNDED
from smoothcert.report.measures.same_data import comparable, contenders
from smoothcert.report.page import sections
from smoothcert.report.page.attacks import attack_section
from smoothcert.report.page.gallery import Gallery, Images, build_gallery
from smoothcert.report.page.provenance import provenance
from smoothcert.report.page.verified import verified
from smoothcert.report.read.attacks import Attacks
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of, norm_names
from smoothcert.report.tables.corruptions import Corrupted
from smoothcert.report.tables.notes import alarm_notes, settings_notes
from smoothcert.report.tables.published import published_table
from smoothcert.report.tables.tables import (
    INTERVALS,
    certificate_table,
    checked_radii,
    class_table,
)
from smoothcert.statistics.printed import doubt

TITLE = "Certified robustness"


def write_report(
    results: Sequence[Certificates],
    path: str | Path,
    *,
    title: str = TITLE,
    radii: Sequence[float] | None = None,
    rounded: bool = False,
    training: Mapping[str, Epochs] | None = None,
    images: Mapping[str, Images] | None = None,
    corrupted: Sequence[Sequence[Corrupted]] = (),
    reference: str | None = None,
    intervals: bool = False,
    attacks: Sequence[Attacks] = (),
    opening: tuple[str, str] | None = None,
) -> None:
    """Write tables, charts, notes and provenance of the runs to `path`.

    `training` gives the epochs of a run by its name, `images` the data set it was certified on, for the gallery.
    `corrupted` has an entry for each corruption benchmark, and may stand without runs. `reference` is the name of the
    run that differences are taken to (the first, if None), `intervals` adds those of the main table, and `attacks` are
    shown in a section of their own. `opening` is the heading and the HTML of a section that comes first.
    The same results give the same bytes. Killed at any moment, it leaves the old file or the new one.

    >>> from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset, load_model
    >>> model, test, config = load_model("mini"), load_dataset("mnist-mini"), CertifyConfig(sigma=0.5, n=100)
    >>> store = certify_dataset(model, test, "mini/test", config, selection=Selection(max=2), quiet=True)
    >>> from smoothcert import read_results, write_report
    >>> write_report(read_results("mini"), "report.html", title="Two digits")
    """
    path = Path(path)
    if path.is_dir():
        raise ConfigError(
            f"{path}: expected the name of a file to write, found a folder; add a file name"
        )
    chosen: dict[str, Any] = {"reference": reference, "intervals": intervals}
    chosen |= {"attacks": attacks, "corrupted": corrupted, "opening": opening}
    if corrupted and not results:
        write_text(path, render_corruptions(title, corrupted, rounded))
        return
    text = render_report(results, title, radii, rounded, training or {}, images or {}, **chosen)
    write_text(path, text)


# id of a section -> its title, and the entries of the context it shows: it is left out if all of them are empty
SECTIONS = {
    "opening": ("", ("opening",)),
    "results": ("Results", ("table",)),
    "curves-head": ("Curves", ("curves",)),
    "confidence-head": ("Confidence", ("confidence",)),
    "compare": ("Comparison", ("differences", "envelope", "seeds", "trade_offs")),
    "attacks-head": ("Attacks", ("attacks",)),
    "radii": ("Radii", ("histograms",)),
    "corruptions": ("Corruptions", ("corruptions",)),
    "classes": ("Classes", ("classes",)),
    "gallery": ("Images", ("gallery",)),
    "training": ("Training", ("training",)),
    "verified": ("Records of verification", ("verified",)),
    "provenance": ("Provenance", ("runs",)),
}


def render_report(
    results: Sequence[Certificates],
    title: str,
    radii: Sequence[float] | None,
    rounded: bool,
    training: Mapping[str, Epochs],
    images: Mapping[str, Images],
    *,
    version: str | None = None,
    corrupted: Sequence[Sequence[Corrupted]] = (),
    reference: str | None = None,
    intervals: bool = False,
    attacks: Sequence[Attacks] = (),
    opening: tuple[str, str] | None = None,
) -> str:
    """The page as text. A `version` makes it one that asks its server whether there is a newer one (live.py)."""
    from markupsafe import Markup

    asked = _options(radii, rounded, intervals)
    table, everything = certificate_table(results, radii, rounded, intervals), results
    told = (
        *alarm_notes(results),
        INTERVALS,
        OF_ROUNDED,
        *settings_notes(results),
    )  # by columns and words of the page's own, and at its top
    notes = tuple(note for note in table.notes if note not in told)
    table = sections.with_budget(replace(table, notes=notes), results)
    results = [
        c for c in results if c.labelled
    ] or results  # those without labels share no chart with others
    radii = default_radii(results) if radii is None else checked_radii(radii)
    labels, gallery = labels_of(results), build_gallery(results, images)
    readings = sections.readings(results, rounded)
    context: dict[str, Any] = {
        **_frame(title, version),
        "comparable": comparable(results),
        "opening": opening and (opening[0], Markup(opening[1])),
        "headline": sections.headline(results, radii, rounded),
        "table": table,
        "published": published_table(results, radii),
        "labels": labels,
        "readings": readings,
        **_charts(results, rounded, training),
        **_comparison(results, radii, rounded, reference_place(results, reference)),
        **_classes(results, gallery, rounded),
        "corruptions": sections.corruptions(corrupted, rounded),
        **_gallery(gallery),
        **attack_section(attacks, everything),
        "norms": norm_names(c.norm for c in results),
        "gaussian": all(c.law == "gaussian" for c in results),
        "doubtful": any(doubt(c.noise) for c in results),
        "together": any(c.identity.get("simultaneous") for c in results),
        "measured": sum(c.tested_radii is None for c in results),
        "saturated": any(saturation(c) is not None for c in results),
        "verified": verified(results, labels),
        "runs": [
            provenance(c, label, asked)
            for c, label in zip(everything, labels_of(everything), strict=True)
        ],
        "labelled": results[0].labelled,
        "data": {
            "labels": labels,
            "contenders": contenders(results, range(len(results))),
            "colours": [style.colour for style in run_styles(results)],
            "readings": readings,
            "gallery": sections.gallery_data(gallery),
        },
    }
    context["sections"] = [
        (name, heading or context[name][0])
        for name, (heading, shown) in SECTIONS.items()
        if any(context[entry] for entry in shown)
    ]
    return _filled("page.html.j2", context)


def render_corruptions(title: str, corrupted: Sequence[Sequence[Corrupted]], rounded: bool) -> str:
    """A page of corruption benchmarks alone, without runs on clean images."""
    context = {
        **_frame(title, None),
        "corruptions": sections.corruptions(corrupted, rounded),
        "files": sum(map(len, corrupted)),
        "heat": lambda *place: "",
        "data": {"labels": [], "readings": {}},
    }
    return _filled("corruption_page.html.j2", context)


def _options(radii: Sequence[float] | None, rounded: bool, intervals: bool) -> list[str]:
    """The words of `smoothcert report` that change what is shown of a run; others are about several of them."""
    words = [] if radii is None else ["--radius", *map(str, radii)]
    return words + ["--rounded"] * rounded + ["--intervals"] * intervals


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


def _charts(
    results: Sequence[Certificates], rounded: bool, training: Mapping[str, Epochs]
) -> dict[str, Any]:
    """Charts go into the page unescaped (Markup): they are made here, not by a user."""
    from markupsafe import Markup

    confidence = confidence_chart(results)
    return {
        "curves": Markup(curve_svg(results, rounded=rounded, legend=False)),
        "confidence": None
        if confidence is None
        else Markup(chart_svg(confidence, legend=False, points=300)),
        "keys": [
            Markup(_key(c, style)) for c, style in zip(results, run_styles(results), strict=True)
        ],
        "histograms": [
            {**chart, "svg": Markup(chart["svg"])} for chart in sections.histograms(results)
        ],
        "training": [
            (text, Markup(chart)) for text, chart in sections.training_charts(results, training)
        ],
    }


def _comparison(
    results: Sequence[Certificates], radii: Sequence[float], rounded: bool, reference: int
) -> dict[str, Any]:
    from markupsafe import Markup

    compared = sections.comparison(results, radii, rounded, reference)
    return {
        **compared,
        "reference": labels_of(results)[reference],
        "difference_chart": Markup(compared["difference_chart"] or ""),
        "trade_offs": [(text, Markup(chart)) for text, chart in compared["trade_offs"] or ()],
    }


def _classes(
    results: Sequence[Certificates], gallery: Gallery | None, rounded: bool
) -> dict[str, Any]:
    from markupsafe import Markup

    table = class_table(results, gallery.names if gallery else (), rounded)
    known = {label for c in results for label in set(c.label.tolist())}
    return {
        "classes": table,
        "some_classes": table and len(table.head) - 1 < len(known),
        "heat": lambda *place: Markup(_heat_style(sections.heat(*place))),
    }


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


def _key(c: Certificates, style: LineStyle) -> str:
    """The entry of a run in the legend: a line, or a point where only some radii were tested."""
    return (
        f'<path d="M0 4h30" {stroke(style)}/>'
        if c.tested_radii is None
        else f'<circle cx="15" cy="4" r="4" {fill(style)}/>'
    )


def _heat_style(share: float | None) -> str:
    return "" if share is None else f' style="--v:{share:.2f}"'
