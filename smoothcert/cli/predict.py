"""`smoothcert predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_json,
    add_machine,
    add_run,
    add_settings,
    option,
    print_json,
    read_settings,
)
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError, DataError

if TYPE_CHECKING:
    from smoothcert.statistics.procedure import Certificate

ABOUT = "Class (or abstention) and certified radius of image files; or pseudo-labels of a data set."


def add_options(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "images", type=Path, nargs="+", help="image files (PNG, JPEG, ...) or .npy arrays"
    )
    labels = (
        "no certificates: write the network's answers to a data set, which is then named in the place of images, to "
        "this file, for self-training"
    )
    option(parser, "--pseudo-labels", Path, None, labels)
    option(parser, "--split", Literal["test", "train"], "train", "which images of the data set")
    names = ("sigma", "n0", "n", "alpha", "noise", "seed", "precision", "kernels")
    add_settings(parser, CertifyConfig, names, n=10_000)
    add_json(parser)
    add_machine(parser)


def run(options: Options) -> None:
    if options.pseudo_labels is None:
        _certify(options)
    elif len(options.images) == 1:
        _label(options)
    else:
        raise ConfigError(
            f"--pseudo-labels are of one data set, such as mnist or folder:PLACE, found {len(options.images)} names"
        )


def _label(options: Options) -> None:
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.pseudo_labels import write_pseudo_labels
    from smoothcert.runs.data_of import data_of_run
    from smoothcert.runs.folder import RunFolder
    from smoothcert.statistics.printed import in_percent

    path = options.pseudo_labels
    model, spec = RunFolder(options.run).load_model(trust_code=options.trust_code)
    data = data_of_run(spec, options.split, options.data_dir, str(options.images[0]))
    labels = write_pseudo_labels(model, data, path, pick_device(options.device))
    right = (
        f"; {in_percent((labels == data.labels).mean())} % are its labels" if data.labelled else ""
    )
    print(f"{path}: {len(labels)} pseudo-labels of {data.name} ({data.split}){right}")
    print(f"to use them: smoothcert train RECIPE --self-training.path {path} --out RUN")


def _certify(options: Options) -> None:
    from smoothcert.certification.smoothed import SmoothedClassifier
    from smoothcert.data.image_file import read_image
    from smoothcert.data.specs import rule_of
    from smoothcert.devices.pick import pick_device
    from smoothcert.runs.folder import RunFolder
    from smoothcert.statistics.printed import UNITS, at_least, doubt, settings

    model, spec = RunFolder(options.run).load_model(trust_code=options.trust_code)
    config = read_settings(options, CertifyConfig, sigma=spec.sigma)
    smoothed = SmoothedClassifier.of(
        model, spec.classes, config, device=pick_device(options.device)
    )
    rule = rule_of(spec.dataset, spec.shape)
    # all readable before the first is certified
    images = [read_image(path, rule) for path in options.images]
    answers: list[dict[str, Any]] = []
    for index, (path, image) in enumerate(zip(options.images, images, strict=True)):
        try:
            certificate = smoothed.certify(
                image, n0=config.n0, n=config.n, alpha=config.alpha, index=index
            )
        except DataError as error:  # of the image's values
            raise DataError(f"{path}: {error}") from error
        name = None
        if not certificate.abstained and spec.class_names:
            name = spec.class_names[certificate.predict]
        if options.json:
            answers.append(_answer(path, certificate, name))
            continue
        if certificate.abstained:
            print(
                f"{path}: abstains (no class is certain at alpha {config.alpha:g} with {config.n} samples)"
            )
            continue
        kind = "radius" if certificate.norm == "l2" else f"{certificate.norm} radius"
        radius, p = at_least(certificate.radius, 4), at_least(certificate.p_lower, 6)
        print(f"{path}: {name or certificate.predict}, certified {kind} {radius} (p >= {p})")
    if options.json:
        given = {key: getattr(config, key) for key in ("sigma", "n0", "n", "alpha", "noise")}
        given |= {"preparation": str(rule), "note": doubt(config.noise) or None}
        print_json({"run": options.run, **given, "images": answers})
        return
    if rule.resize is not None:
        print(f"pictures as the run's own: {rule}")
    print(f"each with {settings(config.n0, config.n, config.alpha, config.noise)}; {UNITS}")
    if doubt(config.noise):
        print(f"note: {doubt(config.noise)}")


def _answer(path: Path, certificate: Certificate, name: str | None) -> dict[str, Any]:
    """All digits of radius and bound: both were rounded to the cautious side when they were computed."""
    counts = {str(label): int(count) for label, count in enumerate(certificate.counts) if count}
    return {
        "path": path,
        "abstained": certificate.abstained,
        "predict": None if certificate.abstained else certificate.predict,
        "class": name,
        "radius": certificate.radius,
        "norm": certificate.norm,
        "p_lower": certificate.p_lower,
        "counts": counts,
    }
