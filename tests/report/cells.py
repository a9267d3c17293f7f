"""What is marked in a printed table, by row and column, as its tests read it."""


def best(table):
    return {(i, j) for i, row in enumerate(table.cells) for j, cell in enumerate(row) if cell.best}


def intervals(table):
    """The ends around each value that has some."""
    return {
        (i, j): cell.around
        for i, row in enumerate(table.cells)
        for j, cell in enumerate(row)
        if cell.around
    }
