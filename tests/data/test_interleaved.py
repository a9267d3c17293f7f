"""Batches of labelled and pseudo-labelled images by turns, and epochs of them that go on in the middle."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.data import Batches
from smoothcert.data.interleaved import Interleaved
from tests.training.tiny import kinds, tiny


def interleaved(labelled=50, pseudo=70, batch_size=8, as_printed=False, **options):
    return Interleaved(
        Batches(tiny(size=labelled), batch_size, **{"seed": 3, **options}),
        tiny(size=pseudo, seed=9),
        as_printed,
    )


def test_an_epoch_is_the_labelled_batches_and_as_many_pseudo_labelled_ones_in_random_order():
    batches = interleaved(augment="crop-flip")
    found = list(batches.epoch(1))
    assert len(found) == len(batches) == 14
    alone = list(Batches(tiny(size=50), 8, seed=3, augment="crop-flip").epoch(1))
    labelled = [batch for batch in found if not batch.pseudo_labelled]
    for one, two in zip(labelled, alone, strict=True):
        assert torch.equal(one.images, two.images)
        assert one.generator.initial_seed() == two.generator.initial_seed()
    pseudo = torch.cat([batch.index for batch in found if batch.pseudo_labelled]).tolist()
    assert len(pseudo) == len(set(pseudo)) == 56  # a part of the 70, none twice
    assert len({batch.generator.initial_seed() for batch in found}) == 14
    orders = {
        tuple(kinds(interleaved(seed=seed), epoch)) for seed in (0, 1, 2) for epoch in (0, 1, 2)
    }
    assert len(orders) > 5
    assert all(sum(order) == 7 for order in orders)


@given(
    labelled=st.integers(1, 40),
    pseudo=st.integers(4, 40),
    batch=st.integers(1, 4),
    epoch=st.integers(0, 2),
    start=st.floats(0, 1),
)
def test_a_resumed_epoch_is_the_tail_of_the_whole_however_small_the_pseudo_labelled_set(
    labelled, pseudo, batch, epoch, start
):
    batches = interleaved(labelled, pseudo, batch)
    first = round(start * len(batches))
    whole, tail = list(batches.epoch(epoch)), list(batches.epoch(epoch, first))
    assert len(whole) == len(batches)
    for one, two in zip(whole[first:], tail, strict=True):
        assert one.pseudo_labelled == two.pseudo_labelled
        assert torch.equal(one.images, two.images)
        assert one.generator.initial_seed() == two.generator.initial_seed()
    taken = np.bincount(torch.cat([b.index for b in whole if b.pseudo_labelled]), minlength=pseudo)
    assert taken.max() - taken.min() <= 1  # gone through evenly


def test_all_ranks_take_the_same_kinds():
    one, two = (interleaved(rank=rank, world_size=2) for rank in (0, 1))
    assert kinds(one, 4) == kinds(two, 4)
    assert len(set(kinds(one, 4))) == 2


def test_as_printed_every_step_throws_a_coin():
    """More than 7 of 14 steps are often of one kind, whose images are then gone through again."""
    counts, seen = [], []
    for seed in range(8):
        batches = interleaved(seed=seed, as_printed=True)
        for epoch in range(4):
            whole = list(batches.epoch(epoch))
            kinds = [batch.pseudo_labelled for batch in whole]
            counts.append(sum(kinds))
            labelled = torch.cat([batch.index for batch in whole if not batch.pseudo_labelled])
            seen.append(np.bincount(labelled, minlength=50))
            for start in (3, 11):
                tail = list(batches.epoch(epoch, start))
                for one, two in zip(whole[start:], tail, strict=True):
                    assert one.pseudo_labelled == two.pseudo_labelled
                    assert torch.equal(one.index, two.index)
    mean = np.mean(counts)  # of 32 * 14 throws: standard error 0.33
    assert mean == pytest.approx(7, abs=4 * 0.33)
    assert np.std(counts) == pytest.approx(14**0.5 / 2, rel=0.5)
    assert max(taken.max() for taken in seen) == 2
    firsts = [next(interleaved(as_printed=True).epoch(epoch)).index.tolist() for epoch in (0, 1)]
    assert firsts[0] != firsts[1]
