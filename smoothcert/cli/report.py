"""`smoothcert report`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from smoothcert.cli.frame import Options, Place, command
from smoothcert.cli.output import print_json
from smoothcert.cli.report_data import (
    Asked,
    Pictures,
    check_norm,
    check_outputs,
    check_values,
    read_attacked,
    read_certificates,
    read_corrupted,
    read_epochs,
    training_of,
)
from smoothcert.config import option_of
from smoothcert.errors import ConfigError
from smoothcert.progress import printable, styled

if TYPE_CHECKING:
    from smoothcert.report import Attacks, Certificates, Corrupted, Material
    from smoothcert.report.tables.formats import Table

FORMATS = ("markdown", "latex", "csv")  # of tables


@command("Look", "html figure tables draw intervals reference json")
def report(
    places: tuple[Place, ...] = (), /, *, asked: Annotated[dict[str, Any], Options(Asked)]
) -> None:
    """Tables, curves and a page of certificates; also of published logs

    Args:
        places: run folders (with their attacks), stores, folders with some below, or log files of the field
    """
    from smoothcert.runs.remote import is_remote, shown
    from smoothcert.runs.rows import NoCertificates

    options = Asked(places, **asked)
    if options.serve and options.json:
        raise ConfigError(
            "--json prints one document and ends, --serve goes on: choose one of them"
        )
    if options.serve and any(map(is_remote, options.results)):
        raise ConfigError(
            "--serve follows folders on this machine: those on a server can be reported again later"
        )
    if options.port is not None and not options.serve:
        raise ConfigError("--port is the port of --serve, which is not given")
    check_norm(options)
    check_values(options)
    check_outputs(options, ("figure", "html", *FORMATS))
    if (
        options.published
        and options.draw != "trade-offs"
        and "published" not in (options.tables or ())
    ):
        raise ConfigError(
            "--published is for --tables published or --draw trade-offs: give one of them"
        )
    for name, drawing in (("least-accuracy", "trade-offs"), ("epochs", "losses")):
        if getattr(options, name.replace("-", "_")) is not None and options.draw != drawing:
            raise ConfigError(f"--{name} is for --draw {drawing}, which is not given")
    if options.group_by and not {"envelope", "abstentions"} & {
        options.draw,
        *(options.tables or ()),
    }:
        raise ConfigError(
            "--group-by is for --tables envelope or abstentions, or --draw envelope: give one of them"
        )
    if options.draw is not None and options.figure is None:
        raise ConfigError(
            f"--draw says what --figure writes, which is not given: add --figure {options.draw}.svg, .pdf or .png"
        )
    if options.reference is not None and not (
        options.html or options.serve or "differences" in {options.draw, *(options.tables or ())}
    ):
        raise ConfigError(
            "--reference is for --tables differences, --draw differences, --html or --serve: give one of them"
        )
    if not options.results:
        _corruptions_alone(options)
        return
    pictures = Pictures(options.data_dir)
    wanted = (
        options.json
        or options.tables
        or any(getattr(options, kind) is not None for kind in ("html", *FORMATS))
    )
    losses = options.draw == "losses" and not wanted  # of trainings, which need no certificates
    try:
        results, left_out = read_certificates(options)
    except NoCertificates as error:
        if not (options.serve or losses):
            raise
        if losses:
            _draw(options, [], [])
            print(f"wrote {options.figure}")
        else:
            print(f"note: {shown(str(error))}", file=sys.stderr)
    else:
        results, attacks, not_yet = read_attacked(options, results)
        corrupted, aside = read_corrupted(options, results)
        left_out += [*not_yet, *aside]
        _tell(left_out)
        _report(options, results, attacks, corrupted, left_out, pictures)
    if options.serve:
        _serve(options, pictures)


def _tell(left_out: Sequence[str]) -> None:
    from smoothcert.runs.remote import shown

    for reason in left_out:
        print(f"note: {printable(shown(reason))}", file=sys.stderr)


def _report(
    options: Asked,
    results: list[Certificates],
    attacks: list[Attacks],
    corrupted: list[list[Corrupted]],
    left_out: list[str],
    pictures: Pictures,
) -> None:
    from smoothcert.report import Material, alarms, report_tables, write_report, write_tables
    from smoothcert.report.measures.pairing import reference_place

    for alarm in alarms(attacks, results):  # whatever is asked for
        print(alarm, file=sys.stderr)
    radii = options.radii
    chosen: dict[str, Any] = {"rounded": options.rounded, "reference": options.reference}
    given: dict[str, Any] = {
        "corrupted": corrupted,
        "attacks": attacks,
        "intervals": options.intervals,
        "by": options.group_by or "method",
        "published": options.published or (),
    }
    material = Material(results, radii, **given, **chosen)
    reference_place(
        material.labelled or results, options.reference
    )  # whoever asks for it later: it is one of them
    tables = report_tables(material, options.tables)
    written = []
    if (
        options.figure is not None
    ):  # first: a drawing that cannot be made leaves no other file behind
        _draw(options, results, attacks)
        written.append(options.figure)
    written += write_tables(tables, **{kind: getattr(options, kind) for kind in FORMATS})
    if options.html is not None:
        training, images = training_of(results), pictures.of(results)
        shown: dict[str, Any] = {
            **chosen,
            "intervals": options.intervals,
            "attacks": attacks,
            "corrupted": corrupted,
        }
        write_report(results, options.html, radii=radii, training=training, images=images, **shown)
        written.append(options.html)
    _print(options, tables, written)
    if options.json:  # last: a file that cannot be written is an error, and stdout has one document
        print_json({**_values(options, material, tables), "left_out": left_out})


def _values(options: Asked, material: Material, tables: Collection[str]) -> dict[str, Any]:
    """What was read, in numbers; some of it only where a table or a drawing asks for it."""
    from smoothcert.report import (
        attack_values,
        corruption_table,
        corruption_values,
        difference_values,
        envelope_values,
        report_values,
        trade_off_values,
    )

    results, rounded = material.results, options.rounded
    compared = best = overlaid = None
    if "differences" in tables:
        compared = difference_values(*material.compared(), rounded)
    if options.draw == "envelope" or not {"envelope", "abstentions"}.isdisjoint(tables):
        best = envelope_values(results, material.radii_of(material.labelled), rounded, material.by)
    if options.draw == "trade-offs":
        radii, beside = material.radii or (), options.published or ()
        overlaid = trade_off_values(results, radii, beside, rounded, options.least_accuracy or 0.0)
    return {
        **report_values(results, material.radii, rounded, options.intervals),
        "differences": compared,
        "envelopes": best,
        "trade_offs": overlaid,
        "corruptions": [corruption_values(entries, rounded) for entries in material.corrupted],
        "corruption_notes": [
            list(corruption_table(entries, rounded).notes) for entries in material.corrupted
        ],
        "attacks": attack_values(material.attacks, results),
    }


def _corruptions_alone(options: Asked) -> None:
    """Tables and page of the logs that --corruptions names; everything else is about runs."""
    from smoothcert.report import Material, report_tables, write_report, write_tables

    chosen = options.tables or ["corruptions"]
    used = {"results", "corruptions", "tables", "rounded", "html", *FORMATS}
    given = [
        name for name, value in vars(options).items() if value is not None and value is not False
    ]
    others = [option_of(name) for name in given if name not in used]
    others += [f"--tables {name}" for name in chosen if not name.startswith("corruption")]
    if options.corruptions is None or others:
        asked = f", found {' and '.join(others)} without them" if others else ""
        raise ConfigError(
            f"name run folders, stores or logs to report{asked}; only tables and page of --corruptions FOLDER need none"
        )
    corrupted, left_out = read_corrupted(options, [])
    _tell(left_out)
    material = Material([], rounded=options.rounded, corrupted=corrupted)
    tables = report_tables(material, chosen)
    written = write_tables(tables, **{kind: getattr(options, kind) for kind in FORMATS})
    if options.html is not None:
        write_report([], options.html, rounded=options.rounded, corrupted=material.corrupted)
        written.append(options.html)
    _print(options, tables, written)


def _print(options: Asked, tables: Mapping[str, Sequence[Table]], written: Sequence[Path]) -> None:
    """After all files are written, since whoever reads this may stop reading, as `head` does.

    Where a document for programs is printed, the tables are not, and the files are told beside it.
    """
    from smoothcert.report import texts_together
    from smoothcert.statistics.printed import UNITS

    if not options.json:
        text = texts_together([table for made in tables.values() for table in made])
        print(text, file=styled(sys.stdout))
        print(UNITS)
    for path in written:
        print(f"wrote {path}", file=sys.stderr if options.json else sys.stdout)


def _draw(options: Asked, results: list[Certificates], attacks: list[Attacks]) -> None:
    from smoothcert.report import attack_families, save_figure

    name = options.draw or "accuracy"
    trainings, left_out = read_epochs(options) if name == "losses" else ([], [])
    if name == "attacks":
        left_out = [note for family in attack_families(attacks, results) for note in family.notes]
    _tell(left_out)
    assert options.figure is not None
    save_figure(
        results,
        options.figure,
        drawing=name,
        rounded=options.rounded,
        reference=options.reference,
        radii=options.radii or (),
        attacks=attacks,
        by=options.group_by or "method",
        published=options.published or (),
        least_accuracy=options.least_accuracy or 0.0,
        epochs=options.epochs,
        trainings=trainings,
    )


def _serve(options: Asked, pictures: Pictures) -> None:
    from smoothcert.report.page.live import LiveReport, serve
    from smoothcert.report.page.page import TITLE, render_report

    radii = options.radii

    def page(version: str) -> str:
        results, attacks, _ = read_attacked(options, read_certificates(options)[0])
        shown = training_of(results), pictures.of(results)
        chosen: dict[str, Any] = {
            "reference": options.reference,
            "intervals": options.intervals,
            "version": version,
        }
        chosen |= {
            "attacks": attacks,
            "corrupted": read_corrupted(options, results)[0],
        }
        return render_report(results, TITLE, radii, options.rounded, *shown, **chosen)

    serve(LiveReport(options.results, page), options.port or 0)
