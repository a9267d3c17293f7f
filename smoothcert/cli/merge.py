"""`smoothcert merge`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smoothcert.cli.frame import Json, Place, command
from smoothcert.cli.output import print_json
from smoothcert.progress import all_of, noun

_SHOWN = 20  # missing inputs, or ranges of them


@command("Check and share")
def merge(
    stores: tuple[Place, ...], /, *, out: Path, name: str | None = None, json: Json = False
) -> None:
    """Join certificates that were made on machines without a common disk

    Args:
        stores: certificate stores, run folders with one, or folders with some below
        out: the joint store; what it lacks is added
        name: which store to take from run folders that have several
    """
    from smoothcert.report import read_store
    from smoothcert.runs.merge import merge

    merged = merge(stores, out, name, check=read_store)
    done, inputs = len(merged.inputs) - len(merged.missing), len(merged.inputs)
    if json:
        counts = {"sources": merged.sources, "added": merged.added, "done": done, "inputs": inputs}
        print_json({"store": out, **counts, "missing": merged.missing})
        return
    added, sources = noun(merged.added, "row"), noun(merged.sources, "store")
    print(f"{out}: {merged.added} {added} added from {merged.sources} {sources}")
    if not merged.missing:
        print(all_of(inputs, "input"))
        return
    print(
        f"{done} of {inputs} inputs, {len(merged.missing)} missing: {_ranges(merged.missing, merged.inputs.step)}"
    )
    print(f"to certify these, {_advice(out)}")


def _ranges(indices: Sequence[int], step: int) -> str:
    """12, 57, 93-99; of every 20th input, 0, 40-100 (each 20th)."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + step:
            runs[-1][1:] = [index]
        else:
            runs.append([index])
    shown = ", ".join("-".join(map(str, run)) for run in runs[:_SHOWN])
    more = f" and {len(runs) - _SHOWN} more (--json lists them)" if len(runs) > _SHOWN else ""
    return f"{shown}{more}{f' (each {step}th)' if step > 1 else ''}"


def _advice(out: Path) -> str:
    place = (
        out if out.parent.name == "certify" else out.resolve()
    )  # as it was given, where that tells the run
    if place.parent.name == "certify":
        return f"give the command that made the sources, with {place.parent.parent} and --name {place.name}"
    return (
        "give the command that made the sources again where some are missing, and merge again; or merge into "
        "RUN/certify/NAME, where `smoothcert certify RUN --name NAME` goes on"
    )
