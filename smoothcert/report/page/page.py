"""The report: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from smoothcert import __version__
from smoothcert.errors import ConfigError
from smoothcert.files import atomic_write
from smoothcert.report.charts.curves import confidence_svg, curve_svg
from smoothcert.report.charts.line_styles import COLOURS, DARK_COLOURS, LineStyle, run_styles
from smoothcert.report.charts.svg import fill, stroke
from smoothcert.report.charts.training import Epochs
from smoothcert.report.measures.analysis import default_radii
from smoothcert.report.measures.confidence import saturation
from smoothcert.report.page import sections
from smoothcert.report.page.gallery import KINDS, Images, build_gallery
from smoothcert.report.page.provenance import provenance
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of, norm_names
from smoothcert.report.tables.formats import GROUP
from smoothcert.report.tables.tables import certificate_table, checked_radii, class_table, published_table


def write_report(
    results: Sequence[Certificates],
    path: str | Path,
    *,
    title: str = "Certified robustness",
    radii: Sequence[float] | None = None,
    rounded: bool = False,
    training: Mapping[str, Epochs] | None = None,
    images: Mapping[str, Images] | None = None,
) -> None:
    """Write tables, charts, notes and provenance of the runs to `path`.

    `training` gives the epochs of a run by its name, `images` the data set it was certified on, for the gallery.
    The same results give the same bytes. Killed at any moment, it leaves the old file or the new one.
    """
    path = Path(path)
    if path.is_dir():
        raise ConfigError(f"{path}: expected the name of a file to write, found a folder; add a file name")
    text = render_report(results, title, radii, rounded, training or {}, images or {})
    with atomic_write(path) as file:
        file.write(text.encode())


def render_report(
    results: Sequence[Certificates],
    title: str,
    radii: Sequence[float] | None,
    rounded: bool,
    training: Mapping[str, Epochs],
    images: Mapping[str, Images],
) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def safe(value: Any) -> Any:
        """Charts are made here, not by a user: they go into the page as they are."""
        if isinstance(value, str):
            return Markup(value)
        return [(text, Markup(chart)) for text, chart in value] if value else None

    table = certificate_table(results, radii, rounded)
    radii = default_radii(results) if radii is None else checked_radii(radii)
    labels, styles = labels_of(results), run_styles(results)
    gallery = build_gallery(results, images)
    readings = sections.readings(results, rounded)
    compared = sections.comparison(results, radii, rounded)
    classes = class_table(results, gallery.names if gallery else (), rounded)
    charts = sections.training_charts(results, training)
    context = {
        "title": title,
        "style": Markup(_style()),
        "script": Markup(_file("page.js")),
        "headline": sections.headline(results, rounded),
        "table": table,
        "published": published_table(results, radii),
        "group": GROUP,
        "rounded": rounded,
        "curves": safe(curve_svg(results, rounded=rounded, legend=False)),
        "confidence": safe(confidence_svg(results)),
        "keys": [Markup(_key(c, style)) for c, style in zip(results, styles, strict=True)],
        "labels": labels,
        "readings": readings,
        **compared,
        "trade_offs": safe(compared["trade_offs"]),
        "histograms": [{**chart, "svg": Markup(chart["svg"])} for chart in sections.histograms(results)],
        "norms": norm_names(c.norm for c in results),
        "gaussian": all(c.law == "gaussian" for c in results),
        "measured": sum(c.tested_radii is None for c in results),
        "saturated": any(saturation(c) is not None for c in results),
        "classes": classes,
        "some_classes": classes and len(classes.head) - 1 < len({k for c in results for k in set(c.label.tolist())}),
        "heat": lambda *place: Markup(_warm(sections.heat(*place))),
        "gallery": gallery,
        "gallery_runs": sorted({card.run for card in gallery.cards}) if gallery else [],
        "gallery_classes": sorted({card.label for card in gallery.cards}) if gallery else [],
        "kinds": KINDS,
        "training": safe(charts),
        "runs": [provenance(c, label) for c, label in zip(results, labels, strict=True)],
        "version": __version__,
        "data": {
            "labels": labels,
            "colours": [style.colour for style in styles],
            "readings": readings,
            "gallery": sections.gallery_data(gallery),
        },
    }
    present = {
        "results": True,
        "curves-head": True,
        "compare": any(compared.values()),
        "confidence-head": context["confidence"] is not None,
        "radii": bool(context["histograms"]),
        "classes": classes is not None,
        "gallery": gallery is not None,
        "training": bool(charts),
        "provenance": True,
    }
    context["sections"] = [(name, text) for name, text in SECTIONS.items() if present[name]]
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(_file("page.html.j2")).render(context).lstrip()


SECTIONS = {
    "results": "Results",
    "curves-head": "Curves",
    "compare": "Comparison",
    "confidence-head": "Confidence",
    "radii": "Radii",
    "classes": "Classes",
    "gallery": "Images",
    "training": "Training",
    "provenance": "Provenance",
}


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _style() -> str:
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


def _warm(share: float | None) -> str:
    return "" if share is None else f' style="--v:{share:.2f}"'
