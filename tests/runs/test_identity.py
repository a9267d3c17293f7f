"""Whether two stores are of one network: by PyTorch's words for it, or, under another PyTorch, by its behaviour."""

import itertools

import pytest

from smoothcert.errors import StoreError
from smoothcert.runs.attack_rows import unlike
from smoothcert.runs.identity import differences
from smoothcert.runs.merge import merge
from tests.runs.machines import make

NEW, CHANGED, EARLIER = "torch 2.13:aa", "torch 2.13:bb", "torch 2.11:cc"
OLD, OLDER = "aa", "cc"  # of versions that did not say whose words they are
ANSWERS, ALIKE, UNLIKE = [[1, 2.0, 1.0]], [[1, 2.0001, 1.0]], [[1, 2.1, 1.0]]

CASES = [
    ((NEW, ANSWERS), (NEW, ALIKE), []),
    ((NEW, ANSWERS), (CHANGED, ANSWERS), ["network"]),
    ((NEW, ANSWERS), (NEW, UNLIKE), ["behaviour"]),
    ((NEW, ANSWERS), (EARLIER, ALIKE), []),
    ((NEW, ANSWERS), (EARLIER, UNLIKE), ["behaviour", "network"]),
    ((NEW, None), (EARLIER, ANSWERS), ["network"]),  # nothing says that it is the same
    ((NEW, []), (EARLIER, []), ["network"]),
    ((OLD, None), (NEW, None), []),
    ((OLDER, ANSWERS), (NEW, ALIKE), []),
    ((OLDER, ANSWERS), (NEW, UNLIKE), ["behaviour", "network"]),
    ((OLDER, ANSWERS), (OLD, ALIKE), ["network"]),
    ((None, ANSWERS), (None, ALIKE), []),
    ((None, ANSWERS), (NEW, ALIKE), ["network"]),
]


@pytest.mark.parametrize(("there", "asked", "differing"), CASES)
def test_stores_of_one_network(there, asked, differing):
    one, other = (
        {"network": network, "behaviour": behaviour} for network, behaviour in (there, asked)
    )
    assert [text.split(":")[0] for text in differences(one, other, "there", "asked")] == differing
    assert [text.split(":")[0] for text in differences(other, one, "there", "asked")] == differing


@pytest.mark.parametrize(("there", "asked", "differing"), CASES)
def test_attacks_belong_to_certificates_of_the_same_layers(there, asked, differing):
    """Their behaviour is asked only where the words do not decide."""
    about = {"model": "m", "data": "d", "split": "test", "sigma": 0.5, "norm": "l2"}
    one, other = (
        {**about, "network": network, "behaviour": answers} for network, answers in (there, asked)
    )
    assert (
        unlike(one, other)
        == unlike(other, one)
        == [name for name in differing if name == "network"]
    )


def test_two_networks_that_behave_like_a_third_are_not_merged(tmp_path):
    """One was certified under another PyTorch, whose words do not tell which of the two it is."""
    of = {"a": NEW, "b": CHANGED, "c": EARLIER}
    for place, (name, network) in enumerate(of.items()):
        make(tmp_path / name, [place], network=network, behaviour=ANSWERS, noise_seed=0)
    for order in itertools.permutations(of):
        with pytest.raises(StoreError, match="hold results of different procedures"):
            merge([tmp_path / name for name in order], tmp_path / "out")
    for network in "ab":
        assert merge([tmp_path / network, tmp_path / "c"], tmp_path / f"out-{network}").sources == 2
