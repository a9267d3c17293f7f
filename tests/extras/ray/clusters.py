"""Certification by Ray nodes on this machine, and moments chosen by what the driver reads next.

All nodes listen to loopback alone, and every wait is for an event.
"""

import time
from importlib.util import find_spec

import pytest

from smoothcert.data import Dataset, load_dataset
from smoothcert.runs.rows import COLUMNS
from tests.results import cells, certify_with

MARKS = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of ray and what it imports
]
PATIENCE = 300  # seconds after which something that must happen has not
INPUTS = 24
SETTINGS = {"sigma": 0.5, "n0": 32, "n": 200, "batch_size": 100, "quiet": True, "device": "cpu"}
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}


def until(happened):
    limit = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < limit
        time.sleep(0.05)


def actors():
    """Process ids of the workers of the job that this process drives."""
    import ray

    job = ray.get_runtime_context().get_job_id()
    found = ray._private.state.actors().values()
    return [a["Pid"] for a in found if a["JobID"] == job and a["State"] == "ALIVE" and a["Pid"]]


class Watched(Dataset):
    """Calls a function when the driver reads an input for the first time."""

    def image(self, index):
        if happening := moments.pop(index, None):
            happening()
        return super().image(index)


moments = {}


def watched():
    """The first inputs of mnist-mini; nothing happens yet."""
    moments.clear()
    whole = load_dataset("mnist-mini", "test")
    return Watched("mnist-mini", "test", whole.images[:INPUTS], whole.labels[:INPUTS], 10)


def table(store):
    """idx -> all cells but the time."""
    skip, rows = COLUMNS.index("time"), cells(store)
    found = {int(row[0]): row[:skip] + row[skip + 1 :] for row in rows}
    assert len(found) == len(rows)  # no input twice
    return found


def certify(cluster, model, data, out, **changes):
    return certify_with(
        model, data, out, executor="ray", address=cluster.address, **{**SETTINGS, **changes}
    )
