"""`smoothcert denoised`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_trust, option
from smoothcert.cli.own_model import add_own_model, bring
from smoothcert.config import check_sigma
from smoothcert.errors import ConfigError

if TYPE_CHECKING:
    from smoothcert.runs.composed import Part

ABOUT = "Make a run folder of a denoiser and the classifier that it is put before."


def add_options(parser: ArgumentParser) -> None:
    named = "run folder of a trained denoiser, diffusers:FOLDER, or code: PACKAGE.MODULE:NAME or FILE.py:NAME"
    parser.add_argument("--denoiser", type=str, required=True, help=named)
    option(
        parser, "--classifier", Path, None, "run folder of the classifier; or name one by --model"
    )
    option(
        parser, "--sigma", float, None, "noise level to certify with; default: that of the denoiser"
    )
    parser.add_argument("--out", type=Path, required=True, help="new run folder")
    add_trust(parser)
    add_own_model(parser)
    option(
        parser,
        "--split",
        Literal["test", "train"],
        "test",
        "images of --data that the network is tried on",
    )
    option(parser, "--data-dir", Path, None, "where data sets are; else $SMOOTHCERT_DATA")


def run(options: Options) -> None:
    import torch

    from smoothcert.models.build import check_denoiser, count_classes
    from smoothcert.runs.brought import check_free, describe, keep_model
    from smoothcert.runs.code import code_named
    from smoothcert.runs.composed import denoised_of
    from smoothcert.runs.folder import RunFolder

    out = RunFolder(options.out)
    check_free(out)
    denoiser, sigma = _denoiser(options)
    classifier = _classifier(options, sigma)
    image = torch.zeros(classifier.shape)
    check_denoiser(denoiser.model, image)
    brought = denoised_of(denoiser, classifier.part, classifier.size)
    count_classes(brought.model, image, brought.classes)
    spec = describe(brought, sigma, classifier.dataset, classifier.shape, classifier.names)
    keep_model(out, brought, spec)
    print(
        f"{out.path}: {denoiser.architecture} before {classifier.part.architecture}, for noise of sigma {sigma:g}"
    )
    print(
        f"go on with `smoothcert certify {out.path}{' --trust-code' if code_named(spec) else ''}`"
    )


def _denoiser(options: Options) -> tuple[Part, float]:
    """The denoiser, and the noise level of the run folder to make."""
    from torch import nn

    from smoothcert.models.build import build_model, is_code
    from smoothcert.models.diffusers_unet import diffusers_denoiser
    from smoothcert.models.weights import weights_hash
    from smoothcert.runs.composed import Part, part_of
    from smoothcert.runs.folder import RunFolder

    name, sigma = options.denoiser, options.sigma
    of_diffusers, code = name.startswith("diffusers:"), is_code(name) and not Path(name).is_dir()
    if sigma is None and (of_diffusers or code):
        raise ConfigError(f"--denoiser {name} does not say for which noise it is: give --sigma")
    if of_diffusers:
        network, described = diffusers_denoiser(
            Path(name.removeprefix("diffusers:")), check_sigma(sigma)
        )
        model: nn.Module = nn.Sequential(nn.Identity(), network).eval()
        return Part(
            model, "diffusion", 0, "none", described, f"{name}, weights {weights_hash(model)}"
        ), sigma
    if code:
        model = build_model(name, 0, seed=0).eval()
        return Part(
            model, name, 0, "none", {}, f"{name}, weights {weights_hash(model)}"
        ), check_sigma(sigma)
    part, spec = part_of(RunFolder(name), trust_code=options.trust_code, denoiser=True)
    if sigma not in (None, spec.sigma):
        print(
            f"note: the denoiser was trained with sigma {spec.sigma:g}, and is used with {sigma:g}"
        )
    return part, check_sigma(spec.sigma if sigma is None else sigma)


@dataclass(frozen=True, eq=False)
class _Classifier:
    """A classifier, and the images that the whole network is for."""

    part: Part
    dataset: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    size: tuple[int, int] | None = (
        None  # of the images that it takes, where the data's are of another
    )


def _classifier(options: Options, sigma: float) -> _Classifier:
    from smoothcert.data import load_dataset
    from smoothcert.runs.composed import Part, part_of
    from smoothcert.runs.folder import RunFolder

    if (options.classifier is None) == (options.model is None):
        raise ConfigError(
            "name one classifier: a run folder by --classifier, or a network by --model and --data"
        )
    if options.model is not None:
        if options.data is None:
            raise ConfigError(
                f"--model {options.model} also needs --data, the images that it is for"
            )
        brought, subject = bring(options, sigma)
        named = (brought.architecture, brought.classes, brought.normalisation)
        part = Part(brought.model, *named, dict(brought.options), brought.source)
        return _Classifier(part, options.data, subject.spec.shape, subject.spec.class_names)
    part, spec = part_of(RunFolder(options.classifier), trust_code=options.trust_code)
    if options.data is None:
        return _Classifier(part, spec.dataset, spec.shape, spec.class_names)
    known: dict[str, Any] = {"classes": spec.classes, "class_names": spec.class_names}
    data = load_dataset(options.data, options.split, options.data_dir, **known)
    if (data.classes, data.shape[0]) != (spec.classes, spec.shape[0]):
        raise ConfigError(
            f"{options.classifier} tells {spec.classes} classes of images of {spec.shape[0]} channels apart, but "
            f"{options.data} has {data.classes} classes and {data.shape[0]} channels: give other --data"
        )
    size = None if data.shape == spec.shape else (spec.shape[1], spec.shape[2])
    return _Classifier(part, options.data, data.shape, spec.class_names, size)
