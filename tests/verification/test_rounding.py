"""Counts that rounding explains, and counts that it does not."""

import numpy as np
import pytest

from smoothcert.runs.counts import class_counts
from smoothcert.verification.rounding import explained, lean


def row(counts, counts0=(80, 20), noise="exact"):
    texts = [
        ",".join(f"{label}:{count}" for label, count in enumerate(part))
        for part in (counts0, counts)
    ]
    return {
        "counts0": texts[0],
        "counts": texts[1],
        "path": " ".join(map(str, counts[:1])),
        "noise": noise,
    }


@pytest.mark.parametrize(
    ("stored", "now", "fine"),
    [
        (row((150, 50)), row((153, 47)), True),
        (row((150, 50)), row((154, 46)), False),
        (row((150, 50)), row((46, 154)), False),
        (row((90_000, 10_000)), row((89_000, 11_000)), True),
        (row((90_000, 10_000)), row((88_999, 11_001)), False),
        (
            row((90_000, 9_000, 1_000)),
            row((90_000, 7_000, 3_000)),
            False,
        ),  # of classes that were not selected
        (row((150, 50), (83, 17)), row((150, 50)), True),
        (row((150, 50), (84, 16)), row((150, 50)), False),
        (row((), (50, 50)), row((), (49, 51)), True),  # nothing was drawn
        (
            row((150, 50), noise="float"),
            row((170, 30), noise="float"),
            True,
        ),  # other samples of one network
        (row((150, 50), noise="float"), row((80, 120), noise="float"), False),
    ],
)
def test_the_counts_of_one_input(stored, now, fine):
    looks = (sum(class_counts(stored["counts"]).values()),)
    assert explained(stored, now, stored["noise"], looks) is fine
    assert explained(now, stored, stored["noise"], looks) is fine


@pytest.mark.parametrize(("path", "fine"), [("20 200", True), ("17 199", True), ("16 200", False)])
def test_the_counts_at_every_look(path, fine):
    """A claim may rest on any of them."""
    looks, stored = (20, 200), {**row((200, 0)), "path": path}
    now = {**row((200, 0)), "path": "20 200"}
    assert explained(stored, now, "exact", looks) is fine
    assert explained(now, stored, "exact", looks) is fine


def pairs(n, differences):
    return [(row((n // 2 + d, n // 2 - d)), row((n // 2, n // 2))) for d in map(int, differences)]


@pytest.mark.parametrize(
    ("n", "differences", "fine"),
    [
        (100_000, [0] * 10, True),
        (
            100_000,
            [2, 0, 0, 1, 0, 8, 0, 0, 12, 0],
            True,
        ),  # measured: float16 on a GPU, float32 on a CPU
        (100_000, [30] * 5, True),  # 2^-4 by chance
        (100_000, [1] * 40, False),
        (100_000, [9] * 200, False),
        (100_000, [1_000] * 3, False),  # as many flips as one input may have, all the same way
        (400, [4] * 12, False),
        (400, [4, -4] * 100, True),
    ],
)
def test_all_inputs_together(n, differences, fine):
    for sign in (1, -1):
        found, most = lean(pairs(n, sign * np.array(differences)))
        assert found == sign * sum(differences)
        assert (abs(found) <= most) is fine


@pytest.mark.parametrize("share", [1e-4, 1e-3, 1e-2])
def test_flips_either_way_are_no_lean_whatever_their_number(share):
    rng = np.random.default_rng(0)
    for inputs in (1, 5, 50, 500):
        flips = rng.binomial(20_000, share, (inputs, 20))
        for differences in (2 * rng.binomial(flips, 0.5) - flips).T:
            found, most = lean(pairs(20_000, differences))
            assert abs(found) <= most
