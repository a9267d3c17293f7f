"""The headline table of certified accuracies, and its four formats."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.analysis import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
    default_radii,
)
from smoothcert.report.certificates import Certificates
from smoothcert.report.names import one_line
from smoothcert.report.notes import comparison_notes

HEAD = ("run", "sigma", "inputs", "ACR", "abstain %")
GROUP = "certified accuracy (%) at r"
LATEX = {c: "\\" + c for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "σ": r"$\sigma$",
}


@dataclass(frozen=True)
class Table:
    """Cells as they are printed: the columns of `HEAD`, then one for each of `radii`."""

    radii: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()  # (row, column) of the best value of a column

    @property
    def columns(self) -> tuple[str, ...]:
        return (*HEAD, *(f"r={radius}" for radius in self.radii))

    def to_text(self, terminal: bool | None = None) -> str:
        """Aligned plain text; coloured for a terminal (by default: if standard output is one)."""
        if sys.stdout.isatty() if terminal is None else terminal:
            return self._for_terminal()
        lines = ["  ".join(cells).rstrip() for cells in _padded([self.columns, *self.rows])]
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join(lines + [f"note: {note}" for note in self.notes]) + "\n"

    def to_markdown(self) -> str:
        rows = self._cells(lambda text: re.sub(r"([\\`*|<\[])", r"\\\1", text), "**{}**")
        header, *body = _padded([self.columns, *rows])
        rule = [("-" * (len(cell) - 1) + ":") if i else "-" * len(cell) for i, cell in enumerate(header)]
        lines = [f"| {' | '.join(cells)} |" for cells in (header, rule, *body)]
        return "\n".join(lines + [""] * bool(self.notes) + [f"- {note}" for note in self.notes]) + "\n"

    def to_latex(self) -> str:
        """A `tabular` for booktabs, best values bold; the notes as comments."""
        first, last = len(HEAD) + 1, len(self.columns)
        names = [*map(_latex, HEAD), *self.radii]
        names[1] = r"$\sigma$"
        lines = [f"% {note}" for note in self.notes]
        lines += [rf"\begin{{tabular}}{{l{'r' * (last - 1)}}}", r"\toprule"]
        if self.radii:
            group = _latex(GROUP.capitalize()).removesuffix("r") + "$r$"
            lines += [
                rf"{'& ' * len(HEAD)}\multicolumn{{{len(self.radii)}}}{{c}}{{{group}}} \\",
                rf"\cmidrule(lr){{{first}-{last}}}",
            ]
        body = [names, *self._cells(_latex, r"\textbf{{{}}}")]
        lines += [" & ".join(cells) + r" \\" for cells in body]
        lines.insert(-len(self.rows), r"\midrule")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def to_csv(self) -> str:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([self.columns, *self.rows])
        return file.getvalue()

    def _cells(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """The rows, escaped, with the best values in bold."""
        return [
            [bold.format(escape(cell)) if (i, j) in self.best else escape(cell) for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]

    def _for_terminal(self) -> str:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        grid = RichTable(box=box.SIMPLE_HEAD, padding=0)
        for j, name in enumerate(self.columns):
            head = Text(name.replace("=", "=\n").replace(" %", "\n%"))  # two lines: eight radii fit 80 columns
            grid.add_column(head, justify="right" if j else "left", vertical="bottom")
        for i, row in enumerate(self.rows):
            grid.add_row(*(Text(cell, "bold" if (i, j) in self.best else "") for j, cell in enumerate(row)))
        # Wider than any terminal: a narrow one then wraps lines, where rich would cut digits off numbers.
        console = Console(file=io.StringIO(), force_terminal=True, width=1000)
        with console.capture() as capture:
            console.print(grid)
            for note in self.notes:
                console.print(Text(f"note: {note}", "yellow"))
        return capture.get()


def certificate_table(
    results: Sequence[Certificates], radii: Sequence[float] | None = None, rounded: bool = False
) -> Table:
    """ACR, abstentions and certified accuracy at `radii` (by default: `default_radii`) for each run.

    Percentages are printed as the field prints them, `format(100 * share, ".1f")`. `rounded` takes radii at
    the 3 digits of published logs. The best value of a column is marked among the complete runs.
    """
    if not results:
        raise ConfigError("a table needs at least one run, found none")
    radii = default_radii(results) if radii is None else list(radii)
    if not all(np.isfinite(r) and r >= 0 for r in radii):
        raise ConfigError(f"expected radii of at least 0, found {radii}")
    rows = []
    for c in results:
        shares = [abstention_rate(c), *certified_accuracy(c, radii, rounded)]
        rows.append(
            (
                one_line(c.name),
                "-" if c.sigma is None else f"{c.sigma:g}",
                f"{c.rows} of {c.expected}" if c.partial else str(c.rows),
                f"{average_certified_radius(c, rounded):.3f}",
                *(f"{100 * share:.1f}" for share in shares),
            )
        )
    labels = tuple(f"{r:.2f}" if round(r, 2) == r else f"{r:g}" for r in radii)
    complete = [i for i, c in enumerate(results) if not c.partial]
    notes = tuple(comparison_notes(results, rounded))
    return Table(labels, tuple(rows), notes, _best(rows, complete))


def _best(rows: Sequence[Sequence[str]], complete: Sequence[int]) -> frozenset[tuple[int, int]]:
    """Where the largest ACR and certified accuracies stand, as printed; ties share it, 0 is never best."""
    marks = set()
    columns = [3, *range(len(HEAD), len(rows[0]))] if len(complete) > 1 else []
    for j in columns:
        top = max(float(rows[i][j]) for i in complete)
        marks |= {(i, j) for i in complete if float(rows[i][j]) == top > 0}
    return frozenset(marks)


def _padded(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [cell.rjust(width) if j else cell.ljust(width) for j, (cell, width) in enumerate(cells)]
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)
