"""`smoothcert doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict
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
from smoothcert.cli.own_model import add_own_model, examined_subject
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError
from smoothcert.progress import about, noun
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    from smoothcert.cli.own_model import Subject
    from smoothcert.evaluation.doctor import Diagnosis

ABOUT = "Is this network fit to be certified on this data, at which noise level, and how long will it take?"

_DEFAULT_SIGMA = 0.25  # of networks that were trained elsewhere, or without noise
_SIGNS = {"fine": "ok     ", "warning": "WARNING", "fault": "FAULT  "}


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
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.doctor import examine

    if options.images < 1:
        raise ConfigError(f"--images: expected at least 1, found {options.images}")
    subject = examined_subject(options, _DEFAULT_SIGMA)
    config = read_settings(options, CertifyConfig, sigma=subject.spec.sigma or _DEFAULT_SIGMA)
    data = subject.data
    planned = len(read_selection(options).indices(len(data), f"{data.name} ({data.split})"))
    device = pick_device(options.device)
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
        "limits": None if found.limits is None else asdict(found.limits),
        "copies_per_second": found.rate or None,
        "planned": found.planned,
        "seconds": found.seconds,
        "radii": list(found.radii),
        "radii_seconds": found.radii_seconds,
    }


def _lines(subject: Subject, found: Diagnosis) -> list[str]:
    from smoothcert.evaluation.doctor import rows_of
    from smoothcert.statistics.printed import UNITS, at_most

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
    if found.levels:
        rows = [_row(row) for row in rows_of(found)]
        head = (
            "sigma",
            "accuracy %",
            "hoped for: certified %",
            "average radius",
            "largest radius possible",
        )
        looked_at, copies = len(found.levels[0].counts), found.levels[-1].copies
        lines += [
            "",
            f"{looked_at} {noun(looked_at, 'image')}, {copies} noisy {noun(copies, 'copy', 'copies')} of each",
            aligned([head, *rows]),
        ]
    lines += ["", *(f"{_SIGNS[finding.kind]}  {finding.text}" for finding in found.findings)]
    if found.limits is not None:
        radii = " ".join(f"{radius:g}" for radius in found.radii)
        largest = at_most(found.limits.largest_radius, 3)
        lines += [
            "",
            f"with n = {config.n:,} and alpha = {config.alpha:g} at sigma {config.sigma:g}, no radius exceeds "
            f"{largest}, and a class needs {100 * found.limits.smallest_p:.2f} % of the votes",
            f"{found.rate:,.0f} noisy copies per second ({', '.join(found.prepared) or 'as it is'}, {found.precision})",
            f"{found.planned:,} {noun(found.planned, 'image')} will take about {about(found.seconds)}; "
            f"with --radius {radii} only, about {about(found.radii_seconds)}",
        ]
    if found.best is not None:
        lines.append(
            f"of these noise levels, sigma {found.best:g} promises the largest average radius"
        )
    lines.append(UNITS)
    lines.append(
        "verdict: "
        + ("fit to be certified" if found.fit else "not fit; mend what is called FAULT first")
    )
    return lines


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    share = [in_percent(row[name]) for name in ("accuracy", "certified")]
    radii = [
        None if row[name] is None else f"{row[name]:.3f}"
        for name in ("average_radius", "largest_radius")
    ]
    return (f"{row['sigma']:g}", *(cell or "-" for cell in (*share, *radii)))
