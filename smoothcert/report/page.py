"""The report: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert import __version__
from smoothcert.errors import ConfigError
from smoothcert.files import atomic_write
from smoothcert.report.analysis import (
    average_certified_radius,
    certified_accuracy,
    clean_accuracy,
    median_radius,
)
from smoothcert.report.certificates import Certificates
from smoothcert.report.curves import axis_top, curve_svg
from smoothcert.report.names import run_labels
from smoothcert.report.svg import stroke
from smoothcert.report.tables import GROUP, HEAD, certificate_table
from smoothcert.report.training import Epochs, loss_svg


def write_report(
    results: Sequence[Certificates],
    path: str | Path,
    *,
    title: str = "Certified robustness",
    radii: Sequence[float] | None = None,
    rounded: bool = False,
    training: Mapping[str, Epochs] | None = None,
) -> None:
    """Write table, curves, notes and provenance of the runs to `path`; `training` gives the epochs of a run.

    The same results give the same bytes. Killed at any moment, it leaves the old file or the new one.
    """
    path = Path(path)
    if path.is_dir():
        raise ConfigError(f"{path}: expected the name of a file to write, found a folder; add a file name")
    text = render_report(results, title, radii, rounded, training or {})
    with atomic_write(path) as file:
        file.write(text.encode())


def render_report(
    results: Sequence[Certificates],
    title: str,
    radii: Sequence[float] | None,
    rounded: bool,
    training: Mapping[str, Epochs],
) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    table = certificate_table(results, radii, rounded)
    labels = run_labels([c.name for c in results], [c.sigma for c in results])
    loss = loss_svg(training, {c.name: slot for slot, c in enumerate(results)})
    here = files(__package__)
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string((here / "page.html.j2").read_text(encoding="utf-8")).render(
        title=title,
        style=Markup((here / "page.css").read_text(encoding="utf-8")),
        script=Markup((here / "page.js").read_text(encoding="utf-8")),
        headline=_headline(results, labels, rounded),
        table=table,
        head=HEAD,
        group=GROUP,
        rounded=rounded,
        curves=Markup(curve_svg(results, rounded=rounded, legend=False)),
        strokes=[Markup(stroke(slot)) for slot in range(len(results))],
        labels=labels,
        reading=_readings(results, rounded),
        loss=Markup(loss) if loss else None,
        runs=[_provenance(c, label) for c, label in zip(results, labels, strict=True)],
        version=__version__,
    )


def _headline(results: Sequence[Certificates], labels: Sequence[str], rounded: bool) -> dict[str, str]:
    rows = sorted({c.rows for c in results})
    complete = [i for i, c in enumerate(results) if not c.partial] or range(len(results))
    best = max(complete, key=lambda i: average_certified_radius(results[i], rounded))
    sigmas = {c.sigma for c in results}
    sigma = next(iter(sigmas)) if len(sigmas) == 1 else None
    return {
        "runs": "1 run" if len(results) == 1 else f"{len(results)} runs",
        "inputs": f"{rows[0]:,}" if len(rows) == 1 else f"{rows[0]:,} to {rows[-1]:,}",
        "sigma": "" if sigma is None else f"{sigma:g}",
        "best": labels[best],
        "radius": f"{average_certified_radius(results[best], rounded):.3f}",
    }


def _readings(results: Sequence[Certificates], rounded: bool, most: int = 400) -> dict[str, Any]:
    """The values the page shows at the pointer: certified accuracies in % on a fine grid of radii."""
    top, density, coarser = axis_top(results)[0], 100.0, cycle((2, 2.5, 2))  # steps of 0.01, 0.02, 0.05, 0.1, ...
    while top * density > most:
        density /= next(coarser)
    # Divided, not multiplied by a step: 0.35 must be the double nearest to 0.35, or a tie there would be lost.
    radii = np.arange(int(top * density) + 1) / density
    shares = [certified_accuracy(c, radii, rounded).tolist() for c in results]
    # Rounded here, by the rule of the table: the script would print a tie such as 73.25 the other way.
    values = [[float(f"{100 * share:.1f}") for share in run] for run in shares]
    start = int(np.searchsorted(radii[:-1], min(0.5, top / 2)))
    return {"radii": np.round(radii, 6).tolist(), "values": values, "start": start}


def _provenance(c: Certificates, label: str) -> dict[str, Any]:
    def shown(value: object) -> str:
        return "not recorded" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    median = median_radius(c)
    return {
        "label": label,
        "manifest": None if c.manifest is None else json.dumps(c.manifest, indent=2, ensure_ascii=False),
        "settings": {
            "source": c.source.as_posix(),
            "inputs": f"{c.rows} of {c.expected}" if c.expected is not None else str(c.rows),
            "noise level σ": shown(c.sigma),
            "samples to select the class n0": shown(c.n0),
            "samples to certify n": shown(c.n),
            "failure probability α": shown(c.alpha),
            "noise": shown(c.noise),
            "clean accuracy": f"{100 * clean_accuracy(c):.1f} %",
            "median radius of correct inputs": "none" if np.isnan(median) else f"{median:.3f}",
        },
    }
