"""The average certified radius class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.labels import radius_digits
from smoothcert.report.measures.analysis import (
    proved,
)
from smoothcert.report.measures.classes import per_class
from smoothcert.report.page.gallery import class_names
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.table import Table
from smoothcert.report.view import View
from smoothcert.statistics.printed import number

if TYPE_CHECKING:
    from smoothcert.report.report import Report


def class_table(
    results: Sequence[Certificates],
    names: Sequence[str] = (),
    rounded: bool = False,
    most: int = 20,
) -> Table | None:
    """The ACR of each run that has one, class by class, for the `most` classes with the smallest mean over the runs."""
    results = [c for c in results if c.tested_radii is None and c.labelled]
    values = [{entry.label: entry.acr for entry in per_class(c, rounded=rounded)} for c in results]
    classes = sorted({label for run in values for label in run})
    mean = {k: np.mean([run[k] for run in values if k in run]) for k in classes}
    shown, down = sorted(sorted(classes, key=lambda k: mean[k])[:most]), proved(results, rounded)
    rows = [
        (label, *(number(run[k], radius_digits(c), down) if k in run else "-" for k in shown))
        for c, label, run in zip(results, labels_of(results), values, strict=True)
    ]
    return (
        Table(("run", *(names[k] if k < len(names) else str(k) for k in shown)), tuple(rows))
        if rows
        else None
    )


def _tables(report: Report) -> list[Table]:
    names = next((found for c in report.images.values() if (found := class_names(c))), ())
    table = class_table(report.runs, names, report.options.rounded)
    if table is None:
        raise ConfigError("classes need a run with labels and radii of its own, found none")
    return [replace(table, caption="Average certified radius by class", look="heat")]


VIEW = View(
    "classes",
    "Classes",
    "the ACR class by class",
    _tables,
    how=lambda report: (
        "The average certified radius over the inputs of each class; of many classes, those with the smallest."
    ),
)
