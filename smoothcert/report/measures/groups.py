"""Runs that belong together: those of a method, of a method at one sigma, of a folder, or all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from smoothcert.errors import unknown_name
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import method_of
from smoothcert.report.read.names import one_line

Grouping = Literal["method", "sigma", "folder", "all"]


@dataclass(frozen=True)
class Group:
    """`runs` are places among those given; `key` is the method where all of them are of one, else the name."""

    name: str
    key: str
    runs: tuple[int, ...]


def groups_of(results: Sequence[Certificates], by: Grouping = "method") -> list[Group]:
    """Each run is in one group; groups come in the order of their first runs, those of a method by sigma.

    The folder of a run is the first one in which its path differs from the others'. Runs whose method is not known are
    grouped by it, also where methods were asked for.
    """
    if by not in get_args(Grouping):
        raise unknown_name("grouping", by, get_args(Grouping))
    found: dict[tuple[str, str], list[int]] = {}
    order = sorted(range(len(results)), key=lambda i: results[i].sigma or 0.0) if by == "sigma" else range(len(results))
    for place in order:
        found.setdefault(_group(results[place], by), []).append(place)
    return [Group(name, key, tuple(runs)) for (name, key), runs in found.items()]


def _group(c: Certificates, by: Grouping) -> tuple[str, str]:
    """The name and the key of the group of a run."""
    if by == "all":
        return "all runs", "all runs"
    folder = one_line(c.name.partition("/")[0])
    key = method_of(c) or folder
    if by == "folder":
        return folder, folder
    return (key if by == "method" or c.sigma is None else f"{key} (σ={c.sigma:g})"), key
