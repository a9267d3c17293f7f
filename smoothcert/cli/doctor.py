"""`smoothcert doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_inputs,
    add_json,
    add_machine,
    add_settings,
    add_trust,
    aligned,
    option,
    place,
    print_json,
    read_selection,
    read_settings,
)
from smoothcert.cli.own_model import add_own_model, examined_subject, known_sigma
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError
from smoothcert.progress import about, noun
from smoothcert.statistics.printed import at_most, in_percent

if TYPE_CHECKING:
    from smoothcert.cli.own_model import Subject
    from smoothcert.evaluation.doctor import Diagnosis

ABOUT = "Is this network fit to be certified on this data, at which noise level, and how long will it take?"

_DEFAULT_SIGMA = 0.25  # of networks that were trained elsewhere, or without noise
_SIGNS = {"fine": "ok     ", "warning": "WARNING", "error": "ERROR  "}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run",
        type=place,
        nargs="?",
        help="run folder with a finished model; or name one by --model",
    )
    add_trust(parser)
    add_own_model(parser)
    add_inputs(parser)
    add_settings(
        parser,
        CertifyConfig,
        ("sigma", "n0", "n", "alpha", "radii", "noise", "precision", "kernels"),
    )
    add_machine(parser)
    option(parser, "--images", int, 200, "how many images to look at")
    add_json(parser)


def run(options: Options) -> None:
    from smoothcert.statistics.bounds import check_samples

    if options.images < 1:
        raise ConfigError(f"--images: expected at least 1, found {options.images}")
    config, selection = (
        read_settings(options, CertifyConfig, sigma=_DEFAULT_SIGMA),
        read_selection(options),
    )
    check_samples(config.n0, config.n, config.alpha)  # before anything is loaded

    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.doctor import examine
    from smoothcert.statistics.procedure import Procedure

    config = replace(config, sigma=known_sigma(options) or _DEFAULT_SIGMA)
    Procedure.of(config)
    device, subject = pick_device(options.device), examined_subject(options, config.sigma)
    data = subject.data
    planned = len(selection.indices(len(data), f"{data.name} ({data.split})"))
    found = examine(
        subject.model, data, config, planned=planned, images=options.images, device=device
    )
    if options.json:
        print_json(_values(subject, found))
    else:
        print("\n".join(_lines(subject, found)))
    if not found.fit:
        sys.exit(1)


def _values(subject: Subject, found: Diagnosis) -> dict[str, Any]:
    """The same for programs: shares from 0 to 1, times in seconds."""
    from smoothcert.evaluation.doctor import rows_of

    spec, data = subject.spec, subject.data
    return {
        "fit": found.fit,
        "findings": [asdict(finding) for finding in found.findings],
        "network": {
            "architecture": spec.architecture,
            "classes": spec.classes,
            "normalisation": spec.normalisation,
        },
        "data": {
            "name": data.name,
            "split": data.split,
            "images": len(data),
            "preparation": data.preparation,
        },
        "settings": {name: getattr(found.config, name) for name in ("sigma", "n0", "n", "alpha")},
        "levels": rows_of(found),
        "best_sigma": found.best,
        "advice": found.advice,
        "limits": None if found.limits is None else asdict(found.limits),
        "copies_per_second": found.rate or None,
        "planned": found.planned,
        "seconds": found.seconds,
        "radii": list(found.radii),
        "radii_seconds": found.radii_seconds,
    }


def _lines(subject: Subject, found: Diagnosis) -> list[str]:
    from smoothcert.config.choices import law_of
    from smoothcert.evaluation.doctor import rows_of
    from smoothcert.statistics.laws import law_named
    from smoothcert.statistics.printed import UNITS

    spec, data, config = subject.spec, subject.data, found.config
    shape = "x".join(map(str, data.shape))
    parameters = sum(parameter.numel() for parameter in subject.model.parameters())
    lines = [
        f"network   {spec.architecture}, {spec.classes} classes, {parameters:,} parameters, "
        f"normalisation {spec.normalisation}",
        *([f"weights   {spec.source}"] if spec.source else []),
        f"data      {data.name} ({data.split}), {len(data):,} {noun(len(data), 'image')} {shape}"
        + (f", {data.preparation}" if data.preparation else ""),
    ]
    if found.limits is not None:
        law, last = law_named(law_of(config.noise)), found.levels[-1]
        average = "average radius" if found.labels is None else "ACR"
        head = ("sigma", "accuracy % (95 % interval)", "certified %", average, "ACR of one class")
        radii = " ".join(f"{radius:g}" for radius in found.radii)
        fewer = f"; with --radius {radii} only, about {about(found.radii_seconds)}" if radii else ""
        lines += [
            "",
            f"{law.name.capitalize()} noise, {len(last.counts)} {noun(len(last.counts), 'image')}, "
            f"{last.copies} copies of each; expected, cautiously, of n = {config.n:,} and "
            f"alpha = {config.alpha:g}, in {law.norm} norm",
            aligned([(*head, "largest radius"), *map(_row, rows_of(found))]),
            "",
            f"at sigma {config.sigma:g}, no radius exceeds {at_most(found.limits.largest_radius, 3)}, and a class "
            f"needs {at_most(100 * found.limits.smallest_p, 2)} % of the votes",
            f"{found.planned:,} {noun(found.planned, 'image')} will take about {about(found.seconds)}{fewer}: "
            f"{found.rate:,.0f} noisy copies per second ({', '.join((*found.prepared, found.precision))})",
            UNITS,
        ]
    lines += ["", *(f"{_SIGNS[finding.kind]}  {finding.text}" for finding in found.findings)]
    return [*lines, f"result   {found.advice}"]


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    def percent(*shares: float) -> str:
        return " to ".join(in_percent(share) for share in shares)

    accuracy, certified = row["accuracy"], row["certified"]
    radii, largest = (
        (row[name] for name in ("average_radius", "acr_of_one_class")),
        row["largest_radius"],
    )
    return (
        f"{row['sigma']:g}",
        "-" if accuracy is None else f"{percent(accuracy)} ({percent(*row['accuracy_interval'])})",
        "-" if certified is None else percent(certified),
        *("-" if radius is None else f"{radius:.3f}" for radius in radii),
        "-" if largest is None else at_most(largest, 3),
    )
