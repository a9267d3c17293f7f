"""Rows of a log, and what must be read of them."""

import pytest

ROWS = [(0, 7, 7, "1.23"), (20, 2, -1, "0.0"), (40, 1, 3, "0.953"), (60, 0, 0, "1e-05")]


def check_rows(c):
    assert c.idx.tolist() == [0, 20, 40, 60]
    assert c.label.tolist() == [7, 2, 1, 0]
    assert c.predict.tolist() == [7, -1, 3, 0]
    assert c.radius.tolist() == pytest.approx(
        [1.23, 0.0, 0.953, 1e-05], abs=0.01
    )  # a store has those of its counts
    assert c.correct.tolist() == [True, False, False, True]
    assert c.abstained.tolist() == [False, True, False, False]
    assert c.rows == 4
