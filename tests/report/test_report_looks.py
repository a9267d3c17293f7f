"""The same method has the same colour everywhere, and every eye can tell the colours apart."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from smoothcert.report.plot import (
    COLOURS,
    DARK_COLOURS,
    DASHES,
    LineStyle,
    run_styles,
)
from smoothcert.report.read.methods import METHODS, method_of

# Machado, Oliveira and Fernandes (2009), complete deficiency, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
)


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    t = XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize(
    ("colours", "paper", "contrast"), [(COLOURS, "#ffffff", 2.9), (DARK_COLOURS, "#15181c", 3.5)]
)
def test_colours_are_told_apart(colours, paper, contrast, eye):
    assert len(colours) == len(METHODS)
    seen = [lab(EYES[eye] @ linear(colour)) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 22
    for colour in colours:
        light, dark = sorted((XYZ[1] @ linear(colour), XYZ[1] @ linear(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > contrast


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("data/fmnist/noise_0.5/cohen/noise_0.5.tsv", "gaussian"),
        ("data/cifar10c/severity_1/cat_rs/fog.tsv", "catrs"),
        ("mnist/consistency/cohen/num_2/lbd_5.0/noise_0.50_1", "consistency"),
        ("mnist/consistency/salman_255.0_10_10/num_4/noise_0.50_1", "smoothadv-consistency"),
        ("mnist/macer_deferred30/num_16/noise_0.25_12", "macer"),
        ("mnist/smoothmix/smix_1.0_2_m0/tau_5.0/num_4/0/noise_0.25", "smoothmix"),
        ("repos/smoothmix/data/mnist/stab/lbd_2/noise_0.5_1297", "stability"),
        ("runs/smoothadv-consistency-0.50", "smoothadv-consistency"),
        ("runs/stable/noise_0.5", None),
    ],
)
def test_method_by_the_folders_of_a_log(make, path, method):
    assert method_of(make([0.5], source=Path(path))) == method


def test_method_of_a_run_is_the_configured_one(make):
    def configured(**method):
        return method_of(make([0.5], name="gaussian", config={"method": method}))

    assert configured(name="catrs") == "catrs"
    assert configured(name="consistency", base="smoothadv") == "smoothadv-consistency"
    assert configured(name="consistency", base="gaussian") == "consistency"
    assert configured(name="pkg.Mine") == "pkg.Mine"
    assert configured() is None


def test_a_method_keeps_its_colour_whatever_stands_beside_it(make):
    alone = run_styles([make([0.5], name="smoothmix")])
    crowd = run_styles(
        [make([0.5], name=name) for name in ("mine", "gaussian", "smoothmix", "other", "mine")]
    )
    assert alone == [LineStyle(METHODS.index("smoothmix"))]
    assert crowd[2] == alone[0]
    assert crowd[1].colour == METHODS.index("gaussian")
    assert crowd[0].colour == crowd[4].colour != crowd[3].colour
    assert (crowd[0].dash, crowd[4].dash) == (0, 1)
    assert len({look.colour for look in crowd}) == 4


def test_runs_of_one_method_differ_in_dashes(make):
    looks = run_styles([make([0.5], name="gaussian", sigma=s) for s in (0.25, 0.5, 1.0)])
    assert [look.dash for look in looks] == [0, 1, 2]
    assert len({look.colour for look in looks}) == 1


def test_more_methods_than_colours(make):
    looks = run_styles([make([0.5], name=name) for name in [*METHODS, *"abcdefghij"]])
    assert len(set(looks)) == len(looks) == 18
    assert all(look.dash < len(DASHES) for look in looks)
