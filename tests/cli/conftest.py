import shutil

import pytest


@pytest.fixture(scope="module")
def certified(shared_run, tmp_path_factory):
    """The tests' trained run with the certificates `six`, as a copy for one file of tests to write into."""
    return shutil.copytree(shared_run, tmp_path_factory.mktemp("runs") / "a")
