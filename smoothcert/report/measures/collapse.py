"""Networks that give nearly all inputs one and the same answer."""

from __future__ import annotations

import numpy as np

from smoothcert.errors import COLLAPSED
from smoothcert.report.read.certificates import Certificates


def collapsed(c: Certificates) -> float:
    """The share of the inputs that get one and the same answer, if the network has collapsed, else 0.

    With two classes or a handful of answers nothing can be said.
    """
    answers = c.predict[c.predict >= 0]
    classes = len(np.unique(c.label)) if c.labelled else c.identity.get("classes", 0)
    if len(answers) < 20 or classes <= 2:
        return 0.0
    share = float(np.unique(answers, return_counts=True)[1].max()) / c.rows
    return share if share > COLLAPSED else 0.0
