"""`smoothcert tables`."""

from __future__ import annotations

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, aligned
from smoothcert.recipes.tables import Table, load_table, measured, table_names

ABOUT = "List the published tables that can be made again, or print one of them with its values."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name",
        type=str,
        nargs="?",
        default=None,
        help="table to print, e.g. smoothmix-supplement/table-8",
    )


def run(options: Options) -> None:
    if options.name is not None:
        _print(load_table(options.name))
        return
    tables = [load_table(name) for name in table_names()]
    rows = [
        (table.name, ", ".join(table.datasets), str(len(table.rows) + len(table.best)), table.title)
        for table in tables
    ]
    print(aligned([("table", "data set", "rows", "about"), *rows]))
    print("\n`smoothcert tables NAME` prints one, `smoothcert reproduce NAME` makes it again")


def _print(table: Table) -> None:
    print(f"{table.title}\n{table.cited}\n{_measured()}\n")
    rows = _best(table) if table.best else _models(table)
    columns = [column for column in zip(*rows, strict=True) if {*column[1:]} != {"-"}]
    print(aligned(list(zip(*columns, strict=True))))  # without those that have no value
    for note in table.notes:
        print(f"note on {note}")


def _measured() -> str:
    found = measured()
    budget = f"n0 = {found['n0']}, n = {found['n']:,}, alpha = {found['alpha']:g}"
    return f"published with {budget}, and radii rounded to {found['digits']} significant digits"


def _best(table: Table) -> list[tuple[str, ...]]:
    """Of a row that is quoted neither models nor the number of images are known."""
    rows = [
        (
            row.label,
            *(
                (str(len(row.models)), ", ".join(row.of), str(row.inputs))
                if row.of
                else ("-", "-", "-")
            ),
            *row.printed_cells(table.digits),
        )
        for row in table.best
    ]
    return [("setup", "best of", "rows of", "inputs", *table.head), *rows]


def _models(table: Table) -> list[tuple[str, ...]]:
    acr = () if table.columns else ("ACR",)
    rows = [
        (
            f"{row.settings['sigma']:g}",
            row.label,
            row.recipe,
            str(row.inputs),
            *([row.printed_acr()] if acr else []),
            *(row.printed_cells(table) or ["-"] * len(table.head)),
        )
        for row in table.rows
    ]
    return [("sigma", "setup", "recipe", "inputs", *acr, *table.head), *rows]
