"""`smoothcert predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from smoothcert.cli.frame import DataDir, Device, Json, Options, Trust, command
from smoothcert.cli.output import print_json
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError, DataError

if TYPE_CHECKING:
    from torch import nn

    from smoothcert.runs.folder import ModelSpec
    from smoothcert.statistics.procedure import Certificate

_SETTINGS = Options(CertifyConfig, only="sigma n0 alpha noise seed precision kernels")


@command("Look")
def predict(
    run: Path,
    images: tuple[Path, ...],
    /,
    *,
    pseudo_labels: Path | None = None,
    split: Literal["test", "train"] = "train",
    n: int = 10_000,
    settings: Annotated[dict[str, Any], _SETTINGS],
    trust_code: Trust = False,
    json: Json = False,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Class (or no answer) and certified radius of pictures; or pseudo-labels

    Args:
        run: run folder with a finished model
        images: image files (PNG, JPEG, ...) or .npy arrays
        pseudo_labels: no certificates: write the network's answers to a data set, which is then named in the place of
            images, to this file, for self-training
        split: which images of that data set
        n: fresh noise samples that bound the probability of the answer
    """
    from smoothcert.runs.folder import RunFolder

    if pseudo_labels is not None and len(images) != 1:
        raise ConfigError(
            f"--pseudo-labels are of one data set, such as mnist or folder:PLACE, found {len(images)} names"
        )
    model, spec = RunFolder(run).load_model(trust_code=trust_code)
    if pseudo_labels is not None:
        _label(model, spec, pseudo_labels, str(images[0]), split, data_dir, device)
        return
    config = CertifyConfig(**{"sigma": spec.sigma, "n": n, **settings})
    _certify(model, spec, config, images, device, run if json else None)


def _label(
    model: nn.Module,
    spec: ModelSpec,
    path: Path,
    name: str,
    split: str,
    data_dir: Path | None,
    device: str,
) -> None:
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.pseudo_labels import write_pseudo_labels
    from smoothcert.runs.data_of import data_of_run
    from smoothcert.statistics.printed import in_percent

    data = data_of_run(spec, split, data_dir, name)
    labels = write_pseudo_labels(model, data, path, pick_device(device))
    right = (
        f"; {in_percent((labels == data.labels).mean())} % are its labels" if data.labelled else ""
    )
    print(f"{path}: {len(labels)} pseudo-labels of {data.name} ({data.split}){right}")
    print(f"to use them: smoothcert train RECIPE --self-training.path {path} --out RUN")


def _certify(
    model: nn.Module,
    spec: ModelSpec,
    config: CertifyConfig,
    paths: tuple[Path, ...],
    device: str,
    shown: Path | None,
) -> None:
    """Prints lines, or the document of the run that is `shown`."""
    from smoothcert.certification.smoothed import SmoothedClassifier
    from smoothcert.data.image_file import read_image
    from smoothcert.data.specs import rule_of
    from smoothcert.devices.pick import pick_device
    from smoothcert.statistics.printed import UNITS, at_least, doubt, settings

    smoothed = SmoothedClassifier(model, config, classes=spec.classes, device=pick_device(device))
    rule = rule_of(spec.dataset, spec.shape)
    # all readable before the first is certified
    images = [read_image(path, rule) for path in paths]
    answers: list[dict[str, Any]] = []
    for index, (path, image) in enumerate(zip(paths, images, strict=True)):
        try:
            certificate = smoothed.certify(image, index)
        except DataError as error:  # of the image's values
            raise DataError(f"{path}: {error}") from error
        name = None
        if not certificate.abstained and spec.class_names:
            name = spec.class_names[certificate.predict]
        if shown is not None:
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
    if shown is not None:
        given = {key: getattr(config, key) for key in ("sigma", "n0", "n", "alpha", "noise")}
        given |= {"preparation": str(rule), "note": doubt(config.noise) or None}
        print_json({"run": shown, **given, "images": answers})
        return
    if any(path.suffix != ".npy" for path in paths) and rule.resize is not None:
        print(f"pictures are brought to the model's input as by certify: {rule}")
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
