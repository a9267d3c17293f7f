"""Tables of cases as text: a line is a case, its cells are between bars."""

import pytest


def cases(text):
    """For parametrize: each line's cells as strings; the first two name the case."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
    return [pytest.param(*row, id=" | ".join(row[:2])) for row in rows]
