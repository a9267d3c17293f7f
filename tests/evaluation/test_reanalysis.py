"""Stored counts judged again give what certification itself would have given."""

import json
import subprocess
import sys

import pytest

from smoothcert.certification.certifier import certificate_row
from smoothcert.data import load_dataset
from smoothcert.errors import ConfigError, StoreError
from smoothcert.evaluation.reanalysis import reanalyse
from smoothcert.models import build_model
from smoothcert.noise.thresholds import tau_of
from smoothcert.report import average_certified_radius, read_store
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore, clock
from smoothcert.statistics import bounds
from tests.counted import certified
from tests.results import certify_with
from tests.runs.rows import IDENTITY, TAU
from tests.verification.simulated import simulate

COUNTS0 = [[90, 10, 0], [5, 90, 5], [30, 30, 40], [50, 50, 0]]
COUNTS = [[990, 0, 10], [20, 900, 80], [300, 250, 450], [400, 600, 0]]


def make(folder, rows=((0, 1), (2, 3)), **identity):
    manifest = Manifest({**IDENTITY, **identity}, 4, {})
    store = ResultStore(folder)
    store.claim(manifest)
    rules = manifest.procedure
    for part, indices in enumerate(rows):
        with store.writer(part, len(rows)) as writer:
            for index in indices:
                counts = COUNTS0[index], COUNTS[index]
                settings = {"law": rules.law.name, "tau": rules.tau}
                (certificate,) = certified(*counts, rules.sigma, rules.alpha, **settings)
                row = certificate_row(certificate, index=index, label=0)
                writer.add({**row, "time": clock(1.0)})
    return store


def expected(alpha, law="gaussian", **settings):
    pairs, settings = zip(COUNTS0, COUNTS, strict=True), {"tau": TAU, **settings}
    return [certified(a, b, 0.5, alpha, law=law, **settings)[0] for a, b in pairs]


@pytest.mark.parametrize("alpha", [None, 0.05, 1e-6])
@pytest.mark.parametrize("noise", ["exact", "uniform", "laplace"])
def test_the_binary_bound_at_any_alpha(tmp_path, alpha, noise):
    found = reanalyse(make(tmp_path, noise=noise), alpha=alpha)
    wanted = expected(alpha or 0.001, law="gaussian" if noise == "exact" else noise)
    assert found.radius.tolist() == [c.radius for c in wanted]
    assert found.p_lower.tolist() == [c.p_lower for c in wanted]
    assert found.predict.tolist() == [c.predict for c in wanted]
    assert found.correct.tolist() == [c.predict == 0 for c in wanted]
    assert found.alpha == (alpha or 0.001)


def test_as_certified_by_default(tmp_path):
    store = make(tmp_path)
    found, stored = reanalyse(store.folder), read_store(store.folder)
    for column in ("idx", "label", "predict", "radius", "correct", "p_lower"):
        assert getattr(found, column).tolist() == getattr(stored, column).tolist()


@pytest.mark.parametrize("dimension", [784, 10**8])
def test_the_multiclass_bound(tmp_path, dimension):
    tau = tau_of(0.5, dimension)
    found = reanalyse(make(tmp_path, dimension=dimension), alpha=0.01, bound="multiclass")
    wanted = expected(0.01, tau=tau)
    assert found.radius.tolist() == [c.multiclass_radius for c in wanted]
    assert found.predict.tolist() == [c.selected if c.multiclass_radius > 0 else -1 for c in wanted]
    assert found.predict[2] == 2  # below one half, yet ahead of every other class
    assert found.p_lower[0] == bounds.lower_bound(990, 1000, 0.009, tau)


def test_the_l_infinity_norm(tmp_path):
    store = make(tmp_path)
    plain, found = reanalyse(store), reanalyse(store, norm="linf")
    assert (plain.norm, found.norm) == ("l2", "linf")
    assert found.radius == pytest.approx(plain.radius / 28)
    assert (found.radius * 28 <= plain.radius).all()
    assert reanalyse(store, norm="linf", values=4).radius == pytest.approx(plain.radius / 2)


@pytest.mark.parametrize("alpha", [None, 0.05, 1e-6])
def test_an_alpha_for_all_inputs_together_is_divided_by_their_number(tmp_path, alpha):
    """4 inputs are promised, though only 3 are stored yet: a share of alpha belongs to the fourth."""
    found = reanalyse(make(tmp_path, rows=((0, 1, 2),), simultaneous=True), alpha=alpha)
    wanted = expected((alpha or 0.001) / 4)[:3]
    assert found.p_lower.tolist() == [c.p_lower for c in wanted]
    assert found.radius.tolist() == [c.radius for c in wanted]
    assert (found.alpha, found.alpha_each) == (alpha or 0.001, (alpha or 0.001) / 4)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, ()),
        ({"alpha": 0.001, "norm": "linf", "values": 784}, ()),
        (
            {"alpha": 0.05},
            ("stored counts were analysed again with alpha 0.05 (certified with 0.001)",),
        ),
        ({"bound": "multiclass"}, ("stored counts were analysed again with the multiclass bound",)),
    ],
)
def test_what_was_changed_is_told(tmp_path, arguments, told):
    assert reanalyse(make(tmp_path), **arguments).warnings == told


@pytest.mark.parametrize(
    ("settings", "arguments", "error", "message"),
    [
        ({"noise": "laplace"}, {"norm": "linf"}, ConfigError, "l1 radii of laplace noise"),
        ({"noise": "laplace"}, {"norm": "l2"}, ConfigError, "gives l1 radii"),
        ({}, {"bound": "binari"}, ConfigError, "did you mean binary"),
        ({}, {"norm": "l3"}, ConfigError, "norm is one of l2, linf, found 'l3'; did you mean l2"),
        ({}, {"alpha": 0.0}, ConfigError, "alpha is a failure probability"),
    ],
)
def test_what_does_not_follow_from_the_counts_is_refused(
    tmp_path, settings, arguments, error, message
):
    store = make(tmp_path, **settings)
    with pytest.raises(error, match=message):
        reanalyse(store, **arguments)


@pytest.mark.parametrize("settings", [{"radii": (0.25, 0.5)}, {"tolerance": 0.1}])
def test_counts_of_early_stopping_are_not_analysed_again(tmp_path, settings):
    with pytest.raises(
        StoreError, match=r"stopped sampling by what it saw.* Certify with a fixed n"
    ):
        reanalyse(simulate(tmp_path, **settings))


def test_a_real_store_and_its_re_analysis_agree_with_certifying_again(tmp_path):
    model, data = build_model("lenet", seed=0), load_dataset("mnist-mini", "test")
    settings = {
        "sigma": 0.5,
        "n0": 32,
        "n": 100,
        "selection": Selection(max=6),
        "batch_size": 64,
        "quiet": True,
        "seed": 0,
    }
    first = certify_with(model, data, tmp_path / "a", skip_wrong=True, **settings)
    again = certify_with(model, data, tmp_path / "b", skip_wrong=True, alpha=0.05, **settings)
    found, wanted = reanalyse(first, alpha=0.05), read_store(again.folder)
    assert found.radius.tolist() == wanted.radius.tolist()
    assert found.predict.tolist() == wanted.predict.tolist()
    assert average_certified_radius(found) == average_certified_radius(wanted)
    assert json.loads((first.folder / "manifest.json").read_text())["identity"]["dimension"] == 784
    assert (reanalyse(first, norm="linf").radius <= found.radius).all()


def test_a_store_without_counts_is_refused(tmp_path):
    store = make(tmp_path)
    for path in store.part_paths():
        cells = [line.split("\t")[:6] for line in path.read_text().splitlines()]
        path.write_text("".join("\t".join(line) + "\n" for line in cells))
    with pytest.raises(StoreError, match="missing: counts0 counts path check"):
        reanalyse(store, alpha=0.01)


def test_no_forward_pass_and_no_pytorch(tmp_path):
    make(tmp_path)
    code = (
        "import sys; from smoothcert.evaluation.reanalysis import reanalyse\n"
        f"print(reanalyse({str(tmp_path)!r}, alpha=0.01).rows); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "4\n", done.stderr
