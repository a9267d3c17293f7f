"""Inputs certified again: the same counts come out, and counts that nobody drew do not."""

import json
import shutil

import numpy as np
import pytest

from smoothcert import CertifyConfig, RunFolder, Selection, build_model, certify_dataset, load_dataset
from smoothcert.certification.certify import certificate_row
from smoothcert.errors import ConfigError, ModelError, StoreError
from smoothcert.runs.folder import ModelSpec
from smoothcert.runs.store import ResultStore
from smoothcert.statistics.certificate import from_counts
from smoothcert.verification.resample import Resampling
from smoothcert.verification.verify import verify
from tests.verification.simulated import rechain, tamper

SETTINGS = {
    "fixed": {},
    "radii": {"radii": (0.0, 0.1), "n": 500},
    "simultaneous": {"simultaneous": True, "skip_wrong": True},
    "laplace": {"noise": "laplace", "tolerance": 0.1, "n": 5_000},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A network that was never trained, certified by several procedures."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    model, data = build_model("lenet", seed=0), load_dataset("mnist-mini", "test")
    folder.save_model(model, ModelSpec("lenet", 10, "none", 0.5, "mnist-mini", (1, 28, 28)))
    for name, changes in SETTINGS.items():
        config = CertifyConfig(**{"sigma": 0.5, "n": 200, "n0": 20, **changes})
        chosen = Selection(start=3, every=2, max=6)
        certify_dataset(model, data, folder.path / "certify" / name, config, selection=chosen, quiet=True)
    return folder.path


@pytest.fixture
def store(runs, tmp_path):
    return ResultStore(shutil.copytree(runs, tmp_path / "run") / "certify" / "fixed")


def again(place, amount="100%", **settings):
    return verify(place, resampling=Resampling(amount, device="cpu", quiet=True, **settings))


def test_the_same_counts_come_out_of_every_procedure(runs):
    found = again(runs)
    assert [verdict.store.name for verdict in found] == sorted(SETTINGS)
    for verdict in found:
        assert verdict.problems == []
        assert verdict.text == "verified: 6 rows recomputed, 6 re-sampled, 0 differ"


def invented(cells):
    """Counts of a classifier that is always right, with the bound and the radius that they prove."""
    counts0, counts = np.zeros((2, 1, 10), np.int64)
    label = int(cells["label"])
    counts0[0, label], counts[0, label] = 20, 200
    (certificate,) = from_counts(counts0, counts, 0.5, 0.001)
    row = certificate_row(certificate, index=int(cells["idx"]), label=label, noise=cells["noise"], seed=0)
    return {name: str(value) for name, value in row.items()} | {"seed": cells["seed"]}


def test_invented_counts_pass_every_other_check_and_are_found_by_sampling_again(store):
    index = tamper(store, invented)
    assert verify(store.folder)[0].answer == "verified"
    (verdict,) = again(store.folder)
    assert (verdict.answer, verdict.differ) == ("differs", [index])
    (problem,) = verdict.problems
    assert problem.startswith(f"input {index} sampled again: ")
    assert "stored," in problem


def elsewhere(store):
    """As if the rows had been made on a GPU."""
    path = store.folder / "manifest.json"
    values = json.loads(path.read_text())
    values["identity"] |= {"device_type": "cuda (NVIDIA H200)", "precision": "float16"}
    path.write_text(json.dumps(values))
    for part in store.parts():
        rechain(store, part)


def one_less(cells):
    """A count that rounding could have changed; the claim is that of one success less."""
    entries = dict(map(int, entry.split(":")) for entry in cells["counts"].split(","))
    top = max(entries, key=entries.get)
    others = [label for label in range(10) if label != top]
    entries[top], entries[others[0]] = entries[top] - 1, entries.get(others[0], 0) + 1
    return {"counts": ",".join(f"{label}:{entries[label]}" for label in sorted(entries))}


def test_what_rounding_may_explain_on_another_device_is_said_and_what_it_cannot_is_a_problem(store):
    elsewhere(store)
    (verdict,) = again(store.folder)
    assert verdict.text == "verified: 6 rows recomputed, 6 re-sampled, 0 differ on another device"
    assert any("device_type cuda (NVIDIA H200) there, cpu here" in note for note in verdict.notes)
    abstains = {"predict": "-1", "radius": "0.0", "p_lower": "0.0", "multiclass_radius": "0.0", "correct": "0"}
    index = tamper(store, lambda cells: one_less(cells) | abstains)
    (verdict,) = again(store.folder)
    assert (verdict.answer, verdict.differ) == ("verified", [index])
    assert any(f"input {index} sampled again: " in note for note in verdict.notes)
    tamper(store, invented)
    (verdict,) = again(store.folder)
    assert verdict.answer == "differs"


def test_the_amount_the_choice_and_what_is_needed(store):
    first, second = (again(store.folder, "2", seed=3)[0] for _ in range(2))
    assert first.resampled == second.resampled == 2
    for wrong in ("0", "0%", "101%", "many", "-3", ""):
        with pytest.raises(ConfigError, match="--resample takes a share"):
            Resampling(wrong)
    assert [Resampling(amount).inputs(250) for amount in ("1%", "0.1%", "17", "9999")] == [3, 1, 17, 250]
    shutil.copytree(store.folder, alone := store.folder.parents[2] / "alone")
    with pytest.raises(StoreError, match="alone cannot be sampled again without the network"):
        again(alone)


def test_other_weights_and_other_data_are_found_before_anything_is_sampled(store):
    run = store.folder.parent.parent
    weights = (run / "weights.safetensors").read_bytes()
    other = bytearray(weights)
    other[-1] ^= 1
    for damage, problem in ((bytes(other), "holds other weights"), (weights[:100], "or model.json is damaged")):
        (run / "weights.safetensors").write_bytes(damage)
        (verdict,) = again(store.folder)
        assert any(problem in text for text in verdict.problems)
        assert verdict.resampled == 0
    (run / "weights.safetensors").write_bytes(weights)
    path = store.folder / "manifest.json"
    path.write_text(path.read_text().replace('"split": "test"', '"split": "train"'))
    for part in store.parts():
        rechain(store, part)
    (verdict,) = again(store.folder)
    assert any("is not the data that was certified" in text for text in verdict.problems)


def test_labels_are_those_of_the_data(store):
    index = tamper(store, lambda cells: {"label": str((int(cells["label"]) + 1) % 10), "predict": "-1", "correct": "0",
                                         "radius": "0.0", "p_lower": "0.0"})  # fmt: skip
    (verdict,) = verify(store.folder)
    assert any(f"input {index}: label" in text and "but the data has" in text for text in verdict.problems)


def test_sampling_again_runs_no_code_that_a_stranger_names(store):
    path = store.folder.parent.parent / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "architecture": "antigravity.open"}))
    with pytest.raises(ModelError, match="trust"):
        again(store.folder)
