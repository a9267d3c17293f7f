"""`smoothcert tables`."""

from __future__ import annotations

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, aligned
from smoothcert.recipes.tables import Table, load_table, table_names

ABOUT = "List the published tables that can be made again, or print one of them with its values."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name", type=str, nargs="?", default=None, help="table to print, e.g. smoothmix-supplement/table-8"
    )


def run(options: Options) -> None:
    if options.name is not None:
        _print(load_table(options.name))
        return
    tables = [load_table(name) for name in table_names()]
    rows = [(table.name, ", ".join(table.datasets), str(len(table.rows)), table.title) for table in tables]
    print(aligned([("table", "data set", "rows", "about"), *rows]))
    print("\n`smoothcert tables NAME` prints one, `smoothcert reproduce NAME` makes it again")


def _print(table: Table) -> None:
    print(f"{table.title}\n{table.cited}\n")
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
    print(aligned([("sigma", "setup", "recipe", "inputs", *acr, *table.head), *rows]))
    for note in table.notes:
        print(f"note on {note}")
