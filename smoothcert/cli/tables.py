"""`smoothcert tables`."""

from __future__ import annotations

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, aligned
from smoothcert.published.catalogue import Table, TableRow, load_table, measured, table_names
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
            str(len(table.rows) + len(table.best)),
            table.title + (f"; not made, since {table.reason}" if table.reason else ""),
        )
        for table in map(load_table, names)
    ]
    print(aligned([("table", "data set", "rows", "about"), *rows]))
    print("\n`smoothcert tables NAME` prints one, `smoothcert reproduce NAME` makes it again")


def _print(table: Table) -> None:
    print(f"{table.title}\n{table.cited}")
    if table.reason:
        print(f"not made: {table.reason}")
        return
    print(f"{_measured()}\n")
    rows = _best(table) if table.best else _models(table)
    columns = [column for column in zip(*rows, strict=True) if {*column[1:]} != {"-"}]
    print(aligned(list(zip(*columns, strict=True))))  # without those that have no value
    for note in table.notes:
        print(f"note on {note}")
    if table.commands:
        print("\n".join([f"drawn, after `smoothcert reproduce {table.name}`, by", *table.commands]))


def _measured() -> str:
    found = measured()
    budget = f"n0 = {found['n0']}, n = {found['n']:,}, alpha = {found['alpha']:g}"
    return f"published with {budget}, and radii rounded to {found['digits']} significant digits"


def _best(table: Table) -> list[tuple[str, ...]]:
    """Of a row that is quoted neither models nor the number of images are known."""
    rows = [("setup", "best of", "rows of", "inputs", *table.head)]
    for row in table.best:
        known = (str(len(row.models)), ", ".join(row.of), str(row.inputs)) if row.of else "---"
        cells = row.printed_cells(table.digits) or ["-"] * len(table.head)
        rows.append((row.label, *known, *cells))
    return rows


def _models(table: Table) -> list[tuple[str, ...]]:
    acr = ["ACR"] if any(row.printed_acr() != "-" for row in table.rows) else []
    changes = ["changes"] if any(map(_changes, table.rows)) else []
    rows = [("sigma", "setup", "recipe", *changes, "inputs", *acr, *table.head)]
    for row in table.rows:
        made = [f"{row.settings['sigma']:g}", row.label, row.recipe]
        made += [*([_changes(row)] if changes else []), str(row.inputs)]
        made += [row.printed_acr()] if acr else []
        rows.append((*made, *(row.printed_cells(table) or ["-"] * len(table.head))))
    return rows


def _changes(row: TableRow) -> str:
    """As options of `train`, then the run whose weights this one starts from."""
    words, first = change_words(row.change), row.starts_from or {}
    words += ["from", first["recipe"], *change_words(first.get("change", {}))] if first else []
    return " ".join(words)
