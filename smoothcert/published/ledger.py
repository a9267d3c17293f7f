"""The ledger: for each printed row what our runs say of it, or one reason why they say nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.config import TrainConfig, checked
from smoothcert.published.catalogue import PaperTable, load_table, table_names
from smoothcert.published.judge import Verdict, Word, judge_row, of_row
from smoothcert.published.measured import Measured
from smoothcert.published.row import Row
from smoothcert.published.speeds import Speeds

WORDS: tuple[Word, ...] = ("reproduced", "different", "not judged")
EXACT = "exact"
"""The noise of certificates; runs with that of an older version, or with float noise, are marked by †."""


@dataclass(frozen=True)
class Entry:
    """A row of a table beside the runs that were trained as the authors' code does, or as the paper's text says."""

    row: Row
    as_printed: bool
    verdicts: tuple[Verdict, ...]  # one for each printed value
    runs: tuple[Measured, ...]
    reason: str = ""  # why there is no verdict on any value; else empty
    hours: float = 0.0  # on a GPU, that the lacking runs take

    @property
    def word(self) -> Word:
        return of_row(self.verdicts)

    @property
    def seeds(self) -> int:
        return len({run.made.seed for run in self.runs})

    @property
    def images(self) -> int:
        return max((run.settings["images"] for run in self.runs), default=0)

    @property
    def marked(self) -> bool:
        return any(run.settings["noise"] != EXACT for run in self.runs)

    @property
    def checked(self) -> str:
        """What was checked of all of these runs; of older ones nothing can be any more."""
        return min((run.made.checked for run in self.runs), key=len, default="")

    def as_json(self) -> dict[str, Any]:
        words = Counter(verdict.word for verdict in self.verdicts)
        return {
            "table": self.row.table,
            "row": self.row.label,
            "recipe": self.row.recipe,
            "as_printed": self.as_printed,
            "verdict": self.word,
            "values": len(self.verdicts),
            **{word.replace(" ", "_"): words[word] for word in WORDS},
            "runs": len(self.runs),
            "seeds": self.seeds,
            "images": self.images,
            "exact_noise": not self.marked,
            "checked": self.checked,
            "reason": self.reason,
            "gpu_hours": round(self.hours, 2),
        }


def entry_of(row: Row, measured: Sequence[Measured], as_printed: bool, speeds: Speeds) -> Entry:
    models = row.best_of or (row,)
    near = [
        run
        for run in measured
        if run.made.as_printed == as_printed
        and run.settings["dataset"].endswith("-c") == bool(row.corruptions)
        and any(m.is_about(run.config) for m in models)
    ]
    trainings = {  # of two certifications of one training on the same images, the last counts
        json.dumps([run.config, run.settings["dataset"], run.settings["split"]]): run
        for run in near
        if any(not m.differences(run.config, run.settings) for m in models)
    }
    runs = list(trainings.values())
    have = sum(any(not m.differences(r.config, r.settings) for r in runs) for m in models)
    reason, hours = row.reason, 0.0
    if not reason and (not near or (row.best_of and have < len(models))):
        reason, hours = not_run(row, models, speeds)
        reason = f"{have} of {len(models)} models were run; {reason}" if have else reason
    if reason:
        nothing = Verdict("not judged", float("nan"), float("nan"), reason)
        verdicts = [nothing] * len(row.printed)
    else:
        verdicts = judge_row(row, near)
        if all(verdict.word == "not judged" for verdict in verdicts):
            reason = next((verdict.reason for verdict in verdicts), "")
    return Entry(row, as_printed, tuple(verdicts), tuple(runs), reason, hours)


def not_run(row: Row, models: Iterable[Row], speeds: Speeds) -> tuple[str, float]:
    """Why nobody has run a row, data that nobody may pass on or the hours that it takes; and these hours."""
    from smoothcert.data import DATASETS

    models = list(models)
    wanted = {row.corruptions or model.dataset for model in models}
    wanted |= {str(m.starts_from["recipe"]).partition("/")[0] for m in models if m.starts_from}
    lacking = {name for name in wanted if not getattr(DATASETS.get(name), "remote", ())}
    if any("self_training" in model.settings for model in models):
        lacking.add("pseudo-labelled images")
    if lacking:
        return f"data not redistributable: {', '.join(sorted(lacking))}", 0.0
    hours = [speeds.hours(_whole(model), row.images) for model in models]
    if None in hours:
        return "hours not known, since no such run was timed", 0.0
    return "not run", sum(filter(None, hours))


def entries(measured: Sequence[Measured], speeds: Speeds) -> list[Entry]:
    """Of every row, and once more of those that were also run as the paper's text says."""
    found = []
    by_data: dict[tuple[str, float], list[Measured]] = {}
    for run in measured:
        by_data.setdefault(_data(run.config), []).append(run)
    for row in (row for name in table_names() for row in load_table(name).rows):
        places = {_data(model.settings) for model in row.best_of or (row,) if model.recipe}
        near = [run for place in places for run in by_data.get(place, ())]
        both = [entry_of(row, near, as_printed, speeds) for as_printed in (False, True)]
        found += both if both[1].runs else both[:1]
    return found


def as_json(found: Sequence[Entry]) -> dict[str, Any]:
    return {"rows": [entry.as_json() for entry in found], "totals": totals(found)}


def totals(found: Sequence[Entry]) -> dict[str, dict[str, int]]:
    """Of rows and of their values, how many there are and what is said of them."""
    code = [entry for entry in found if not entry.as_printed]
    rows = Counter(entry.word for entry in code if entry.row.printed)
    values = Counter(verdict.word for entry in code for verdict in entry.verdicts)
    return {
        "rows": {"printed": rows.total(), **{word: rows[word] for word in WORDS}},
        "values": {"printed": values.total(), **{word: values[word] for word in WORDS}},
    }


def page(found: Sequence[Entry], measured: Sequence[Measured]) -> str:
    """docs/ledger.md."""
    head = ("rows", "runs", "seeds", "images", *WORDS, "checked", "the others")
    lines = [f"| table | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    for name in table_names():
        table = load_table(name)
        if not table.rows:
            dashes = " | ".join("-" * (len(head) - 1))
            lines.append(f"| `{name}` | {dashes} | not made: {table.reason} |")
        for version in (False, True):
            own = [e for e in found if e.row.table == name and e.as_printed == version]
            if own:
                lines.append(_line(table, own, " as printed" * version))
    sums, marked = totals(found), sum(run.settings["noise"] != EXACT for run in measured)
    said = [
        f"Of {count['printed']:,} {what}, {count['reproduced']:,} are reproduced, {count['different']:,} differ, and "
        f"{count['not judged']:,} are not judged."
        for what, count in (
            ("printed values", sums["values"]),
            ("rows that have some", sums["rows"]),
        )
    ]
    made = f"{len(measured):,} certified runs"
    said.append(
        f"There are {made}; {marked:,} of them were certified with the noise of an older version (†)."
    )
    return "\n".join([*said, "", *lines]) + "\n"


def _line(table: PaperTable, own: Sequence[Entry], version: str) -> str:
    words = Counter(entry.word for entry in own if entry.row.printed)
    with_runs = [entry for entry in own if entry.runs]
    runs = {run.key for entry in with_runs for run in entry.runs}
    marked = any(entry.marked for entry in with_runs)
    reasons = Counter(_short(entry.reason) for entry in own if entry.reason)
    others = [f"{count}: {reason}" for reason, count in reasons.most_common()]
    if hours := sum(entry.hours for entry in own):
        others.append(f"about {hours:,.1f} GPU hours by `smoothcert reproduce {table.name}`")
    cells = [
        f"`{table.name}`{version}",
        len(own),
        f"{len(runs)} †" if marked else len(runs) or "-",
        _range(entry.seeds for entry in with_runs),
        _range(entry.images for entry in with_runs),
        *(words[word] or "-" for word in WORDS),
        ", ".join(sorted({entry.checked or "no longer" for entry in with_runs})) or "-",
        "; ".join(others),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _short(why: str) -> str:
    """A verdict of one value has its numbers, which are no reason of a row."""
    return re.sub(r"^(too few \w+), .*", r"\1", why)


def _range(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return (
        "-"
        if not found
        else f"{found[0]:,}"
        if len(found) == 1
        else f"{found[0]:,} to {found[-1]:,}"
    )


def _data(config: Mapping[str, Any]) -> tuple[str, float]:
    return str(config["dataset"]).removesuffix("-printed"), float(config["sigma"])


def _whole(row: Row) -> dict[str, Any]:
    """The settings of a row with those that its recipe leaves as they are."""
    settings = {key: value for key, value in row.settings.items() if key != "about"}
    config = checked(TrainConfig, settings, f"setting of {row.recipe}")
    return vars(config)
