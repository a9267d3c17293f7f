"""`--executor ray`, on clusters of several Ray nodes on this machine. Moments are chosen by what the driver reads next.

All nodes listen to loopback alone, and every wait is for an event.
"""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.certification.certifier import Certifier
from smoothcert.cli import main
from smoothcert.config import CertifyConfig
from smoothcert.data import Dataset, load_dataset
from smoothcert.errors import ConfigError, ModelError, StoreError
from smoothcert.models import build_model
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import COLUMNS, ResultStore
from tests.processes import Child
from tests.results import cells, certify_with

pytestmark = [
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


@pytest.fixture(scope="module")
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
    """With one node, of one worker."""
    head.add_node(**NODE)
    yield head
    for node in list(head.worker_nodes):
        head.remove_node(node)


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


@pytest.fixture
def model():
    return build_model("lenet", seed=0)


@pytest.fixture
def data():
    moments.clear()
    whole = load_dataset("mnist-mini", "test")
    return Watched("mnist-mini", "test", whole.images[:INPUTS], whole.labels[:INPUTS], 10)


@pytest.fixture
def reference(model, data, tmp_path, one_thread):
    return table(certify_with(model, data, tmp_path / "reference", **SETTINGS))


def table(store):
    """idx -> all cells but the time."""
    skip, rows = COLUMNS.index("time"), cells(store)
    found = {int(row[0]): row[:skip] + row[skip + 1 :] for row in rows}
    assert len(found) == len(rows)  # no input twice
    return found


def certify(cluster, model, data, out, **changes):
    return certify_with(model, data, out, executor="ray", address=cluster.address, **{**SETTINGS, **changes})


def test_the_rows_are_those_of_one_process_and_either_resumes_the_other(cluster, model, data, tmp_path, reference):
    cluster.add_node(**NODE)  # two workers
    assert table(certify(cluster, model, data, tmp_path / "ray")) == reference
    some = Selection(max=5)
    certify_with(model, data, tmp_path / "here", selection=some, **SETTINGS)
    assert table(certify(cluster, model, data, tmp_path / "here")) == reference
    certify(cluster, model, data, tmp_path / "there", selection=some)
    assert table(certify_with(model, data, tmp_path / "there", **SETTINGS)) == reference
    checks = (tmp_path / "ray" / "checks.jsonl").read_text()
    assert '"rechecked": 0' not in checks


def test_others_do_what_a_killed_worker_had(cluster, model, data, tmp_path, reference, capsys):
    killed = []

    def kill():
        killed.extend(actors())
        os.kill(killed[0], signal.SIGKILL)

    moments[10] = kill
    assert table(certify(cluster, model, data, tmp_path / "ray", quiet=False)) == reference
    assert len(killed) == 1
    assert "a worker is gone" in capsys.readouterr().err


def test_a_node_may_leave_and_another_one_join(cluster, model, data, tmp_path, reference, capsys):
    def exchange():
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(**NODE)

    moments[10] = exchange
    assert table(certify(cluster, model, data, tmp_path / "ray", quiet=False)) == reference
    assert "a worker is gone" in capsys.readouterr().err


def certify_until(report, address, out):
    """Of a child: it waits for ever before it reads input 10."""
    moments[10] = lambda: (report(actors()), signal.pause())
    whole = load_dataset("mnist-mini", "test")
    data = Watched("mnist-mini", "test", whole.images[:INPUTS], whole.labels[:INPUTS], 10)
    certify_with(build_model("lenet", seed=0), data, out, executor="ray", address=address, **SETTINGS)


def test_workers_end_with_a_killed_driver_and_the_same_command_resumes(cluster, model, data, tmp_path, reference):
    out = tmp_path / "ray"
    child = Child(certify_until, cluster.address, out)
    (worker,) = child.next_report()
    assert child.kill()
    until(lambda: not Path(f"/proc/{worker}").exists())
    before = table(ResultStore(out))
    assert 0 < len(before) < INPUTS
    assert table(certify(cluster, model, data, out)) == reference
    assert before.items() <= reference.items()


class Deadly(nn.Module):
    """Ends its process when it sees an image that is a chessboard but for some noise."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        flat = x.flatten(1)
        if bool(((flat[:, ::2].mean(1) > 0.9) & (flat[:, 1::2].mean(1) < 0.1)).any()):
            os._exit(1)
        return flat[:, :2] * self.scale


def test_an_input_at_which_three_workers_die_ends_the_command(cluster, tmp_path):
    images = np.zeros((8, 1, 4, 4), np.uint8)
    images[5].reshape(-1)[::2] = 255
    data = Dataset("mine", "test", images, np.zeros(8, np.int64), 2)
    with pytest.raises(ModelError, match=r"5.* 3 workers failed"):
        certify(cluster, Deadly(), data, tmp_path, sigma=0.05, kernels="off")
    done = ResultStore(tmp_path).done()
    assert 0 in done
    assert 5 not in done


class Mixing(nn.Module):
    def forward(self, x):
        flat = x.flatten(1)
        return (flat - flat.mean(0))[:, :10]


def test_a_network_that_is_refused_is_refused_before_anything_is_written(cluster, data, tmp_path):
    with pytest.raises(ModelError, match="the other images in its batch"):
        certify(cluster, Mixing(), data, tmp_path / "ray")
    assert not (tmp_path / "ray").exists()


class Scaled(nn.Module):
    """Answers otherwise where the environment of its process says so."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(28 * 28, 10)

    def forward(self, x):
        return self.layer(x.flatten(1)) * float(os.environ.get("SCALE", "1"))


def test_a_worker_that_would_make_other_rows_is_not_used(cluster, data, capsys):
    from smoothcert.certification.ray_workers import RayWorkers

    config = CertifyConfig(sigma=0.5, n0=32, n=200, kernels="off")
    make = functools.partial(Certifier, Scaled(), 10, config, data.image(0), seed=1, alpha=0.001, batch_size=100)

    def read(names):
        return names, [data.image(index) for index in names], [0] * len(names)

    with RayWorkers(make, read, "cpu", cluster.address) as workers:
        cluster.add_node(**NODE, env_vars={"SCALE": "2"})
        said = []

        def refused():
            assert workers.collect() == []
            said.append(capsys.readouterr().err)
            return "a worker is not used" in said[-1]

        until(refused)
        assert "answers probe images differently" in said[-1]
        assert workers.note == "1 worker"
        workers.submit([0])
        workers.submit([1])
        assert not workers.idle  # the other one gets nothing
        made = []
        until(lambda: made.extend(workers.collect()) or len(made) == 2)
        assert [list(group.names) for group in made] == [[0], [1]]


def test_workers_of_another_version_are_refused(cluster, model, data, tmp_path, monkeypatch):
    monkeypatch.setattr("smoothcert.__version__", "0.0.1")
    with pytest.raises(StoreError, match=r"no worker .* and the command 0\.0\.1"):
        certify(cluster, model, data, tmp_path / "ray")
    assert not (tmp_path / "ray").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="the node only says that it has a GPU")
def test_gpus_of_the_cluster_are_taken_where_it_has_any(cluster, model, data, tmp_path):
    cluster.add_node(**NODE, num_gpus=1)
    for device in (None, "cuda"):
        with pytest.raises(StoreError, match=r"no worker .* sees no GPU"):
            certify(cluster, model, data, tmp_path / "ray", device=device)
    assert not (tmp_path / "ray").exists()


def write_network():
    """net.py, which needs parts.py beside it."""
    Path("parts.py").write_text("from torch import nn\ndef layer(n):\n    return nn.Linear(28 * 28, n)\n")
    Path("net.py").write_text(
        "import torch\nfrom torch import nn\nimport parts\n"
        "def flat(x):\n    return x.flatten(1)\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, classes=10):\n        super().__init__()\n        torch.manual_seed(0)\n"
        "        self.layer = parts.layer(classes)\n"
        "    def forward(self, x):\n        return self.layer(flat(x))\n"
    )


NETWORK = ["certify", "--model", "net.py:Net", "--data", "mnist-mini", "--sigma", "0.5", "--device", "cpu"]


def test_code_of_yours_travels_to_the_workers(cluster, tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)
    write_network()
    words = [*NETWORK, "--n", "200", "--max", "6"]
    main([*words, "--out", "here"])
    main([*words, "--out", "there", "--executor", "ray", "--address", cluster.address])
    assert table(ResultStore(Path("here/certify/test"))) == table(ResultStore(Path("there/certify/test")))


def test_places_that_are_not_there_are_named(head, model, data, tmp_path):
    with pytest.raises(ConfigError, match=r"no Ray cluster to join at address 127\.0\.0\.1:1"):
        certify_with(model, data, tmp_path, executor="ray", address="127.0.0.1:1", **SETTINGS)
    with pytest.raises(ConfigError, match="device is auto, cpu or cuda, found cuda:1"):
        certify(head, model, data, tmp_path, device="cuda:1")


def test_a_cluster_of_our_own_listens_to_this_machine_alone_and_ends_with_a_signal(tmp_path, monkeypatch):
    """The command as a user gives it; so many samples that it is at work until it is stopped."""
    monkeypatch.chdir(tmp_path)
    write_network()
    command = [sys.executable, "-m", "smoothcert", *NETWORK, "--n", "1e9", "--out", "run", "--executor", "ray"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: Path("run/certify/test/manifest.json").exists() or process.poll() is not None)
        assert process.poll() is None, process.stderr.read()
        family = {pid: command_of(pid) for pid in descendants(process.pid)}
        assert any("raylet" in name for name in family.values())
        heard = {address for pid in family for address in listening(pid)}
        assert heard
        assert heard <= {"127.0.0.1"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
        assert process.stderr.read() == "interrupted: run the same command to go on\n"
    # Ray's agents, which only watch, end by themselves within a minute
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid, name in family.items() if "agent" not in name.lower()))


def command_of(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def descendants(pid):
    """The process and all that it started, and those started."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def listening(pid):
    """The addresses of this machine at which a process waits for others."""
    inodes = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(entry))
    for table_name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table_name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                yield ".".join(str(byte) for byte in reversed(bytes.fromhex(words[1].partition(":")[0][-8:])))
