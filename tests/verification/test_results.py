"""The run that is packed in results/: whoever clones the project can check its 10,000 certificates."""

from pathlib import Path

import pytest

from smoothcert.report import average_certified_radius, read_store
from smoothcert.verification.unpack import unpack
from smoothcert.verification.verify import verify

PACK = Path(__file__).parents[2] / "results" / "mnist-gaussian-0.50.zip"


def test_the_packed_run_verifies_and_has_the_radius_that_is_reported(tmp_path):
    (verdict,) = verify(PACK)
    assert verdict.text == "verified: 10,000 rows recomputed, 0 re-sampled, 0 differ"
    assert not any("chosen by hand" in note for note in verdict.notes)
    found = read_store(unpack(PACK, tmp_path) / "certify" / "test")
    assert average_certified_radius(found, rounded=True) == pytest.approx(1.5601, abs=5e-5)
    assert "Its ACR is 1.5601." in PACK.with_name("README.md").read_text()
