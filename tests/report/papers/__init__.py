"""Tables of the papers as printed: numbers typed from their texts, for tests to compare with."""

from pathlib import Path


def paper_table(paper, number):
    """The rows of a table, each a list of printed cells; the line below the title names the columns."""
    text = (Path(__file__).parent / f"{paper}.txt").read_text(encoding="utf-8")
    body = text.split(f"\n[table {number}]")[1].split("\n\n")[0]
    return [line.split() for line in body.strip().splitlines()[2:]]


def paper_columns(paper, number):
    text = (Path(__file__).parent / f"{paper}.txt").read_text(encoding="utf-8")
    return text.split(f"\n[table {number}]")[1].split("\n")[1].split()


def percents(row, measure="certified accuracy"):
    """What a row prints of a measure, in percent, by radius."""
    return {v.r: round(100 * v.value, 9) for v in row.printed if v.measure == measure}
