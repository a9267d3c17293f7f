"""What a view is: one idea of a report in one file, with its measure, its tables, its picture and its sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report
    from smoothcert.report.table import Table

Reading = Mapping[str, Any]
"""The values of each run on a fine grid, which the page shows at the slider and the pointer."""


@dataclass(frozen=True)
class View:
    """Its functions take a report; where something cannot be made, they raise `ConfigError` and say what is missing.

    `about` is a line for help and lists, `how` a paragraph below it on the page, in which *stars* are emphasis.
    The page leaves a view out that cannot be made. `unasked` says whether its tables are printed without being asked
    for. `keys` says whether its picture has a legend on the page, which has one of its own for lines of runs.
    """

    name: str
    title: str
    about: str
    tables: Callable[[Report], list[Table]] | None = None
    draw: Callable[[Report], Figure] | None = None
    how: Callable[[Report], str] = lambda report: ""
    unasked: Callable[[Report], bool] = lambda report: False
    reading: Callable[[Report], Reading | None] = lambda report: None
    keys: bool = False
