"""Rows of a log, and what must be read of them."""

ROWS = [(0, 7, 7, "1.91"), (20, 2, -1, "0.0"), (40, 1, 3, "0.953"), (60, 0, 0, "1e-05")]


def check_rows(c):
    assert c.idx.tolist() == [0, 20, 40, 60]
    assert c.label.tolist() == [7, 2, 1, 0]
    assert c.predict.tolist() == [7, -1, 3, 0]
    assert c.radius.tolist() == [1.91, 0.0, 0.953, 1e-05]
    assert c.correct.tolist() == [True, False, False, True]
    assert c.abstained.tolist() == [False, True, False, False]
    assert c.rows == 4
