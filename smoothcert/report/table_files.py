"""Several tables as one text, and as files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from smoothcert.errors import ConfigError
from smoothcert.files import write_text
from smoothcert.report.table import BOOKTABS, Table, for_latex, for_markdown


def write_tables(
    tables: Mapping[str, Sequence[Table]],
    *,
    markdown: Path | None = None,
    latex: Path | None = None,
    csv: Path | None = None,
) -> list[Path]:
    """Write the tables of each name, and say which files were written.

    The first table as CSV is `csv` itself, the others lie beside it: `t.csv`, `t-confidence.csv`, `t-corruptions.csv`,
    `t-corruptions-2.csv`.
    """
    every = [table for made in tables.values() for table in made]
    texts = [(markdown, markdown_together(every)), (latex, latex_together(every))]
    if csv is not None:
        texts += [
            (path, table.to_csv())
            for path, table in zip(_csv_paths(tables, csv), every, strict=True)
        ]
    paths = [path.resolve() for path, _ in texts if path is not None]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise ConfigError(
            f"{twice[0]} is the name of two tables: give --csv, --markdown and --latex other names"
        )
    written = []
    for path, text in texts:
        if path is not None:
            write_text(path, text)
            written.append(path)
    return written


def _csv_paths(tables: Mapping[str, Sequence[Table]], first: Path) -> Iterator[Path]:
    names = [
        name if not k else f"{name}-{k + 1}"
        for name, made in tables.items()
        for k in range(len(made))
    ]
    yield first
    yield from (first.with_name(f"{first.stem}-{name}{first.suffix}") for name in names[1:])


def texts_together(tables: Sequence[Table]) -> str:
    """Tables as text, one after another; each of several has its caption above it."""
    return "\n".join(_above(table, tables, "{}\n") + table.to_text() for table in tables)


def markdown_together(tables: Sequence[Table]) -> str:
    return "\n".join(
        _above(table, tables, "**{}**\n\n", for_markdown) + table.to_markdown() for table in tables
    )


def latex_together(tables: Sequence[Table]) -> str:
    """A bare `tabular`, or a `table` with its caption for each of several."""
    if len(tables) == 1:
        return tables[0].to_latex()
    head, end = "\\begin{table}\n\\centering\n\\caption{%s}\n", "\\end{table}\n"
    return BOOKTABS + "\n".join(
        head % for_latex(table.caption) + table.tabular() + end for table in tables
    )


def _above(
    table: Table, tables: Sequence[Table], form: str, quote: Callable[[str], str] = str
) -> str:
    return form.format(quote(table.caption)) if len(tables) > 1 else ""
