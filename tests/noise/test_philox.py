"""Philox4x32-10 against the published known answers and a second implementation in plain Python integers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.noise.philox import philox4x32
from tests.noise.literal import plain

WORD = st.integers(0, 2**32 - 1)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def ours(counter, key, device="cpu"):
    return [
        int(word)
        for word in philox4x32(tuple(torch.tensor([w], device=device) for w in counter), key)
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # Random123's known-answer tests
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(counter, key, expected, device):
    assert " ".join(f"{word:08x}" for word in ours(counter, key, device)) == expected


@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_any_counter_agrees_with_plain_integers(counter, key):
    assert ours(counter, key) == plain(counter, key)


@pytest.mark.parametrize("device", DEVICES)
def test_counters_broadcast(device):
    pair, sample = torch.arange(5, device=device)[None], torch.arange(7, 10, device=device)[:, None]
    index, stage = torch.full((1, 1), 12, device=device), torch.full((1, 1), 1, device=device)
    words = philox4x32((pair, sample, index, stage), (3, 4))
    for row, s in enumerate((7, 8, 9)):
        for column in range(5):
            assert [int(word.expand(3, 5)[row, column]) for word in words] == plain(
                (column, s, 12, 1), (3, 4)
            )
