"""What listens is heard on this machine only."""

from pathlib import Path

import pytest

from tests.faults.commands import kill, start, wait_until

LISTENING = "0A"  # a state of /proc/net/tcp
pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")


def heard_at(process):
    """The addresses at which a process listens: hexadecimal, as /proc/net/tcp and tcp6 have them."""
    own = {
        link.readlink().name
        for link in Path(f"/proc/{process.pid}/fd").iterdir()
        if link.is_symlink()
    }
    sockets = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {
        cells[1].split(":")[0]
        for cells in sockets
        if cells[3] == LISTENING and f"socket:[{cells[9]}]" in own
    }


def test_a_served_report_listens_on_loopback_only(certified, log):
    process = start("report", certified, "--serve")
    wait_until(lambda: heard_at(process), process)
    found = heard_at(process)
    kill(process)
    log("done", "smoothcert report STORE --serve")
    log("found", f"it listens at {found}, which is 127.0.0.1, and nowhere else")
    assert found == {"0100007F"}
