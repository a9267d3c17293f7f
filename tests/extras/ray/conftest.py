"""A cluster of several Ray nodes on this machine, and what it certifies."""

import pytest

from smoothcert.models import build_model
from tests.extras.ray.clusters import NODE, SETTINGS, table, watched
from tests.results import certify_with


@pytest.fixture(scope="package")
def head():
    """A cluster without a worker; tests add nodes, and take them away again."""
    from smoothcert.certification.ray_cluster import import_ray

    import_ray(alone=True)
    from ray.cluster_utils import Cluster

    try:
        cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
    except Exception as error:  # of Ray's, which needs ports, memory and processes of its own
        pytest.skip(f"Ray cannot start a cluster on this machine: {error}")
    yield cluster
    cluster.shutdown()


@pytest.fixture
def cluster(head):
    """With one node, of one worker; what a test adds goes with it, and what it takes away is replaced for the next."""
    if not head.worker_nodes:
        head.add_node(**NODE)
    (node,) = head.worker_nodes
    yield head
    for added in head.worker_nodes - {node}:
        head.remove_node(added)


@pytest.fixture
def model():
    return build_model("lenet", seed=0)


@pytest.fixture
def data():
    return watched()


@pytest.fixture
def reference(model, data, tmp_path, one_thread):
    return table(certify_with(model, data, tmp_path / "reference", **SETTINGS))
