"""A few hundred steps on real digits: the methods' order at larger radii, which is what they are for."""

import pytest

from smoothcert.data import Dataset, load_dataset
from smoothcert.recipes import load_recipe
from smoothcert.report import average_certified_radius, certified_accuracy, read_store
from smoothcert.runs.selection import Selection
from smoothcert.training.fit import fit
from tests.results import certify_with


@pytest.mark.long
def test_consistency_certifies_more_at_large_radii_than_gaussian_training(tmp_path):
    found, whole = {}, load_dataset("mnist-mini", "train")
    train = Dataset(
        whole.name, whole.split, whole.images[:4000], whole.labels[:4000], whole.classes
    )
    for method in ("gaussian", "consistency"):
        changes = {"epochs": 5, "lr_step": 4, "evaluate_every": 0}  # 315 steps
        config = load_recipe(f"mnist-mini/{method}-0.50", changes).config
        model, spec = fit(
            config, tmp_path / method, train=train, device="cpu", quiet=True
        ).load_model()
        store = certify_with(
            model,
            load_dataset("mnist-mini", "test"),
            tmp_path / method / "certify" / "test",
            sigma=spec.sigma,
            n=500,
            selection=Selection(every=16),
            device="cpu",
            quiet=True,
        )
        found[method] = read_store(store.folder)
    gaussian, consistency = (found[method] for method in ("gaussian", "consistency"))
    assert certified_accuracy(gaussian, [0.0])[0] > 0.9
    assert average_certified_radius(consistency) > average_certified_radius(gaussian) + 0.01
    assert certified_accuracy(consistency, [1.0])[0] > certified_accuracy(gaussian, [1.0])[0]
