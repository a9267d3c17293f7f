"""`smoothcert list tables`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smoothcert.cli.output import aligned, print_json
from smoothcert.errors import ConfigError, StoreError
from smoothcert.published.catalogue import PaperTable, load_table, table_names
from smoothcert.published.row import ALPHA, DIGITS, N0, N, Row
from smoothcert.recipes.shipped import change_words


def list_tables(name: str | None, results: Sequence[Path], ledger: bool, json: bool) -> None:
    if ledger:
        if name is not None:
            raise ConfigError(f"--ledger is of all tables: leave {name} out")
        _ledger(results, json)
        return
    if json:
        raise ConfigError("--json is of the ledger: give --ledger, too")
    names = table_names(name)
    if not names:
        _print(load_table(str(name)), results)
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
    print(aligned([("table", "data", "rows", "about"), *rows]))
    print("\n`smoothcert list tables NAME` prints one, `smoothcert reproduce NAME` makes it again")


def _ledger(results: Sequence[Path], json: bool) -> None:
    from smoothcert.published.ledger import as_json, entries, page
    from smoothcert.published.measured import read_measured
    from smoothcert.published.speeds import Speeds

    measured = read_measured(_results(results))
    found = entries(measured, Speeds(measured, Path("results").glob("[tc]*-h200.json")))
    if json:
        print_json(as_json(found))
    else:
        print(page(found, measured), end="")


def _results(named: Sequence[Path]) -> list[Path]:
    found = named or sorted(Path("results").glob("*.jsonl"))
    if not found:
        raise StoreError(
            "there are no results/*.jsonl in this folder: name files of measured runs by --results"
        )
    return list(found)


def _print(table: PaperTable, results: Sequence[Path]) -> None:
    print(f"{table.title}\n{table.cited}")
    if table.reason:
        print(f"not made: {table.reason}")
        return
    if results:
        from smoothcert.published.compared import compared_table
        from smoothcert.published.measured import read_measured

        print(compared_table(table, read_measured(list(results))))
        return
    print(
        f"published with n0 = {N0}, n = {N:,}, alpha = {ALPHA:g}, and radii rounded to {DIGITS} "
        "significant digits\n"
    )
    head = ("sigma", "setup", "recipe", "changes", "best of", "inputs", *table.head)
    rows = [head, *(_cells(table, row) for row in table.rows)]
    columns = [column for column in zip(*rows, strict=True) if {*column[1:]} - {"-", ""}]
    print(aligned(list(zip(*columns, strict=True))))  # without those that have no value
    for note in table.notes:
        print(f"note on {note}")
    if table.commands:
        print("\n".join([f"drawn, after `smoothcert reproduce {table.name}`, by", *table.commands]))


def _cells(table: PaperTable, row: Row) -> tuple[str, ...]:
    """Of a row that is quoted neither models nor the number of images are known."""
    sigma = f"{row.settings['sigma']:g}" if row.recipe else "-"
    tables = ", ".join(dict.fromkeys(model.table for model in row.best_of))
    best = f"{len(row.best_of)} rows of {tables}" if row.best_of else "-"
    images = str(row.images) if row.recipe or row.best_of else "-"
    return (
        *(sigma, row.label, row.recipe or "-", _changes(row), best, images),
        *table.cells(row),
    )


def _changes(row: Row) -> str:
    """As options of `train`, then the run whose weights this one starts from."""
    words, first = change_words(row.change), row.starts_from or {}
    words += ["from", first["recipe"], *change_words(first.get("change", {}))] if first else []
    return " ".join(words)
