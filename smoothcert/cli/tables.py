"""`smoothcert tables`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_json, aligned, on_disk, print_json
from smoothcert.errors import ConfigError, StoreError
from smoothcert.published.catalogue import PaperTable, load_table, table_names
from smoothcert.published.row import ALPHA, DIGITS, N0, N, Row
from smoothcert.recipes.shipped import change_words

ABOUT = "The published tables and figures, one of them, or what our runs say of all of them."


def add_options(parser: ArgumentParser) -> None:
    shown = "table or figure to print, e.g. smoothmix-supplement/table-8, or paper whose to list"
    parser.add_argument("name", type=str, nargs="?", default=None, help=shown)
    results = "files of measured runs, which `reproduce` writes; default: results/*.jsonl"
    parser.add_argument("--results", type=on_disk, nargs="+", default=None, help=results)
    ledger = "of each table and figure, what was run and what came out"
    parser.add_argument("--ledger", action="store_true", help=ledger)
    add_json(parser)


def run(options: Options) -> None:
    if options.ledger:
        _ledger(options)
        return
    if options.json:
        raise ConfigError("--json is of the ledger: give --ledger, too")
    names = table_names(options.name)
    if not names:
        _print(load_table(options.name), options)
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


def _ledger(options: Options) -> None:
    from smoothcert.published.ledger import as_json, entries, page
    from smoothcert.published.measured import read_measured
    from smoothcert.published.speeds import Speeds

    if options.name is not None:
        raise ConfigError(f"--ledger is of all tables: leave {options.name} out")
    measured = read_measured(_results(options))
    found = entries(measured, Speeds(measured, Path("results").glob("[tc]*-h200.json")))
    if options.json:
        print_json(as_json(found))
    else:
        print(page(found, measured), end="")


def _results(options: Options) -> list[Path]:
    found = options.results or sorted(Path("results").glob("*.jsonl"))
    if not found:
        raise StoreError(
            "there are no results/*.jsonl in this folder: name files of measured runs by --results"
        )
    return list(found)


def _print(table: PaperTable, options: Options) -> None:
    print(f"{table.title}\n{table.cited}")
    if table.reason:
        print(f"not made: {table.reason}")
        return
    if options.results:
        from smoothcert.published.compared import compared_table
        from smoothcert.published.measured import read_measured

        print(compared_table(table, read_measured(options.results)))
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
