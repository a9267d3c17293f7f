"""Rows of several requests in one batch, and their votes, against NumPy: by Triton's interpreter without a GPU."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")
from smoothcert.certification.votes import Rows, add_votes

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@settings(max_examples=30)
@given(
    spans=st.lists(
        st.tuples(st.integers(0, 2**32 - 400), st.integers(1, 300)), min_size=1, max_size=9
    ),
    size=st.integers(100, 700),  # each batch is a launch, which takes its time in the interpreter
)
def test_rows_are_the_samples_of_one_request_after_the_other(spans, size):
    expected = [
        (owner, first + i) for owner, (first, count) in enumerate(spans) for i in range(count)
    ]
    rows, found = Rows([(first, first + count) for first, count in spans], DEVICE), []
    assert rows.total == len(expected)
    for start in range(0, rows.total, size):
        owner, sample = rows.batch(start, min(size, rows.total - start))
        samples = sample.cpu().numpy().view(np.uint32)  # the numbers of samples have 32 bits
        found += zip(owner.tolist(), samples.tolist(), strict=True)
    assert found == expected


@pytest.mark.parametrize("classes", [2, 10, 17, 1000, 5000])
@pytest.mark.parametrize("spread", [True, False])  # rows of one request in a program, or of many
def test_votes_are_counted_for_their_requests(classes, spread):
    rng, rows = np.random.default_rng(classes), 700 if classes < 100 else 70
    # integers: many ties, of which the first class wins, as with argmax
    logits = torch.from_numpy(rng.integers(-3, 4, (rows, classes)).astype(np.float32))
    owner = np.sort(rng.integers(0, 5, rows)) if spread else np.full(rows, 3)
    expected = np.zeros((6, classes), dtype=np.int64)
    np.add.at(expected, (owner, logits.numpy().argmax(1)), 1)
    counts = torch.zeros(6, classes, dtype=torch.int64, device=DEVICE)
    nan = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    owners = torch.from_numpy(owner.astype(np.int32)).to(DEVICE)
    add_votes(logits.to(DEVICE), owners, counts, nan)
    assert counts.cpu().numpy().tolist() == expected.tolist()
    wide = torch.full((rows, classes + 3), 99.0)
    wide[:, :classes] = logits
    for same in (
        wide.to(DEVICE)[:, :classes],
        logits.T.contiguous().to(DEVICE).T,
    ):  # rows or classes with gaps
        add_votes(same, owners, counts, nan)
    assert counts.cpu().numpy().tolist() == (3 * expected).tolist()
    assert int(nan) == 0


def test_rows_with_nan_are_counted_apart():
    logits = torch.zeros(300, 10)
    logits[[0, 7, 299], [9, 0, 3]] = float("nan")
    logits[8] = float("-inf")  # a class all the same: the first
    counts, nan = (
        torch.zeros(*shape, dtype=torch.int64, device=DEVICE) for shape in ((1, 10), (1,))
    )
    add_votes(logits.to(DEVICE), torch.zeros(300, dtype=torch.int32, device=DEVICE), counts, nan)
    assert int(nan) == 3
    assert int(counts.sum()) == 300
