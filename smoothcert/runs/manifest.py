"""manifest.json, read as if anyone could have written it: every entry typed and ranged, none unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from smoothcert.config.choices import AttackName, NoiseMode, law_of
from smoothcert.errors import SmoothcertError, StoreError
from smoothcert.progress import printable

if TYPE_CHECKING:
    from smoothcert.statistics.procedure import Procedure

FORMAT = 1
"""Of manifest.json and of the rows beside it. Another number is refused by name."""

OLDER = "made by an older smoothcert: certify again; weights can be taken in by import"

Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Size = Annotated[int, Meta(ge=1, le=10**8)]  # what anyone may write must not make work endless
Inputs = Annotated[int, Meta(ge=1, le=10**7)]
Level = Annotated[float, Meta(gt=0, lt=1)]
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]
Radius = Annotated[float, Meta(ge=0, le=1e300)]
Text = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]


class Subject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Network, data and index set (every `every`-th image from `start` on), and how it is evaluated."""

    model: Text  # hash of the weights
    model_json: Text | None = None  # hash of all else that decides what the network does
    network: Text  # version of PyTorch:hash of what it prints of the network
    classes: Size
    class_names: tuple[Text, ...] = ()
    dataset: Text
    split: Text
    data: Text  # hash of images and labels
    start: Whole
    every: Size
    max: Size | None = None
    sigma: Annotated[float, Meta(gt=0, le=1000)]
    n: Size
    alpha: Level
    noise: NoiseMode
    noise_stream: Text
    seed: Whole | None = None  # that was asked for
    kernels: Text
    precision: Text
    device_type: Text
    prepared: tuple[Text, ...]
    behaviour: tuple[Annotated[tuple[Number, ...], Meta(min_length=1)], ...]


class Certified(Subject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    n0: Size
    radii: tuple[Radius, ...] | None = None
    tolerance: Radius | None = None
    skip_wrong: bool = False
    simultaneous: bool = False
    dimension: Size  # values of an image
    noise_seed: Whole


class Attacked(Subject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attack: AttackName
    radii: tuple[Radius, ...]
    noises: Size
    steps: Size
    beta: Annotated[float, Meta(gt=0, le=1e300)]
    as_printed: bool
    attack_version: Whole


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal[1]
    identity: dict[str, Any]
    inputs: Inputs
    environment: dict[Text, Text | int | bool | tuple[Text, ...]]


@dataclass(frozen=True)
class Manifest:
    """`identity` decides the rows and must match on resume; `environment` is for the record."""

    identity: Mapping[str, Any]
    inputs: int
    environment: Mapping[str, Any]
    place: str = field(default="manifest.json", compare=False)

    @cached_property
    def certified(self) -> Certified:
        """What a store of certificates is about. An error if it is about something else."""
        if "attack" in self.identity:
            raise StoreError(
                f"{self.place}: the store holds attacks, expected certificates: attack stores are "
                "shown beside them, and are not merged"
            )
        found: Certified = _typed(self.identity, Certified, self.place)
        return found

    @cached_property
    def indices(self) -> range:
        of = self.certified
        return range(of.start, of.start + of.every * self.inputs, of.every)

    @cached_property
    def procedure(self) -> Procedure:
        """How each image was judged; an error if no certification is made so."""
        from smoothcert.noise.thresholds import tau_of
        from smoothcert.statistics.laws import law_named  # with SciPy, which logs do not need
        from smoothcert.statistics.procedure import Procedure

        of = self.certified
        tau = 0.0 if of.noise == "float" else tau_of(of.sigma, of.dimension)
        alpha = of.alpha / self.inputs if of.simultaneous else of.alpha
        rules = {name: getattr(of, name) for name in ("radii", "tolerance", "skip_wrong")}
        try:
            return Procedure(
                law_named(law_of(of.noise)), of.sigma, of.n0, of.n, alpha, tau, **rules
            )
        except SmoothcertError as error:
            raise StoreError(f"{self.place}: no certification is made so: {error}") from error

    @cached_property
    def described(self) -> dict[str, Any]:
        """The identity, and what follows from it."""
        if "attack" in self.identity:
            return dict(self.identity)
        from smoothcert.statistics.stopping import describe

        procedure = self.procedure
        found = {"tau": procedure.tau, "alpha_each": procedure.alpha, "norm": procedure.law.norm}
        return {**self.identity, **describe(procedure.stopping), **found}

    def written(self) -> bytes:
        entries = {name: getattr(self, name) for name in ("identity", "inputs", "environment")}
        return (json.dumps({"format": FORMAT, **entries}, indent=2) + "\n").encode()


def read_manifest(path: Path) -> Manifest:
    advice = "restore it from a copy, or certify again under another name"
    try:
        content = path.read_bytes()
        _require_format(content, path)
        values = msgspec.json.decode(content, type=_File)
    except FileNotFoundError as error:
        raise StoreError(f"{path.parent} is not a result store: it has no manifest.json") from error
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError, RecursionError) as error:
        raise StoreError(f"{path} is damaged ({printable(str(error))[:200]}); {advice}") from error
    identity = values.identity
    if "ratios_version" not in identity:  # which are nobody's claim
        _typed(identity, Attacked if "attack" in identity else Certified, str(path))
    return Manifest(identity, values.inputs, msgspec.to_builtins(values.environment), str(path))


def _typed(identity: Mapping[str, Any], kind: Any, place: str) -> Any:
    try:
        return msgspec.convert(identity, kind)
    except msgspec.ValidationError as error:
        raise StoreError(
            f"{place} is damaged ({printable(str(error))[:200]}); restore it, or certify again under "
            "another name"
        ) from error


def _require_format(content: bytes, path: Path) -> None:
    found = msgspec.json.decode(content)
    if isinstance(found, dict) and "identity" in found and found.get("format") != FORMAT:
        newer = isinstance(found.get("format"), int) and found["format"] > FORMAT
        made = "made by a newer smoothcert: read it with that version" if newer else OLDER
        raise StoreError(f"{path}: {made}")
