"""`smoothcert report`."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_numbers, option, read_numbers
from smoothcert.errors import SmoothcertError, StoreError

if TYPE_CHECKING:
    from smoothcert.report import Certificates

ABOUT = "Tables and curves of certificates, also of the field's published logs."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="+", help="run folders, certificate stores or logs of the field")
    add_numbers(parser, ("--radii", "--radius"), "radii of the table; default: by data")
    parser.add_argument("--rounded", action="store_true", help="round radii to 3 digits first, as published tables do")
    for kind in ("html", "markdown", "latex", "csv"):
        option(parser, f"--{kind}", Path, None, f"write this {kind} file")
    option(parser, "--alpha", float, None, "analyse stored counts again at this alpha, without a forward pass")
    option(parser, "--bound", Literal["binary", "multiclass"], None, "analyse stored counts again by this bound")
    option(parser, "--norm", Literal["l2", "linf"], None, "show radii in this norm")
    option(parser, "--figure", Path, None, "write the curves as .svg, .pdf or .png")
    parser.add_argument("--corruptions", type=Path, nargs="+", help="folders of logs SEVERITY/METHOD/CORRUPTION.tsv")
    option(parser, "--data-dir", Path, None, "where data sets are, for the gallery of the page")


def run(options: Options) -> None:
    from smoothcert.files import write_text
    from smoothcert.report import (
        certificate_table,
        corrupted_stores,
        corruption_table,
        read_corruptions,
        read_results,
        save_figure,
        write_report,
    )

    radii = read_numbers(options.radii, "--radii")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = read_results(*options.results)
    for warning in caught:  # places without certificates yet
        print(f"note: {warning.message}", file=sys.stderr)
    if options.alpha is not None or options.bound is not None or options.norm is not None:
        results = [_reanalysed(entry, options) for entry in results]
    table = certificate_table(results, radii=radii, rounded=options.rounded)
    print(table.to_text())
    unlabelled = [entry for entry in results if not entry.labelled]
    if len(unlabelled) not in (0, len(results)):  # their shares are no accuracies, and stand apart
        print(certificate_table(unlabelled, radii=radii, rounded=options.rounded).to_text())
    for entries in (corrupted_stores(results), *map(read_corruptions, options.corruptions or ())):
        if entries:
            print(corruption_table(entries, options.rounded).to_text())
    texts = {"markdown": table.to_markdown, "latex": table.to_latex, "csv": table.to_csv}
    for kind, make in texts.items():
        if options[kind] is not None:
            write_text(options[kind], make())
            print(f"wrote {options[kind]}")
    if options.figure is not None:
        save_figure(results, options.figure, rounded=options.rounded)
        print(f"wrote {options.figure}")
    if options.html is not None:
        write_report(
            results,
            options.html,
            radii=radii,
            rounded=options.rounded,
            training=_training(results),
            images=_images(results, options.data_dir),
        )
        print(f"wrote {options.html}")


def _reanalysed(entry: Certificates, options: Options) -> Certificates:
    from smoothcert.evaluation.reanalysis import reanalyse

    if entry.manifest is None:
        raise StoreError(
            f"{entry.source} has no class counts, so that it cannot be analysed by another alpha, bound or norm"
        )
    found = reanalyse(entry.source, alpha=options.alpha, bound=options.bound or "binary", norm=options.norm)
    return dataclasses.replace(found, name=entry.name)


def _training(results: Sequence[Certificates]) -> dict[str, list[dict[str, Any]]]:
    """The epochs of each run that was trained here, under the name of its first store."""
    from smoothcert.runs.folder import RunFolder

    runs = {entry.source.parent.parent: entry.name for entry in reversed(results)}  # RUN/certify/NAME
    return {
        name: RunFolder(path).records("metrics.jsonl")
        for path, name in reversed(runs.items())
        if RunFolder(path).config_path.is_file()
    }


def _images(results: Sequence[Certificates], data_dir: Path | None) -> dict[str, Any]:
    """The data that certificates are about, for the gallery, where it is at hand: a report downloads nothing."""
    from smoothcert.data.corruptions import load_stored

    loaded: dict[tuple[str, str], Any] = {}
    found = {}
    for entry in results:
        if not entry.identity:
            continue
        key = name, split = str(entry.identity.get("dataset")), str(entry.identity.get("split"))
        with suppress(SmoothcertError):
            if key not in loaded:
                loaded[key] = load_stored(name, split, data_dir, entry.identity.get("classes"))
        if key in loaded:
            found[entry.name] = loaded[key]
    return found
