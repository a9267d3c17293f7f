"""Pickle files of arrays, as they should be, hostile, and damaged."""

import pickle

import numpy as np
from hypothesis import strategies as st


def content(size=20, **changes):
    """The entries of ti_500K_pseudo_labeled.pickle, few."""
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (size, 32, 32, 3)).astype(np.uint8)
    beside = {
        "ti_index": list(range(size)),
        "prediction_model": "wrn-28-10",
        "prediction_model_epoch": np.int64(200),
    }
    return {"data": images, "extrapolated_targets": rng.integers(0, 10, size), **beside, **changes}


class Call:
    """Pickled, this is a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@st.composite
def with_a_byte_changed(draw):
    written = bytearray(pickle.dumps(content(1), draw(st.sampled_from([0, 2, 4, 5]))))
    place = draw(st.one_of(st.integers(0, 200), st.integers(len(written) - 200, len(written) - 1)))
    written[place] = draw(st.integers(0, 255))
    return bytes(written)
