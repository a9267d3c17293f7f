"""Run folders of networks made of others: a denoiser before a classifier, and ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.errors import ConfigError
from smoothcert.runs.brought import describe
from smoothcert.runs.folder import ModelSpec, RunFolder

if TYPE_CHECKING:
    from torch import nn

    from smoothcert.models.bring import Brought


@dataclass(frozen=True, eq=False)
class Part:
    """A network that becomes a part of another."""

    model: nn.Module
    architecture: str
    classes: int  # 0: a denoiser
    normalisation: str
    options: dict[str, Any]
    source: str  # of its weights

    def described(self) -> dict[str, Any]:
        """As the options of the whole name it (models/parts.py)."""
        names = ("architecture", "classes", "normalisation", "options")
        return {name: getattr(self, name) for name in names}


def part_of(
    run: RunFolder, *, trust_code: bool = False, denoiser: bool = False
) -> tuple[Part, ModelSpec]:
    """The finished network of a run folder."""
    model, spec = run.load_model(trust_code=trust_code, denoiser=denoiser)
    source = f"{run.path.name}, weights {spec.weights}"
    return Part(
        model, spec.architecture, spec.classes, spec.normalisation, dict(spec.options), source
    ), spec


def denoised_of(denoiser: Part, classifier: Part, size: tuple[int, int] | None = None) -> Brought:
    """The classifier behind the denoiser, ready to be kept in a run folder."""
    from torch import nn

    from smoothcert.models.bring import Brought
    from smoothcert.models.denoised import Denoised

    model = nn.Sequential(nn.Identity(), Denoised(denoiser.model, classifier.model, size)).eval()
    options: dict[str, Any] = {
        "denoiser": denoiser.described(),
        "classifier": classifier.described(),
    }
    if size is not None:
        options["size"] = list(size)
    source = f"denoiser: {denoiser.source}; classifier: {classifier.source}"
    return Brought(model, "denoised", options, "none", classifier.classes, (), source)


def ensemble_of(folders: Sequence[Path], *, trust_code: bool = False) -> tuple[Brought, ModelSpec]:
    """The mean of the logits of several runs' networks, and its description; refused if they do not belong together."""
    from torch import nn

    from smoothcert.models.bring import Brought
    from smoothcert.models.ensemble import Ensemble

    if len(folders) < 2:
        raise ConfigError(f"an ensemble has at least two members, found {len(folders)}")
    loaded = [part_of(RunFolder(folder), trust_code=trust_code) for folder in folders]
    first = loaded[0][1]
    for what in ("sigma", "classes", "class_names", "shape"):
        for folder, (_, spec) in zip(folders, loaded, strict=True):
            there, expected = getattr(spec, what), getattr(first, what)
            if there != expected:
                raise ConfigError(
                    f"members of an ensemble have the same {what}, found {expected} in {folders[0]} and {there} in "
                    f"{folder}: choose members that were trained for the same"
                )
    parts = [part for part, _ in loaded]
    model = nn.Sequential(nn.Identity(), Ensemble([part.model for part in parts])).eval()
    options = {"members": [part.described() for part in parts]}
    source = "; ".join(part.source for part in parts)
    brought = Brought(model, "ensemble", options, "none", first.classes, first.class_names, source)
    return brought, describe(brought, first.sigma, first.dataset, first.shape, ())
