"""Data by a kind and a place: `folder:PATH`, `tar:PATH` and others, each perhaps with `,option=value`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smoothcert.data.places import SPLIT_NAMES, SPLITS, places
from smoothcert.data.preparation import AS_PRINTED, Preparation
from smoothcert.errors import ConfigError, none_of, unknown_name

_PICTURES = ("size", "resize", "grey", "colour")
KINDS = {
    "folder": ("labels", *_PICTURES),
    "tar": ("labels", *_PICTURES),
    "npz": (),
    "hf-dataset": ("config", "image", "label", *_PICTURES),
}
"""Each kind, and the options that it takes."""


@dataclass(frozen=True)
class Spec:
    """A place of data as it was written."""

    kind: str
    place: str
    options: dict[str, str] = field(default_factory=dict)

    def name(self, place: Path | str, more: str = "") -> str:
        """The name that a store records: the end of the place, and what changes images or labels."""
        shown = place if isinstance(place, str) else place.resolve().name
        if isinstance(place, Path) and shown in SPLIT_NAMES:  # many sets have such a folder
            shown = f"{place.resolve().parent.name}/{shown}".lstrip("/")
        kept = (f",{key}={value}" for key, value in self.options.items() if key not in _PICTURES)
        return f"{self.kind}:{shown}{''.join(kept)}{more}"


def is_spec(text: str) -> bool:
    kind, colon, _ = text.partition(":")
    return bool(colon) and kind in KINDS


def parse(text: str, data_dir: Path | None = None) -> Spec:
    """`KIND:PLACE,OPTION=VALUE,...`; commas within a place that exists belong to the place."""
    kind, _, rest = text.partition(":")
    parts = rest.split(",")
    ends = [
        n
        for n in range(len(parts), 1, -1)
        if any(p.exists() for p in places(",".join(parts[:n]), data_dir))
    ]
    end = ends[0] if ends else 1
    place, options = ",".join(parts[:end]), dict[str, str]()
    if not place:
        raise ConfigError(
            f"expected a place after {kind}:, for example {kind}:pictures, found '{text}'"
        )
    for part in parts[end:]:
        name, equals, value = part.partition("=")
        if name not in KINDS[kind]:
            raise unknown_name(f"option of {kind}:", name, KINDS[kind])
        if name in options:
            raise ConfigError(f"{text}: the option {name} is there twice")
        if bool(equals) == (name in ("grey", "colour")) or bool(value) != bool(equals):
            raise ConfigError(
                f"{text}: expected {name if name in ('grey', 'colour') else f'{name}=...'}, found '{part}'"
            )
        options[name] = value
    return Spec(kind, place, options)


def check_split(split: str) -> None:
    if split not in SPLITS:
        raise none_of("split", split, SPLITS)


def prepare(
    spec: Spec, shape: tuple[int, int, int] | None, first: tuple[int, int, int]
) -> tuple[Preparation, str]:
    """How pictures become images, and the options that say it again.

    `shape` is what the network takes, where the options say nothing else; `first` are channels, height and width of the
    first picture.
    """
    options = spec.options
    if shape is None and not options.keys() & set(_PICTURES):
        return Preparation(*first), ""
    if {"grey", "colour"} <= options.keys():
        raise ConfigError(f"{spec.kind}:{spec.place}: expected grey or colour, found both")
    asked = [name for name in ("grey", "colour") if name in options]
    channels = {"grey": 1, "colour": 3}[asked[0]] if asked else (shape or first)[0]
    height, width = _size(options["size"]) if "size" in options else (shape or first)[1:]
    resize = _whole(options["resize"], "resize") if "resize" in options else min(height, width)
    if channels not in (1, 3):
        raise ConfigError(
            f"pictures have 1 channel (grey) or 3 (colour), found {channels} asked for"
        )
    if resize < min(height, width):
        raise ConfigError(
            f"resize={resize} is smaller than the size {height}x{width} that is cut out of it"
        )
    size = f",size={height}" if height == width else f",size={height}x{width}"
    scaled = f",resize={resize}" if resize != min(height, width) else ""
    shown = f"{size}{scaled},{'grey' if channels == 1 else 'colour'}"
    return Preparation(channels, height, width, resize, greyed=channels == 1), shown


def options_of(own: str) -> dict[str, str]:
    """The options by which the pictures of a run's own data become images; none for arrays."""
    if own == "imagenet":
        return {"size": "224", "resize": "256"}
    parts = [part.partition("=") for part in own.split(",")[1:]] if is_spec(own) else []
    return {name: value for name, _, value in parts if name in _PICTURES}


def prepared_as(own: str, place: str) -> str:
    """Another place of pictures with the options of a run's own data: else these would be framed otherwise."""
    known, asked = options_of(own), options_of(place)
    if not (known and is_spec(place) and "size" in KINDS[place.partition(":")[0]]):
        return place
    said = ",".join(f"{name}={value}".rstrip("=") for name, value in known.items())
    if asked and asked != known:
        raise ConfigError(
            f"{place}: the run's own pictures are prepared by {said}: say the same, or nothing"
        )
    return place if asked else f"{place},{said}"


def rule_of(own: str, shape: Any) -> Preparation:
    """How a picture becomes an image [C, H, W] for a run: as `certify` makes it of a folder of such pictures."""
    if own == "imagenet-printed":
        return AS_PRINTED
    if shape[0] not in (1, 3):  # no picture can become such an image, but an array may be one
        return Preparation(*shape)
    return prepare(Spec("folder", own, options_of(own)), shape, shape)[0]


def _size(text: str) -> tuple[int, int]:
    """224, or 192x256 for height x width."""
    sides = text.split("x")
    if len(sides) > 2:
        raise ConfigError(
            f"size takes one number, or height x width such as 192x256, found '{text}'"
        )
    return _whole(sides[0], "size", text), _whole(sides[-1], "size", text)


def _whole(text: str, name: str, given: str = "") -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 10_000):
        raise ConfigError(
            f"{name} takes numbers of pixels from 1 to 10000, such as {name}=224, found '{given or text}'"
        )
    return int(text)
