import pytest

from smoothcert.runs.store import ResultStore
from tests.runs.rows import MANIFEST


@pytest.fixture
def store(tmp_path):
    """An empty one of three inputs."""
    made = ResultStore(tmp_path / "certify" / "test")
    made.claim(MANIFEST)
    return made
