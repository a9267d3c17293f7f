"""The command with a network of your own: its code travels, and a cluster of its own ends with it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from smoothcert.cli import main
from smoothcert.runs.store import ResultStore
from tests.extras.ray.clusters import MARKS, PATIENCE, table, until

pytestmark = MARKS


def write_network():
    """net.py, which needs parts.py beside it."""
    Path("parts.py").write_text(
        "from torch import nn\ndef layer(n):\n    return nn.Linear(28 * 28, n)\n"
    )
    Path("net.py").write_text(
        "import torch\nfrom torch import nn\nimport parts\n"
        "def flat(x):\n    return x.flatten(1)\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, classes=10):\n        super().__init__()\n        torch.manual_seed(0)\n"
        "        self.layer = parts.layer(classes)\n"
        "    def forward(self, x):\n        return self.layer(flat(x))\n"
    )


NETWORK = [
    "certify",
    "--model",
    "net.py:Net",
    "--data",
    "mnist-mini",
    "--sigma",
    "0.5",
    "--device",
    "cpu",
]


def test_code_of_yours_travels_to_the_workers(cluster, tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)
    write_network()
    words = [*NETWORK, "--n", "200", "--max", "6"]
    main([*words, "--out", "here"])
    main([*words, "--out", "there", "--ray", cluster.address])
    assert table(ResultStore(Path("here/certify/test"))) == table(
        ResultStore(Path("there/certify/test"))
    )


def test_a_cluster_of_our_own_listens_to_this_machine_alone_and_ends_with_a_signal(
    tmp_path, monkeypatch
):
    """The command as a user gives it; so many samples that it is at work until it is stopped."""
    monkeypatch.chdir(tmp_path)
    write_network()
    command = [
        sys.executable,
        "-m",
        "smoothcert",
        *NETWORK,
        "--n",
        "1e9",
        "--out",
        "run",
        "--ray",
    ]
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
    until(
        lambda: (
            not any(
                Path(f"/proc/{pid}").exists()
                for pid, name in family.items()
                if "agent" not in name.lower()
            )
        )
    )


def command_of(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def descendants(pid):
    """The process and all that it started, and those started."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(place.name)] = int(
                (place / "stat").read_text().rpartition(")")[2].split()[1]
            )
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
                yield ".".join(
                    str(byte) for byte in reversed(bytes.fromhex(words[1].partition(":")[0][-8:]))
                )
