"""Which training method a run is of: by its config.yaml, or by the names that the field gives its folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import one_line

METHODS = (
    "gaussian", "stability", "smoothadv", "macer", "consistency", "smoothadv-consistency", "smoothmix", "catrs",
)  # fmt: skip

# How folders of the field's releases call the methods.
_ALIASES = {name: name for name in METHODS} | {
    "cohen": "gaussian", "stab": "stability", "salman": "smoothadv", "smix": "smoothmix", "cat-rs": "catrs",
}  # fmt: skip


def method_of(c: Certificates) -> str | None:
    """The training method: from config.yaml, else by the folders it lies in or the name of the run."""
    if c.config is not None:
        return method_in(c.config)
    # the folders first: a name may have lost the `consistency` before `cohen`, where all runs have it
    return recognised_method(c.source.parts) or recognised_method(c.name.split("/"))


def method_in(config: Mapping[str, Any]) -> str | None:
    method = config.get("method")
    settings = method if isinstance(method, dict) else {"name": method}
    if (settings.get("name"), settings.get("base")) == ("consistency", "smoothadv"):
        return "smoothadv-consistency"
    return (
        one_line(str(settings["name"])) if settings.get("name") else None
    )  # anyone could have written it


def recognised_method(parts: Sequence[str]) -> str | None:
    """The last part that names a method; `consistency/cohen` and `consistency/salman_...` name two at once."""
    found = [(place, method) for place, part in enumerate(parts) if (method := _alias(part))]
    if not found:
        return None
    place, method = found[-1]
    if place > 0 and _alias(parts[place - 1]) == "consistency":
        return "smoothadv-consistency" if method == "smoothadv" else "consistency"
    return method


def _alias(part: str) -> str | None:
    """`cat_rs`, `macer_deferred30`, `salman_255.0_10_10`, `smoothmix-0.50`: the method such a part starts with."""
    name = part.lower().replace("_", "-")
    fits = [alias for alias in _ALIASES if name == alias or name.startswith(f"{alias}-")]
    return _ALIASES[max(fits, key=len)] if fits else None
