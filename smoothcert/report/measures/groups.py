"""Runs that belong together: those of a method, of a method at one sigma, of a folder, or all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from smoothcert.config import check_choice
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import method_of
from smoothcert.report.read.names import doubts, one_line

Grouping = Literal["method", "sigma", "folder", "all"]


@dataclass(frozen=True)
class Group:
    """`runs` are places among those given; `key` is the method where all of them are of one, else the folder.

    The name says so if numbers of a run in it are in doubt, and if only partial runs are in it.
    """

    name: str
    key: str
    runs: tuple[int, ...]


def groups_of(results: Sequence[Certificates], by: Grouping = "method") -> list[Group]:
    """Each run is in one group; groups come in the order of their first runs, those of a method by sigma.

    The folder of a run is the first one in which its path differs from the others'. Runs whose method is not known are
    grouped by it, also where methods were asked for.
    """
    check_choice("grouping", by, Grouping)
    found: dict[tuple[str, str], list[int]] = {}
    order = (
        sorted(range(len(results)), key=lambda i: results[i].sigma or 0.0)
        if by == "sigma"
        else range(len(results))
    )
    for place in order:
        found.setdefault(_group(results[place], by), []).append(place)
    return [
        Group(
            name + "".join(f" ({word})" for word in caveats([results[i] for i in runs])),
            key,
            tuple(runs),
        )
        for (name, key), runs in found.items()
    ]


def caveats(runs: Sequence[Certificates]) -> list[str]:
    """What must be told of numbers that stand for several runs: doubts of any, and that none is complete."""
    return doubts(runs) + ["partial"] * all(c.partial for c in runs)


def lacking_sigmas(
    results: Sequence[Certificates], groups: Sequence[Group], by: Grouping
) -> list[list[float]]:
    """For each group the sigmas that others have and it has not: its best run was chosen among fewer.

    Groups of one sigma are made to differ in it. Logs may not name theirs: what their groups lack is not known.
    """
    own = [{results[i].sigma for i in group.runs} for group in groups]
    every = {sigma for sigmas in own for sigma in sigmas if sigma is not None}
    return [[] if by == "sigma" or None in sigmas else sorted(every - sigmas) for sigmas in own]


def _group(c: Certificates, by: Grouping) -> tuple[str, str]:
    """The name and the key of the group of a run."""
    if by == "all":
        return "all runs", "all runs"
    folder = one_line(c.name.partition("/")[0])
    key = method_of(c) or folder
    if by == "folder":
        return folder, folder
    return (key if by == "method" or c.sigma is None else f"{key} (σ={c.sigma:g})"), key
