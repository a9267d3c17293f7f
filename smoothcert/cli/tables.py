"""Published tables as `smoothcert list tables NAME` prints them."""

from __future__ import annotations

from smoothcert.cli.output import aligned
from smoothcert.recipes.shipped import change_words
from smoothcert.recipes.tables import Table, TableRow, measured


def print_table(table: Table) -> None:
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
