"""`smoothcert doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from smoothcert.cli.frame import DataDir, Device, Json, Options, Place, Trust, command
from smoothcert.cli.machine import examine_machine
from smoothcert.cli.output import aligned, print_json, selected
from smoothcert.cli.own_model import Images, OwnModel, bring, check_named, known_sigma, run_subject
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError
from smoothcert.progress import about, noun
from smoothcert.runs.selection import Selection
from smoothcert.statistics.printed import at_most, in_percent

if TYPE_CHECKING:
    from smoothcert.cli.own_model import Subject
    from smoothcert.evaluation.doctor import Diagnosis

_DEFAULT_SIGMA = 0.25  # of networks that were trained elsewhere, or without noise
_SETTINGS = Options(CertifyConfig, only="sigma n0 n alpha radii noise precision kernels")
_SIGNS = {"fine": "ok     ", "warning": "WARNING", "error": "ERROR  "}


@command("Check and share", "model weights mean std data sigma n alpha radii images device json")
def doctor(
    run: Place | None = None,
    /,
    *,
    own: Annotated[dict[str, Any], Options(OwnModel)],
    data: str | None = None,
    settings: Annotated[dict[str, Any], _SETTINGS],
    subset: Annotated[dict[str, Any], Options(Selection)],
    split: Literal["test", "train"] = "test",
    shard: str = "0/1",
    images: int = 200,
    samples: int = 2**20,
    trust_code: Trust = False,
    json: Json = False,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Is this model ready, at which sigma, how long? Or: is this machine?

    Args:
        run: run folder with a finished model; or name a model by --model
        data: other images than the run's (`smoothcert list data`)
        split: which images
        shard: i/N, the i-th (from 0) of N parts; auto, what no other process has taken
        images: how many images to look at
        samples: without a model: how many values of each noise to test
    """
    from smoothcert.statistics.bounds import check_samples

    network = OwnModel(**own)
    if run is None and network.model is None and data is None:
        examine_machine(device, samples, settings, data_dir, json)
        return
    check_named(network, run, data=data)
    if images < 1:
        raise ConfigError(f"--images must be at least 1, found {images}")
    config = CertifyConfig(**{"sigma": _DEFAULT_SIGMA, **settings})
    check_samples(config.n0, config.n, config.alpha)  # before anything is read
    config = replace(config, sigma=known_sigma(run, settings) or _DEFAULT_SIGMA)
    selection, chosen = selected(subset, shard), Images(data, split, data_dir)

    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.doctor import examine
    from smoothcert.statistics.procedure import Procedure

    Procedure.of(config)
    place = pick_device(device)
    subject = (
        bring(network, chosen, config.sigma)[1]
        if run is None
        else run_subject(run, chosen, trust_code)
    )
    planned = len(
        selection.indices(len(subject.data), f"{subject.data.name} ({subject.data.split})")
    )
    found = examine(
        subject.model, subject.data, config, planned=planned, images=images, device=place
    )
    if json:
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
