"""`smoothcert denoised`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from smoothcert.cli.frame import DataDir, Options, Trust, command
from smoothcert.cli.own_model import Images, OwnModel, bring
from smoothcert.config import check_sigma
from smoothcert.errors import ConfigError

if TYPE_CHECKING:
    from smoothcert.runs.composed import Part


@command("Make")
def denoised(
    *,
    denoiser: str,
    classifier: Path | None = None,
    own: Annotated[dict[str, Any], Options(OwnModel)],
    data: str | None = None,
    split: Literal["test", "train"] = "test",
    sigma: float | None = None,
    out: Path,
    trust_code: Trust = False,
    data_dir: DataDir = None,
) -> None:
    """Put a denoiser before a classifier; makes a run folder

    Args:
        denoiser: run folder of a trained denoiser, diffusers:FOLDER, or code: PACKAGE.MODULE:NAME or FILE.py:NAME
        classifier: run folder of the classifier; or name one by --model
        data: data set by name (`smoothcert list data`), folder:PATH, tar:PATH, npz:PATH or hf-dataset:NAME
        split: images that a network named by --model is tried on
        sigma: noise level to certify with; default: that of the denoiser
        out: new run folder
    """
    import torch

    from smoothcert.models.build import check_denoiser, count_classes
    from smoothcert.runs.brought import check_free, describe, keep_model
    from smoothcert.runs.code import code_named
    from smoothcert.runs.composed import denoised_of
    from smoothcert.runs.folder import RunFolder

    run = RunFolder(out)
    check_free(run)
    first, level = _denoiser(denoiser, sigma, trust_code)
    images = Images(data, split, data_dir)
    behind = _classifier(classifier, OwnModel(**own), images, level, trust_code)
    image = torch.zeros(behind.shape)
    check_denoiser(first.model, image)
    brought = denoised_of(first, behind.part, behind.size)
    count_classes(brought.model, image, brought.classes)
    spec = describe(brought, level, behind.dataset, behind.shape, behind.names)
    keep_model(run, brought, spec)
    print(
        f"{out}: {first.architecture} before {behind.part.architecture}, for noise of sigma {level:g}"
    )
    print(f"go on with `smoothcert certify {out}{' --trust-code' if code_named(spec) else ''}`")


def _denoiser(name: str, sigma: float | None, trust_code: bool) -> tuple[Part, float]:
    """The denoiser, and the noise level of the run folder to make."""
    from torch import nn

    from smoothcert.models.build import build_model, is_code
    from smoothcert.models.diffusers_unet import diffusers_denoiser
    from smoothcert.models.weights import weights_hash
    from smoothcert.runs.composed import Part, part_of
    from smoothcert.runs.folder import RunFolder

    of_diffusers, code = name.startswith("diffusers:"), is_code(name) and not Path(name).is_dir()
    if sigma is None and (of_diffusers or code):
        raise ConfigError(f"--denoiser {name} does not say for which noise it is: give --sigma")
    level = 0.0 if sigma is None else check_sigma(sigma)
    if of_diffusers:
        network, described = diffusers_denoiser(Path(name.removeprefix("diffusers:")), level)
        model: nn.Module = nn.Sequential(nn.Identity(), network).eval()
        return Part(
            model, "diffusion", 0, "none", described, f"{name}, weights {weights_hash(model)}"
        ), level
    if code:
        model = build_model(name, 0, seed=0).eval()
        return Part(model, name, 0, "none", {}, f"{name}, weights {weights_hash(model)}"), level
    part, spec = part_of(RunFolder(name), trust_code=trust_code, denoiser=True)
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


def _classifier(
    run: Path | None, own: OwnModel, images: Images, sigma: float, trust_code: bool
) -> _Classifier:
    from smoothcert.data import load_dataset
    from smoothcert.runs.composed import Part, part_of
    from smoothcert.runs.folder import RunFolder

    if (run is None) == (own.model is None):
        raise ConfigError(
            "name one classifier: a run folder by --classifier, or a network by --model and --data"
        )
    if run is None:
        if images.data is None:
            raise ConfigError(f"--model {own.model} also needs --data, the images that it is for")
        brought, subject = bring(own, images, sigma)
        named = (brought.architecture, brought.classes, brought.normalisation)
        part = Part(brought.model, *named, dict(brought.options), brought.source)
        return _Classifier(part, images.data, subject.spec.shape, subject.spec.class_names)
    part, spec = part_of(RunFolder(run), trust_code=trust_code)
    if images.data is None:
        return _Classifier(part, spec.dataset, spec.shape, spec.class_names)
    known: dict[str, Any] = {"classes": spec.classes, "class_names": spec.class_names}
    data = load_dataset(images.data, images.split, images.data_dir, **known)
    if (data.classes, data.shape[0]) != (spec.classes, spec.shape[0]):
        raise ConfigError(
            f"{run} tells {spec.classes} classes of images of {spec.shape[0]} channels apart, but "
            f"{images.data} has {data.classes} classes and {data.shape[0]} channels: give other --data"
        )
    size = None if data.shape == spec.shape else (spec.shape[1], spec.shape[2])
    return _Classifier(part, images.data, data.shape, spec.class_names, size)
