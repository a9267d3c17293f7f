"""The runs that are packed in results/: whoever clones the project can check their certificates."""

from pathlib import Path

import pytest

from smoothcert.published.measured import read_measured
from smoothcert.report import average_certified_radius, read_store
from smoothcert.verification.unpack import unpack
from smoothcert.verification.verify import verify

RESULTS = Path(__file__).parents[2] / "results"


def test_the_packed_run_of_mnist_verifies_and_has_the_radius_that_is_reported(tmp_path):
    pack = RESULTS / "mnist-gaussian-0.50.zip"
    (verdict,) = verify(pack)
    assert verdict.text == "verified: 10,000 rows recomputed, 0 re-sampled, 0 differ"
    assert not any("chosen by hand" in note for note in verdict.notes)
    found = read_store(unpack(pack, tmp_path) / "certify" / "test")
    assert average_certified_radius(found, rounded=True) == pytest.approx(1.5602, abs=5e-5)
    assert "Its ACR is 1.5602." in (RESULTS / "README.md").read_text()


def test_the_packed_run_of_cifar10_verifies_and_is_the_row_of_the_table(tmp_path, monkeypatch):
    monkeypatch.delenv("SMOOTHCERT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # as if the data was not here
    pack = RESULTS / "cifar10-catrs-0.50.zip"
    (verdict,) = verify(pack)
    assert verdict.text == "verified: 500 rows recomputed, 0 re-sampled, 0 differ"
    (missing,) = (note for note in verdict.notes if "the data is not here" in note)
    assert "data_dir" in missing
    assert missing.endswith("the test split (test_batch.bin or test_batch) was not found")
    found = read_store(unpack(pack, tmp_path) / "certify" / "test")
    reported = {
        run.made.recipe: value.value
        for run in read_measured([RESULTS / "cifar10.jsonl"])
        for value in run.values
        if value.measure == "ACR"
    }
    assert average_certified_radius(found, rounded=True) == pytest.approx(
        reported["cifar10/catrs-0.50"], abs=5e-5
    )
