"""Tables -> files: Markdown and LaTeX hold them one after another, CSV has a file for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from smoothcert.errors import ConfigError
from smoothcert.files import write_text
from smoothcert.report.tables.formats import Table, latex_together, markdown_together


def write_tables(
    tables: Mapping[str, Sequence[Table]],
    *,
    markdown: Path | None = None,
    latex: Path | None = None,
    csv: Path | None = None,
) -> list[Path]:
    """Write the tables of `report_tables`, and say which files were written.

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
