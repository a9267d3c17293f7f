"""A certificate in words, in a terminal and in a notebook: it says no more than was proved."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.counted import certified


def certificate(top, noise="exact", law="gaussian", image=None):
    counts = np.array([[1000 - top, top]])
    (found,) = certified(counts, counts, law=law)
    return replace(found, noise=noise, image=image)


@pytest.mark.parametrize(
    ("noise", "law", "words"),
    [
        ("exact", "gaussian", ["Gaussian", "8-bit image", "l2"]),
        ("uniform", "uniform", ["uniform", "8-bit image", "l1"]),
        ("laplace", "laplace", ["Laplace", "8-bit image", "l1"]),
        ("float", "gaussian", ["Gaussian", "not formally sound", "l2"]),
    ],
)
def test_the_claim_names_the_smoothed_classifier_its_alpha_and_what_it_is_about(noise, law, words):
    found = certificate(900, noise, law)
    text = found.sentence()
    assert text.endswith(".")
    told = ["smoothed", "0.999", "alpha = 0.001", "1,000 noisy copies", "class 1", "0.5", *words]
    assert [word for word in told if word not in text] == []
    assert ("8-bit" in text) == (noise != "float")
    (radius,) = map(float, re.findall(r"below ([\d.]+),", text))
    assert 0 <= found.radius - radius < 1e-4


def test_an_abstention_claims_nothing():
    found = certificate(510)
    assert "nothing is guaranteed" in found.sentence()
    assert "radius" not in str(found)
    assert "abstains" in str(found)
    assert "radius" not in found._repr_html_()


def test_the_terminal_has_the_votes_and_a_radius_that_is_not_rounded_up():
    found = certificate(997)
    first, *votes = str(found).splitlines()
    (radius,) = map(float, re.findall(r"radius ([\d.]+)", first))
    assert 0 <= found.radius - radius < 1e-4
    assert [line.split()[0] for line in votes] == ["1", "0"]
    assert "997 of 1,000" in votes[0]
    assert "not formally sound" in str(certificate(997, "float"))
    assert str(found).isascii()


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 224, 224), None])
def test_the_notebook_has_whole_html_with_the_picture_in_its_ball(shape):
    image = None if shape is None else np.zeros(shape, np.uint8)
    found = certificate(997, image=image)
    text, opened = found._repr_html_(), []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag not in ("circle", "image"):
                opened.append(tag)

        def handle_endtag(self, tag):
            if tag not in ("circle", "image"):
                assert opened.pop() == tag

    Tags().feed(text)
    assert opened == []
    assert ("data:image/png" in text) == (shape is not None)
    assert "<circle" in text
    assert found.sentence() in text
    assert "not formally sound" in certificate(997, "float")._repr_html_()


def test_a_larger_radius_has_a_larger_ball():
    sizes = [
        float(re.search(r' r="([\d.]+)"', certificate(top)._repr_html_())[1])
        for top in (700, 900, 1000)
    ]
    assert sizes == sorted(set(sizes))
