"""What a reader must know before comparing the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from smoothcert.report.measures.analysis import is_rounded
from smoothcert.report.measures.collapse import collapsed
from smoothcert.report.measures.confidence import saturation
from smoothcert.report.measures.same_data import DATA, labels_apart
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import ALARM, labels_of, one_line, run_labels
from smoothcert.statistics.printed import doubt, in_percent, settings

# Each changes all radii of a run, so that a comparison of runs that differ in it is unfair.
BUDGET = {"n": "samples per input (n)", "alpha": "failure probability (alpha)", "noise": "noise"}
ROUNDED = (
    "radii are rounded to 3 significant digits first, as in published logs, up as well as down: what is shown may be "
    "above what was proved"
)


def comparison_notes(results: Sequence[Certificates], rounded: bool = False) -> list[str]:
    """Notes on each run (partial, damaged), then on the comparison (other inputs, other budget)."""
    notes = reading_notes(results, _own_notes)
    if len({c.labelled for c in results}) > 1:
        notes.append(
            "runs without labels have no curve beside those with labels: report them by themselves"
        )
    notes += norm_notes(results)
    notes += input_notes(results)
    for key, words in DATA.items():
        values = sorted({str(value) for c in results if (value := c.identity.get(key)) is not None})
        if len(values) > 1:
            notes.append(
                f"the runs were certified on different {words}: {', '.join(values)}; do not compare them"
            )
    notes += copy_notes(results)
    if unlike := labels_apart(results):
        one, other = (one_line(results[place].name) for place in unlike)
        notes.append(
            f"'{one}' and '{other}' disagree on the labels of the same indices: "
            "another data set, or another order of it; do not compare them"
        )
    notes += budget_notes(results) + settings_notes(results)
    if rounded:
        notes.append(ROUNDED)
    elif len({is_rounded(c) for c in results}) > 1:
        notes.append(
            "some radii are rounded to 3 digits, as published logs are, others exact: "
            "round all of them to compare the last digit"
        )
    return notes


def alarm_notes(results: Sequence[Certificates]) -> list[str]:
    """A sentence on each attack that contradicts one of the runs."""
    names = run_labels([c.name for c in results], [c.sigma for c in results])
    return [
        f"{ALARM}: {name}, {text}"
        for c, name in zip(results, names, strict=True)
        for text in c.alarms
    ]


def reading_notes(
    results: Sequence[Certificates], more: Callable[[Certificates], Sequence[str]] = lambda c: ()
) -> list[str]:
    """Alarms, and what was found as each run was read, such as that it is partial; and `more` about it."""
    everywhere = [
        w for w in results[0].warnings if len(results) > 1 and all(w in c.warnings for c in results)
    ]
    notes = alarm_notes(results) + [f"all runs: {warning}" for warning in everywhere]
    for c, label in zip(results, labels_of(results), strict=True):
        if c.partial:
            notes.append(f"{label}: partial, {c.rows} of {c.expected} inputs")
        notes += [f"{label}: {warning}" for warning in c.warnings if warning not in everywhere]
        notes += [f"{label}: {note}" for note in more(c)]
    return notes


def input_notes(results: Sequence[Certificates]) -> list[str]:
    """A note where not all runs have the same inputs."""
    if all(np.array_equal(results[0].idx, c.idx) for c in results):
        return []
    shared = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), (c.idx for c in results))
    sizes = sorted({c.rows for c in results})
    return [
        f"the runs cover different inputs ({' to '.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))} each, "
        f"{len(shared)} in common): small differences between them may come from that"
    ]


def inputs_cell(c: Certificates) -> str:
    """How many inputs stand behind a row, in its own column: CSV has no notes."""
    return f"{c.rows} of {c.expected}" if c.partial else str(c.rows)


def copy_notes(results: Sequence[Certificates]) -> list[str]:
    """A note on each data set and split of which the runs have seen different images or labels under one name."""
    copies: dict[str, set[str]] = {}
    for c in results:
        if c.identity.get("data") is not None:
            name = f"{c.identity.get('dataset')} ({c.identity.get('split')})"
            copies.setdefault(name, set()).add(str(c.identity["data"]))
    return [
        f"the runs have seen {len(found)} different copies of {one_line(name)}: pixels or labels are not the same"
        for name, found in copies.items()
        if len(found) > 1
    ]


def norm_notes(results: Sequence[Certificates]) -> list[str]:
    """A note where radii are not l2, which a reader takes them for."""
    norms = sorted({c.norm for c in results})
    if len(norms) > 1:
        return [f"the radii are in different norms: {', '.join(norms)}; do not compare them"]
    return [] if norms == ["l2"] else [f"all radii are in {norms[0]} norm, not l2"]


def _own_notes(c: Certificates) -> list[str]:
    """What is special about one run: a collapsed network, or certificates that say less than the usual ones."""
    notes = []
    if doubt(c.noise):
        notes.append(
            "a network can tell which float noise is reachable from an image, so that a radius may be false: "
            "certify with exact noise for proofs"
        )
    if not c.labelled:
        notes.append("no labels, so no accuracy: a certified answer may be right or wrong")
    if share := collapsed(c):
        same = f"{in_percent(share, digits=0)} % of the inputs get one and the same answer"
        notes.append(
            f"COLLAPSED, {same}; its ACR means nothing" if c.labelled else f"{same}: is that right?"
        )
    if c.tested_radii is not None:
        tested = ", ".join(f"{r:g}" for r in c.tested_radii) or "of its manifest"
        notes.append(f"only the radii {tested} were tested: nothing is known at others, and no ACR")
    if c.identity.get("skip_wrong"):
        notes.append("wrong answers were not certified, and count as abstentions")
    if c.identity.get("simultaneous"):
        notes.append(
            "alpha is for all inputs together, so its radii are smaller than with alpha for each"
        )
    return notes


def budget_notes(results: Sequence[Certificates]) -> list[str]:
    """Notes on what changes all radii of a run and differs between the runs."""
    notes = []
    for key, words in BUDGET.items():
        values = sorted({getattr(c, key) for c in results} - {None})
        if len(values) > 1:
            notes.append(
                f"the runs differ in {words}: {', '.join(map(str, values))}; radii depend on it"
            )
    return notes + _more_samples(results)


def settings_notes(results: Sequence[Certificates]) -> list[str]:
    """A note on what all stores were certified with; logs do not name it, and `budget_notes` tells what differs."""
    stores = [c for c in results if c.manifest]
    values = [{getattr(c, key) for c in stores} for key in ("n0", "n", "alpha", "noise")]
    early = any(c.identity.get("procedure", "fixed") != "fixed" for c in stores)
    told = settings(*(found.pop() if len(found) == 1 else None for found in values), early=early)
    return [f"{'all stores: ' * (len(stores) < len(results))}{told}"] if told else []


def _more_samples(results: Sequence[Certificates]) -> list[str]:
    """Notes on logs without n whose radii exceed the saturation radius of another run: their n must be larger."""
    l2 = [c for c in results if c.norm == "l2"]  # logs are l2
    known = [
        (c, limit / c.sigma) for c in l2 if c.n is not None and c.sigma and (limit := saturation(c))
    ]
    if not known:
        return []
    least, limit = min(known, key=lambda entry: entry[1])
    beyond = [
        c for c in l2 if c.n is None and c.sigma and float(c.radius.max()) > 1.005 * limit * c.sigma
    ]
    return [
        f"'{one_line(c.name)}' records no n, but has radii that the n = {least.n} of '{one_line(least.name)}' cannot "
        "give: it was certified with more samples"
        for c in beyond
    ]
