import pytest

from tests.training.tiny import tiny, train, write_pseudo


@pytest.fixture(scope="package")
def reference(tmp_path_factory):
    """A finished run of `tiny.CONFIG`; no test may change it."""
    return train(tmp_path_factory.mktemp("runs") / "reference")


@pytest.fixture
def pseudo(tmp_path):
    """The path of a file of pseudo-labelled images like those of `tiny`."""
    return write_pseudo(tmp_path / "pseudo.npz", tiny(size=200, seed=5))
