"""Runs that need a word: collapsed ones, and certificates that say less than the usual ones."""

import dataclasses

import numpy as np
import pytest

from smoothcert.report.notes import comparison_notes


def run(make, identity, predict=None, rows=40):
    c = make([0.5] * rows, name="mine", sigma=0.5)
    labels = np.arange(rows) % 4
    predict = labels if predict is None else np.asarray(predict)
    c = dataclasses.replace(c, label=labels, predict=predict, correct=predict == labels)
    manifest = {"identity": identity, "inputs": rows, "environment": {}}
    return dataclasses.replace(c, norm=identity.get("norm", "l2"), manifest=manifest)


def test_a_constant_classifier_is_called_collapsed(make):
    (note,) = comparison_notes([run(make, {}, predict=[2] * 40)])
    assert note.startswith("mine: COLLAPSED, 100 % of the inputs get one and the same answer")
    assert comparison_notes([run(make, {})]) == []
    assert (
        comparison_notes([run(make, {}, predict=[2] * 30 + [-1] * 10)]) == []
    )  # abstentions are no answers


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({"procedure": "radius", "radii": [0, 0.5]}, "only the radii 0, 0.5 were tested"),
        ({"skip_wrong": True}, "wrong answers were not certified"),
        ({"simultaneous": True}, "alpha is for all inputs together"),
    ],
)
def test_what_a_procedure_leaves_out_is_said(make, identity, words):
    assert words in comparison_notes([run(make, identity)])[0]


def test_norms_are_not_mixed_silently(make):
    notes = comparison_notes([run(make, {"norm": "l1"}), run(make, {})])
    assert "the radii are in different norms: l1, l2; do not compare them" in notes
