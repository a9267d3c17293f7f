"""`smoothcert report`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_json, add_numbers, option, place, print_json, read_numbers
from smoothcert.cli.report_data import Pictures, read_attacked, read_certificates, training_of
from smoothcert.errors import ConfigError

if TYPE_CHECKING:
    from smoothcert.report import Attacks, Certificates

FORMATS = ("markdown", "latex", "csv")  # of tables
ABOUT = "Tables and curves of certificates, also of the field's published logs."


def add_options(parser: ArgumentParser) -> None:
    text = "run folders (with their attacks), stores, folders with some below, or logs of the field"
    parser.add_argument("results", type=place, nargs="+", help=text)
    add_numbers(parser, ("--radii", "--radius"), "radii of the table; default: by data")
    parser.add_argument("--rounded", action="store_true", help="round radii to 3 digits first, as published tables do")
    for kind in ("html", *FORMATS):
        option(parser, f"--{kind}", Path, None, f"write this {kind} file")
    option(parser, "--alpha", float, None, "analyse stored counts again at this alpha, without a forward pass")
    option(parser, "--bound", Literal["binary", "multiclass"], None, "analyse stored counts again by this bound")
    option(parser, "--norm", Literal["l2", "linf"], None, "show radii in this norm")
    option(parser, "--figure", Path, None, "write a drawing as .svg, .pdf or .png")
    option(parser, "--draw", str, None, "which drawing --figure writes, for example confidence (default: accuracy)")
    names = "which tables to print and write, for example: certified confidence"
    parser.add_argument("--tables", type=str, nargs="+", default=None, help=names)
    parser.add_argument("--intervals", action="store_true", help="with 95 %% intervals over the choice of inputs")
    option(parser, "--reference", str, None, "name of the run that differences are taken to; default: the first")
    parser.add_argument("--corruptions", type=place, nargs="+", help="folders of logs SEVERITY/METHOD/CORRUPTION.tsv")
    option(parser, "--data-dir", Path, None, "where data sets are, for the gallery of the page")
    add_json(parser)
    serving = "show the page to browsers on this machine, and follow the runs until Ctrl-C"
    parser.add_argument("--serve", action="store_true", help=serving)
    option(parser, "--port", int, None, "port of --serve; default: one that is free")


def run(options: Options) -> None:
    from smoothcert.runs.remote import is_remote, shown
    from smoothcert.runs.rows import NoCertificates

    if options.serve and options.json:
        raise ConfigError("--json prints one document and ends, --serve goes on: choose one of them")
    if options.serve and any(map(is_remote, options.results)):
        raise ConfigError("--serve follows folders on this machine: those on a server can be reported again later")
    if options.port is not None and not options.serve:
        raise ConfigError("--port is the port of --serve, which is not given")
    if options.draw is not None and options.figure is None:
        raise ConfigError("--draw says what --figure writes, which is not given")
    pictures = Pictures(options.data_dir)
    try:
        results, left_out = read_certificates(options)
    except NoCertificates as error:
        if not options.serve:
            raise
        print(f"note: {shown(str(error))}", file=sys.stderr)
    else:
        attacks, not_yet = read_attacked(options)
        left_out += not_yet
        for reason in left_out:
            print(f"note: {shown(reason)}", file=sys.stderr)
        _report(options, results, attacks, left_out, pictures)
    if options.serve:
        _serve(options, pictures)


def _report(
    options: Options, results: list[Certificates], attacks: list[Attacks], left_out: list[str], pictures: Pictures
) -> None:
    from smoothcert.report import (
        Material,
        alarms,
        attack_values,
        corrupted_stores,
        corruption_values,
        difference_values,
        read_corruptions,
        report_tables,
        report_values,
        save_figure,
        texts_together,
        write_report,
        write_tables,
    )
    from smoothcert.runs.remote import local
    from smoothcert.statistics.printed import UNITS

    say = partial(print, file=sys.stderr) if options.json else print
    for alarm in alarms(attacks, results):  # whatever else is asked for
        print(alarm, file=sys.stderr)
    radii = read_numbers(options.radii, "--radii")
    found = (corrupted_stores(results), *(read_corruptions(local(folder)) for folder in options.corruptions or ()))
    corrupted = [entries for entries in found if entries]
    chosen = {"rounded": options.rounded, "reference": options.reference}
    given = {"corrupted": corrupted, "attacks": attacks, "intervals": options.intervals}
    material = Material(results, radii, **given, **chosen)
    tables = report_tables(material, options.tables)
    if options.figure is not None:  # first: a drawing that cannot be made leaves no other file behind
        save_figure(results, options.figure, drawing=options.draw or "accuracy", attacks=attacks, **chosen)
        say(f"wrote {options.figure}")
    if not options.json:
        print(texts_together([table for made in tables.values() for table in made]))
        print(UNITS)
    for path in write_tables(tables, **{kind: options[kind] for kind in FORMATS}):
        say(f"wrote {path}")
    if options.html is not None:
        training, images = training_of(results), pictures.of(results)
        shown = {**chosen, "intervals": options.intervals, "attacks": attacks}
        write_report(results, options.html, radii=radii, training=training, images=images, **shown)
        say(f"wrote {options.html}")
    if options.json:  # last: a file that cannot be written is an error, and stdout has one document
        values = report_values(results, radii, options.rounded, options.intervals)
        means = [corruption_values(entries, options.rounded) for entries in corrupted]
        compared = difference_values(*material.compared(), options.rounded) if "differences" in tables else None
        others = {"differences": compared, "corruptions": means, "attacks": attack_values(attacks, results)}
        print_json({**values, **others, "left_out": left_out})


def _serve(options: Options, pictures: Pictures) -> None:
    from smoothcert.report.page.live import LiveReport, serve
    from smoothcert.report.page.page import TITLE, render_report

    radii = read_numbers(options.radii, "--radii")

    def page(version: str) -> str:
        results, _ = read_certificates(options)
        shown = training_of(results), pictures.of(results)
        chosen = {"reference": options.reference, "intervals": options.intervals, "attacks": read_attacked(options)[0]}
        return render_report(results, TITLE, radii, options.rounded, *shown, version=version, **chosen)

    serve(LiveReport(options.results, page), options.port or 0)
