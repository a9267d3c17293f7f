"""The one object of a report: runs, options, and the views of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.errors import ConfigError, MissingExtra, none_of
from smoothcert.report.labels import checked_radii
from smoothcert.report.measures.analysis import default_radii
from smoothcert.report.measures.corrupted import Corrupted, corrupted_stores
from smoothcert.report.measures.groups import Grouping
from smoothcert.report.measures.pairing import reference_place
from smoothcert.report.page.gallery import Images
from smoothcert.report.read.attacks import Attacks, read_attack_stores, with_alarms
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.read.reading import read_results
from smoothcert.report.read.trainings import Training, is_training_log, read_trainings
from smoothcert.report.view import View
from smoothcert.runs.remote import local

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smoothcert.report.table import Table


@dataclass(frozen=True)
class ReportOptions:
    """What of the runs is shown, and how."""

    radii: Sequence[float] | None = None  # None: by data
    rounded: bool = False  # radii to 3 digits first, as published tables do
    intervals: bool = False  # of 95 %, around measures of one run
    reference: str | None = None  # the run that differences are taken to; None: the first
    group_by: Grouping = "method"  # runs that belong together where the best of several is shown
    published: Sequence[str] = ()  # tables of papers beside our runs in trade-offs
    least_accuracy: float = 0.0  # of what trade-offs show
    epochs: int | None = None  # how many losses show; None: all


@dataclass(frozen=True)
class Report:
    """Views of `runs`, by their names: `report.table("differences")`, `report.plot("accuracy")`, `report.write(path)`.

    `corrupted` has an entry for each corruption benchmark, and `images` the data set of a run by its name.

    >>> from smoothcert import Report
    >>> Report(runs=[]).left_out
    ()
    """

    runs: Sequence[Certificates]
    options: ReportOptions = field(default_factory=ReportOptions)
    attacks: Sequence[Attacks] = ()
    trainings: Sequence[Training] = ()
    corrupted: Sequence[Sequence[Corrupted]] = ()
    images: Mapping[str, Images] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    on_page: bool = False  # where views are shorter, and tell what its reader cannot ask for

    def tables(self, *names: str) -> dict[str, list[Table]]:
        """The tables of these views; without names, the main one and what is there to be shown unasked."""
        made = {name: view.tables for name, view in views().items() if view.tables is not None}
        if unknown := [name for name in names if name not in made]:
            raise none_of("a view with tables", unknown[0], made)
        return {
            name: make(self)
            for name, make in made.items()
            if (name in names if names else views()[name].unasked(self))
        }

    def table(self, name: str = "accuracy") -> Table:
        """The first table of a view."""
        return self.tables(name)[name][0]

    def plot(self, name: str = "accuracy") -> Figure:
        """The picture of a view: a figure of matplotlib's, to be changed as you like."""
        drawn = {each: view.draw for each, view in views().items() if view.draw is not None}
        if name not in drawn:
            raise none_of("a view with a picture", name, drawn)
        if not self.runs and name != "losses":
            raise ConfigError("a figure needs at least one run, found none")
        return drawn[name](self)

    def frame(self) -> Any:
        """One row per image and run, as a data frame of pandas."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError as error:
            raise MissingExtra("pandas", "frames", "Report.frame()") from error
        columns = ("idx", "label", "predict", "radius", "correct")
        parts = [
            pandas.DataFrame({"run": label, **{name: getattr(c, name) for name in columns}})
            for label, c in zip(labels_of(self.runs), self.runs, strict=True)
        ]
        return pandas.concat(parts, ignore_index=True)

    def write(
        self,
        path: str | Path,
        title: str | None = None,
        opening: tuple[str, str] | None = None,
    ) -> None:
        """The page: one HTML file that needs nothing else, not even a network.

        `opening` is the heading and the HTML of a section that comes first.

        >>> from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset, load_model
        >>> model, test, config = load_model("mini"), load_dataset("mnist-mini"), CertifyConfig(sigma=0.5, n=100)
        >>> store = certify_dataset(model, test, "mini/test", config, selection=Selection(max=2), quiet=True)
        >>> from smoothcert import load
        >>> load("mini").write("report.html", title="Two digits")
        """
        from smoothcert.report.page.page import TITLE, write_page

        write_page(self, Path(path), title or TITLE, opening)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    @property
    def labelled(self) -> list[Certificates]:
        return [c for c in self.runs if c.labelled]

    def radii_of(self, runs: Sequence[Certificates]) -> list[float]:
        given = self.options.radii
        return default_radii(runs) if given is None else checked_radii(given)

    def reference_place(self) -> int:
        """The place of the run that others are compared with."""
        if not self.runs:
            raise ConfigError("a comparison needs at least one run, found none")
        return reference_place(self.runs, self.options.reference)


def views() -> Mapping[str, View]:
    from smoothcert.report.views import VIEWS  # they know what a report is

    return VIEWS


def load(*places: str | Path, **options: Any) -> Report:
    """A report of run folders, stores of certificates, folders with some below, and logs.

    >>> from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset, load_model
    >>> model, test, config = load_model("mini"), load_dataset("mnist-mini"), CertifyConfig(sigma=0.5, n=100)
    >>> store = certify_dataset(model, test, "mini/test", config, selection=Selection(max=2), quiet=True)
    >>> from smoothcert import load
    >>> len(load("mini", radii=[0, 0.5]).runs)
    1

    `options` are those of `ReportOptions`. Patterns are expanded. What holds no certificates yet is in `left_out`.
    """
    found = [place for given in places for place in _expanded(given)]
    with left_out_of() as left_out:
        logs = [place for place in found if is_training_log(place)]
        runs = read_results(*(place for place in found if place not in logs))
        attacks = read_attack_stores(*found)
        trainings = read_trainings(*found)
        runs = [with_alarms(c, attacks) for c in runs]
    corrupted = corrupted_stores(runs)
    return Report(
        runs,
        ReportOptions(**options),
        attacks,
        trainings,
        [corrupted] if corrupted else [],
        left_out=tuple(left_out),
    )


@contextmanager
def left_out_of() -> Iterator[list[str]]:
    """What readers warn of, as sentences, once they have read."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
    told += [str(warning.message) for warning in caught]


def _expanded(place: str | Path) -> list[str | Path]:
    from glob import glob, has_magic

    if isinstance(place, Path) or not has_magic(place):
        return [local(place)]
    if not (found := sorted(glob(place, recursive=True))):
        raise ConfigError(f"{place}: no such file or folder; expected a pattern that finds some")
    return [*found]


def with_options(report: Report, **changes: Any) -> Report:
    """The same runs, shown otherwise."""
    return replace(report, options=replace(report.options, **changes))
