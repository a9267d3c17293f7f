"""`smoothcert tables`."""

from __future__ import annotations

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, aligned
from smoothcert.published.catalogue import PaperTable, load_table, table_names
from smoothcert.published.row import ALPHA, DIGITS, N0, N, Row
from smoothcert.recipes.shipped import change_words

ABOUT = "List the published tables and figures that can be made again, or print one of them."


def add_options(parser: ArgumentParser) -> None:
    shown = "table or figure to print, e.g. smoothmix-supplement/table-8, or paper whose to list"
    parser.add_argument("name", type=str, nargs="?", default=None, help=shown)


def run(options: Options) -> None:
    names = table_names(options.name)
    if not names:
        _print(load_table(options.name))
        return
    rows = [
        (
            table.name,
            ", ".join(table.datasets) or "-",
            str(len(table.rows)),
            table.title + (f"; not made, since {table.reason}" if table.reason else ""),
        )
        for table in map(load_table, names)
    ]
    print(aligned([("table", "data set", "rows", "about"), *rows]))
    print("\n`smoothcert tables NAME` prints one, `smoothcert reproduce NAME` makes it again")


def _print(table: PaperTable) -> None:
    print(f"{table.title}\n{table.cited}")
    if table.reason:
        print(f"not made: {table.reason}")
        return
    print(f"{_measured()}\n")
    rows = _models(table) if any(row.recipe for row in table.rows) else _best(table)
    columns = [column for column in zip(*rows, strict=True) if {*column[1:]} != {"-"}]
    print(aligned(list(zip(*columns, strict=True))))  # without those that have no value
    for note in table.notes:
        print(f"note on {note}")
    if table.commands:
        print("\n".join([f"drawn, after `smoothcert reproduce {table.name}`, by", *table.commands]))


def _measured() -> str:
    budget = f"n0 = {N0}, n = {N:,}, alpha = {ALPHA:g}"
    return f"published with {budget}, and radii rounded to {DIGITS} significant digits"


def _best(table: PaperTable) -> list[tuple[str, ...]]:
    """Of a row that is quoted neither models nor the number of images are known."""
    rows = [("setup", "best of", "rows of", "inputs", *table.head)]
    for row in table.rows:
        of = ", ".join(dict.fromkeys(model.table for model in row.best_of))
        known = (str(len(row.best_of)), of, str(row.images)) if of else "---"
        rows.append((row.label, *known, *table.cells(row)))
    return rows


def _models(table: PaperTable) -> list[tuple[str, ...]]:
    changes = ["changes"] if any(map(_changes, table.rows)) else []
    rows = [("sigma", "setup", "recipe", *changes, "inputs", *table.head)]
    for row in table.rows:
        made = [f"{row.settings['sigma']:g}", row.label, row.recipe]
        made += [*([_changes(row)] if changes else []), str(row.images)]
        rows.append((*made, *table.cells(row)))
    return rows


def _changes(row: Row) -> str:
    """As options of `train`, then the run whose weights this one starts from."""
    words, first = change_words(row.change), row.starts_from or {}
    words += ["from", first["recipe"], *change_words(first.get("change", {}))] if first else []
    return " ".join(words)
