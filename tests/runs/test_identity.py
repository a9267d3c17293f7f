"""Whether two stores are of one network: by its layers, or by its behaviour where an older version named them."""

import pytest

from smoothcert.runs.attack_rows import unlike
from smoothcert.runs.identity import differences

LAYERS, OTHER, OLDER, OLDEST = "layers-1:aa", "layers-1:bb", "aa", "bb"
ANSWERS, ALIKE, UNLIKE = [[1, 2.0, 1.0]], [[1, 2.0001, 1.0]], [[1, 2.1, 1.0]]


@pytest.mark.parametrize(
    ("there", "asked", "differing"),
    [
        ((LAYERS, ANSWERS), (LAYERS, ALIKE), []),
        ((LAYERS, ANSWERS), (OTHER, ANSWERS), ["network"]),
        ((LAYERS, ANSWERS), (LAYERS, UNLIKE), ["behaviour"]),
        ((OLDER, ANSWERS), (OLDER, ALIKE), []),
        ((OLDER, ANSWERS), (LAYERS, ALIKE), []),  # the same network, named by another version
        ((OLDER, ANSWERS), (OLDEST, ALIKE), []),  # or under another version of PyTorch
        ((OLDER, ANSWERS), (LAYERS, UNLIKE), ["behaviour"]),
        ((OLDER, None), (LAYERS, ANSWERS), ["network"]),  # nothing says that it is the same
        ((OLDER, None), (OLDEST, None), ["network"]),
        ((None, ANSWERS), (None, ALIKE), []),
    ],
)
def test_stores_of_one_network(there, asked, differing):
    one, other = ({"network": network, "behaviour": behaviour} for network, behaviour in (there, asked))
    assert [text.split(":")[0] for text in differences(one, other, "there", "asked")] == differing
    assert [text.split(":")[0] for text in differences(other, one, "there", "asked")] == differing


@pytest.mark.parametrize(
    ("attack", "certificates", "differing"),
    [
        (LAYERS, LAYERS, []),
        (LAYERS, OTHER, ["network"]),
        (LAYERS, OLDER, []),
        (OLDER, OLDEST, []),
    ],
)
def test_attacks_belong_to_certificates_of_the_same_layers(attack, certificates, differing):
    about = {"model": "m", "data": "d", "split": "test", "sigma": 0.5}
    assert unlike({**about, "network": attack}, {**about, "network": certificates}) == differing
