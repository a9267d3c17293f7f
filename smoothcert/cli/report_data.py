"""What a report is made of: certificates, maybe analysed again, epochs of training, and images where they are here."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smoothcert.cli.frame import Place
from smoothcert.config import option_of
from smoothcert.errors import ConfigError, SmoothcertError, StoreError

if TYPE_CHECKING:
    from smoothcert.report import Attacks, Certificates, Corrupted, Training


_USED_BY = {
    "published": ("--tables published", "--draw trade-offs"),
    "least_accuracy": ("--draw trade-offs",),
    "epochs": ("--draw losses",),
    "group_by": ("--tables envelope", "--draw envelope"),
    "reference": ("--tables differences", "--draw differences", "--html", "--serve"),
    "dimension": ("--norm linf",),
    "draw": ("--figure",),
    "port": ("--serve",),
}
"""Options that do nothing without one of others."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a report is asked for, beside the results."""

    results: tuple[Place, ...]
    radii: tuple[float, ...] | None = None
    """radii of the table; default: by data"""
    rounded: bool = False
    """round radii to 3 digits first, as published tables do"""
    html: Path | None = None
    """write the page to this file"""
    markdown: Path | None = None
    """write the tables to this Markdown file"""
    latex: Path | None = None
    """write the tables to this LaTeX file"""
    csv: Path | None = None
    """write the tables to this CSV file"""
    alpha: float | None = None
    """analyse stored counts again at this alpha, without a forward pass"""
    bound: Literal["binary", "multiclass"] | None = None
    """analyse stored counts again by this bound"""
    norm: Literal["l2", "linf"] | None = None
    """show radii in this norm"""
    dimension: int | None = None
    """values of an input, for --norm linf of logs; default: by their folders"""
    figure: Path | None = None
    """write a drawing as .svg, .pdf or .png"""
    draw: str | None = None
    """which view --figure draws: accuracy, confidence, differences, envelope, trade-offs, attacks,
    radii or losses (default: accuracy)"""
    group_by: Literal["method", "sigma", "folder", "all"] | None = None
    """runs that belong together in envelopes: of a method (the default), a sigma of a method, a folder, or all"""
    published: tuple[str, ...] | None = None
    """tables for --tables published and --draw trade-offs, e.g. catrs-supplement/table-7"""
    least_accuracy: float | None = None
    """clean accuracy below which --draw trade-offs leaves points out"""
    epochs: int | None = None
    """first epochs that --draw losses shows; default: all"""
    tables: tuple[str, ...] | None = None
    """views whose tables to print and write: accuracy, published, confidence, differences, envelope,
    seeds, attacks, corruptions, corruption-types, classes"""
    intervals: bool = False
    """with 95 % intervals over the choice of inputs"""
    reference: str | None = None
    """name of the run that differences are taken to; default: the first"""
    corruptions: tuple[Place, ...] | None = None
    """folders of logs severity_K/MODEL/CORRUPTION.tsv"""
    data_dir: Path | None = None
    """where data sets are, for the gallery of the page; else $SMOOTHCERT_DATA"""
    json: bool = False
    """print one JSON document and nothing else; notes and progress go to standard error"""
    serve: bool = False
    """show the page to browsers on this machine, and follow the runs until Ctrl-C"""
    port: int | None = None
    """port of --serve; default: one that is free"""

    def __post_init__(self) -> None:
        if self.radii is not None:
            object.__setattr__(self, "radii", tuple(dict.fromkeys(self.radii)))  # each once
        if self.port is not None and not 0 <= self.port < 2**16:
            raise ConfigError(f"--port is a number from 0 to 65535, found {self.port}")
        asked = {f"--tables {name}" for name in self.tables or ()}
        asked |= {f"--draw {self.draw}", f"--norm {self.norm}"}
        asked |= {f"--{name}" for name in ("html", "figure", "serve") if getattr(self, name)}
        for name, users in _USED_BY.items():
            if getattr(self, name) is not None and asked.isdisjoint(users):
                one = ", which is not given" if len(users) == 1 else ": give one of them"
                raise ConfigError(f"{option_of(name)} is for {' or '.join(users)}{one}")


def read_certificates(options: Asked) -> tuple[list[Certificates], list[str]]:
    """The certificates, and what was left out since it holds none yet."""
    from smoothcert.report import is_training_log, read_results
    from smoothcert.runs.remote import local

    places = [local(entry) for entry in options.results]
    if options.draw == "losses":
        places = [entry for entry in places if not is_training_log(entry)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = read_results(*places)
    if options.alpha is not None or options.bound is not None or options.norm is not None:
        results = [_reanalysed(entry, options) for entry in results]
    return results, [str(warning.message) for warning in caught]


def read_attacked(
    options: Asked, results: list[Certificates]
) -> tuple[list[Certificates], list[Attacks], list[str]]:
    """The results with the alarms of all attacks there, these, and what was left out since nothing is attacked yet."""
    from smoothcert.report import read_attack_stores
    from smoothcert.report.read.attacks import with_alarms
    from smoothcert.runs.remote import local

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attacks = read_attack_stores(*map(local, options.results))
    told = [with_alarms(c, attacks) for c in results]
    return told, attacks, [str(warning.message) for warning in caught]


def read_corrupted(
    options: Asked, results: list[Certificates]
) -> tuple[list[list[Corrupted]], list[str]]:
    """The corruption benchmarks among the results and those given expressly, and which logs were left out of these."""
    from smoothcert.report import corrupted_stores, read_corruptions
    from smoothcert.runs.remote import local

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = [read_corruptions(local(folder)) for folder in options.corruptions or ()]
    found = [entries for entries in (corrupted_stores(results), *given) if entries]
    return found, [str(warning.message) for warning in caught]


def read_epochs(options: Asked) -> tuple[list[Training], list[str]]:
    """The trainings among the results, and what was left out of them."""
    from smoothcert.report import read_trainings
    from smoothcert.runs.remote import local

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainings = read_trainings(*map(local, options.results))
    return trainings, [str(warning.message) for warning in caught]


def _reanalysed(entry: Certificates, options: Asked) -> Certificates:
    from smoothcert.evaluation.reanalysis import reanalyse
    from smoothcert.report.measures.norms import log_in_linf

    if entry.manifest is None:
        if options.alpha is not None or options.bound is not None:
            raise StoreError(
                f"{entry.source} has no class counts, so that it cannot be analysed by another alpha or bound: leave "
                "--alpha and --bound out, or name stores of certificates, which have counts"
            )
        return log_in_linf(entry, options.dimension) if options.norm == "linf" else entry
    recorded = entry.identity.get("dimension")
    if None not in (options.dimension, recorded) and options.dimension != recorded:
        raise ConfigError(
            f"{entry.source}: its inputs have {recorded} values, found --dimension {options.dimension}; leave it out, "
            "or report these results apart"
        )
    found = reanalyse(
        entry.source,
        alpha=options.alpha,
        bound=options.bound or "binary",
        norm=options.norm,
        values=options.dimension,
    )
    return dataclasses.replace(found, name=entry.name)


def check_values(options: Asked) -> None:
    """Whether numbers are what they must be, whatever asks for them later."""
    from smoothcert.report.labels import checked_radii

    checked_radii(options.radii or ())
    if options.least_accuracy is not None and not 0 <= options.least_accuracy <= 1:
        raise ConfigError(
            f"--least-accuracy is a share from 0 to 1, for example 0.6, found {options.least_accuracy:g}"
        )


def check_outputs(options: Asked, kinds: Sequence[str]) -> None:
    """Refuse to write two things into one file, into what is reported, and into what is no file."""
    from smoothcert.runs.remote import is_remote

    given = {Path(place).resolve() for place in options.results if not is_remote(place)}
    paths = [getattr(options, kind) for kind in kinds if getattr(options, kind) is not None]
    for kind in kinds:
        if (
            getattr(options, kind) is not None and getattr(options, kind).is_dir()
        ):  # an empty name is the folder itself
            found = (
                "an empty name"
                if getattr(options, kind) == Path()
                else f"the folder {getattr(options, kind)}"
            )
            raise ConfigError(
                f"--{kind} takes the name of a file to write, found {found}; add a file name"
            )
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise ConfigError(
                f"{path} is to be written twice, and the second would replace the first: give two names"
            )
        if place in given or (place.parent / "manifest.json").exists():
            raise ConfigError(
                f"{path} lies among the results, which writing it would damage: choose another name"
            )


def training_of(results: Sequence[Certificates]) -> list[Training]:
    """The epochs of each run that was trained here, under the name of its first store."""
    from smoothcert.report import Training
    from smoothcert.report.read.names import one_line
    from smoothcert.runs.folder import RunFolder

    runs = {
        entry.source.parent.parent: entry.name for entry in reversed(results)
    }  # RUN/certify/NAME
    return [
        Training(one_line(name), name, RunFolder(path).records("metrics.jsonl"))
        for path, name in reversed(runs.items())
        if RunFolder(path).config_path.is_file()
    ]


class Pictures:
    """The data that certificates are about, for the gallery, where it is at hand: a report downloads nothing.

    Each data set is read once, also by a page that is made many times.
    """

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._loaded: dict[tuple[str, str], Any] = {}

    def of(self, results: Sequence[Certificates]) -> dict[str, Any]:
        found = {entry.name: self._images(entry) for entry in results if entry.identity}
        return {name: images for name, images in found.items() if images is not None}

    def _images(self, entry: Certificates) -> Any:
        from smoothcert.runs.data_of import certified_data

        key = str(entry.identity.get("data")), str(entry.identity.get("split"))
        if key not in self._loaded:
            self._loaded[key] = None
            with suppress(SmoothcertError):
                self._loaded[key] = certified_data(entry.source, entry.identity, self._data_dir)
        return self._loaded[key]
