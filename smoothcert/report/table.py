"""A table of printed cells: as text, Markdown, LaTeX and CSV, and as files."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from smoothcert.report.read.names import one_line

ACCURACY, SHARE = "certified accuracy (%) at r", "certified share (%) at r"
LATEX = {c: "\\" + c for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "σ": r"$\sigma$",
    "±": r"$\pm$",
}
BOOKTABS = "% needs \\usepackage{booktabs}\n"


class Cell(str):
    """What is printed in a cell, where it is more than text: the best of its column, or with the ends of an interval.

    `apart` are the two numbers of a text such as `68.2 (86.2)`, which have columns of their own in CSV.
    """

    best: bool
    around: tuple[str, str] | None
    apart: tuple[str, str] | None

    def __new__(
        cls,
        text: str,
        *,
        best: bool = False,
        around: tuple[str, str] | None = None,
        apart: tuple[str, str] | None = None,
    ) -> Cell:
        cell = super().__new__(cls, text)
        cell.best, cell.around, cell.apart = best, around, apart
        return cell

    @property
    def interval(self) -> str:
        """As it is printed behind the value, or nothing."""
        return "[{}, {}]".format(*self.around) if self.around else ""


def marked(
    rows: Iterable[Sequence[str]], best: Callable[[int, int], bool]
) -> tuple[tuple[str, ...], ...]:
    """The rows, with the cells whose row and column are `best` marked so."""
    return tuple(
        tuple(_with(cell, best=True) if best(i, j) else cell for j, cell in enumerate(row))
        for i, row in enumerate(rows)
    )


def _with(cell: str, **change: object) -> Cell:
    about = {name: getattr(cell, name, None) for name in ("best", "around", "apart")}
    return Cell(cell, **(about | change))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Table:
    """Cells as they are printed: the columns of `head`, then one for each of `radii`; the first names the row.

    Names in it may come from anyone: all text is on one line, and each format takes it for nothing but text.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    radii: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    group: str = ACCURACY  # what stands in the columns of `radii`
    word: str = ""  # before each of `radii` in the head of a column: CSV does not show `group`
    symbol: str = "r"  # of what `radii` holds
    caption: str = ""  # shown where several tables stand together
    look: str = ""  # on the page: `text`, `pairs` (lines in threes) or `heat` (shades by value)

    def __post_init__(self) -> None:
        for name in ("head", "notes"):
            object.__setattr__(
                self, name, tuple(one_line(text, "") for text in getattr(self, name))
            )
        rows = tuple(tuple(map(_cell, row)) for row in self.rows)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "caption", one_line(self.caption, ""))

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.head, *(f"{self.word}{self.symbol}={radius}" for radius in self.radii))

    @property
    def cells(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows, each text as a cell."""
        return tuple(tuple(map(_with, row)) for row in self.rows)

    def to_text(self, terminal: bool | None = None) -> str:
        """Aligned plain text; coloured for a terminal (by default: if standard output is one)."""
        if sys.stdout.isatty() if terminal is None else terminal:
            return self._for_terminal()
        lines = [
            "  ".join(cells).rstrip()
            for cells in _padded([self.columns, *self._cells(str, "{}", "{}")])
        ]
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join(lines + [f"note: {note}" for note in self.notes]) + "\n"

    def to_markdown(self) -> str:
        rows = self._cells(for_markdown, "**{}**", "{}")
        header, *body = _padded([[*map(for_markdown, self.columns)], *rows])
        rule = [
            ("-" * (len(cell) - 1) + ":") if i else "-" * len(cell) for i, cell in enumerate(header)
        ]
        lines = [f"| {' | '.join(cells)} |" for cells in (header, rule, *body)]
        return (
            "\n".join(
                lines + [""] * bool(self.notes) + [f"- {for_markdown(note)}" for note in self.notes]
            )
            + "\n"
        )

    def to_latex(self) -> str:
        """A `tabular` for booktabs, best values bold, and the notes below it."""
        return BOOKTABS + self.tabular()

    def tabular(self) -> str:
        """LaTeX without the comment on what it needs, which several tables need once."""
        first, last = len(self.head) + 1, len(self.columns)
        names = [r"$\sigma$" if name == "sigma" else for_latex(name) for name in self.head] + list(
            self.radii
        )
        lines = [rf"\begin{{tabular}}{{l{'r' * (last - 1)}}}", r"\toprule"]
        if self.radii:
            group = (
                for_latex(self.group.capitalize()).removesuffix(self.symbol) + f"${self.symbol}$"
            )
            lines += [
                rf"{'& ' * len(self.head)}\multicolumn{{{len(self.radii)}}}{{c}}{{{group}}} \\",
                rf"\cmidrule(lr){{{first}-{last}}}",
            ]
        body = [names, *self._cells(for_latex, r"\textbf{{{}}}", r" {{\scriptsize{}}}")]
        lines += [" & ".join(cells) + r" \\" for cells in body]
        lines.insert(-len(self.rows), r"\midrule")
        lines += [r"\bottomrule", r"\end{tabular}"]
        if self.notes:  # printed: bold values without them would say more than is known
            lines += [r"\par\smallskip", r"{\footnotesize\raggedright"]
            lines += [*(rf"{for_latex(note)}\par" for note in self.notes), "}"]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """With columns of their own for the ends of intervals and for clean accuracies in brackets."""
        wide, double = (
            {j for row in self.cells for j, cell in enumerate(row) if getattr(cell, name)}
            for name in ("around", "apart")
        )

        def parts(j: int, cell: str, ends: Sequence[str], clean: str) -> list[str]:
            return [cell, *(ends if j in wide else ()), *((clean,) if j in double else ())]

        rows = [
            [
                parts(j, name, (f"{name} lower", f"{name} upper"), f"{name} clean")
                for j, name in enumerate(self.columns)
            ]
        ]
        for row in self.cells:
            texts = [cell.apart or (cell, "") for cell in row]
            ends = [cell.around or ("", "") for cell in row]
            rows.append([parts(j, x, ends[j], clean) for j, (x, clean) in enumerate(texts)])
        file = io.StringIO()
        lines = ([_spreadsheet(cell) for cells in row for cell in cells] for row in rows)
        csv.writer(file, lineterminator="\n").writerows(lines)
        return file.getvalue()

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = self._cells(escape, "<b>{}</b>", "<br><small>{}</small>")
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return table + f"<ul>{notes}</ul>" * bool(notes)

    def _cells(self, quote: Callable[[str], str], bold: str, interval: str) -> list[list[str]]:
        """The rows, escaped, with the best values in bold and the intervals behind the values."""

        def shown(cell: Cell) -> str:
            value = bold.format(quote(cell)) if cell.best else quote(cell)
            return value + (interval.format(quote(f" {cell.interval}")) if cell.around else "")

        return [[shown(cell) for cell in row] for row in self.cells]

    def _for_terminal(self) -> str:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        grid = RichTable(box=box.SIMPLE_HEAD, padding=0)
        for j, name in enumerate(self.columns):
            head = Text(
                name.replace("=", "=\n").replace(" %", "\n%")
            )  # two lines: eight radii fit 80 columns
            grid.add_column(head, justify="right" if j else "left", vertical="bottom")
        wide = any(cell.around for row in self.cells for cell in row)
        for row in self.cells:
            shown = [Text(cell, "bold" if cell.best else "") for cell in row]
            for text, cell in zip(shown, row, strict=True):
                # below the value, else no terminal would be wide enough
                text.append(f"\n{cell.interval}" if wide else "", "not bold dim")
            grid.add_row(*shown)
        # Wider than any terminal: a narrow one then wraps lines, where rich would cut digits off numbers.
        console = Console(file=io.StringIO(), force_terminal=True, width=1000)
        with console.capture() as capture:
            console.print(grid)
            for note in self.notes:
                console.print(Text(f"note: {note}", "yellow"))
        return capture.get()


def _cell(text: str) -> str:
    clean = one_line(text, "")
    return text if clean == text else clean


def _padded(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [cell.rjust(width) if j else cell.ljust(width) for j, (cell, width) in enumerate(cells)]
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]


def _spreadsheet(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula, since users choose names; numbers stay as they are.

    A leading apostrophe is how spreadsheets mark text.
    """
    number = re.fullmatch(r"[-+][\d.]*( s\.d\.)?", cell)
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not number else cell


def for_markdown(text: str) -> str:
    """Text that begins no markup, cell, formula or entity; an underscore inside a word begins none."""
    return re.sub(r"([\\`*|<\[$~]|&(?=[#\w])|(?<!\w)_|_(?!\w))", r"\\\1", text)


def for_latex(text: str) -> str:
    """Text as LaTeX sets it: numbers with a minus, and no two dashes or quotes that would become one.

    A star or a bracket at its start is no argument of the end of the row before.
    """
    shown = "".join(LATEX.get(character, character) for character in text)
    shown = re.sub(r"([-'])(?=\1)", r"\1{}", re.sub(r"(?<![-\w.)}])-(?=[\d.])", "$-$", shown))
    return f"{{{shown[0]}}}{shown[1:]}" if shown.startswith(("*", "[")) else shown
