import errno
import os
import pty
import socket
import sys
from hashlib import sha256

import pytest

from smoothcert.data.download import fetch, unpack
from smoothcert.errors import DataError

from .web import BODY, FILE, Silent, Torn, archive, serve


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def live(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / FILE.name).write_bytes(BODY)
    with serve(tmp_path / "site") as url:
        yield url


@pytest.fixture
def dead():
    with (
        socket.socket() as mute
    ):  # it has the port, so that nobody else takes it, and does not listen
        mute.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{mute.getsockname()[1]}"


def test_a_good_file_arrives_and_progress_is_told(tmp_path, live):
    told = []
    path = fetch(
        FILE,
        tmp_path / "new" / "data",
        [live],
        progress=lambda done, total: told.append((done, total)),
    )
    assert path == tmp_path / "new" / "data" / FILE.name
    assert path.read_bytes() == BODY
    assert told[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert os.listdir(path.parent) == [FILE.name]


def test_a_file_put_there_by_hand_is_taken_and_a_wrong_one_replaced(tmp_path, live, dead):
    target = tmp_path / "data" / FILE.name
    target.parent.mkdir()
    target.write_bytes(BODY)
    assert fetch(FILE, target.parent, [dead]) == target
    target.write_bytes(BODY[:-1])
    assert fetch(FILE, target.parent, [dead, live]).read_bytes() == BODY


def refused(tmp_path, *mirrors, timeout=30.0):
    folder = tmp_path / "data"
    with pytest.raises(DataError) as caught:
        fetch(FILE, folder, mirrors, timeout=timeout)
    assert os.listdir(folder) == []
    assert str(folder / FILE.name) in str(caught.value)
    assert FILE.sha256 in str(caught.value)
    return str(caught.value)


def test_all_mirrors_dead_names_each_and_where_to_put_the_file(tmp_path, dead):
    message = refused(tmp_path, dead, "http://host.invalid/mnist/")
    assert f"{dead}/{FILE.name}" in message
    assert "Connection refused" in message
    assert f"http://host.invalid/mnist/{FILE.name}: " in message
    assert "tried no mirror" in refused(tmp_path)


def test_a_missing_file_a_wrong_one_and_a_torn_one_are_told_apart(tmp_path, live):
    (tmp_path / "site" / "other").mkdir()
    (tmp_path / "site" / "other" / FILE.name).write_bytes(b"something else")
    with serve(tmp_path, Torn) as torn:
        message = refused(tmp_path, live + "nowhere", live + "other/", torn)
    assert f"nowhere/{FILE.name}: HTTP 404 File not found" in message
    assert (
        f"expected sha256 {FILE.sha256}, found {sha256(b'something else').hexdigest()} (14 bytes)"
        in message
    )
    assert f"expected {len(BODY)} bytes, found {len(BODY) // 2}" in message


def test_a_silent_server_is_given_up(tmp_path):
    with serve(tmp_path, Silent) as silent:
        assert "timed out" in refused(tmp_path, silent, timeout=0.2)


def test_after_bad_mirrors_a_good_one_is_used(tmp_path, live, dead):
    with serve(tmp_path, Torn) as torn:
        path = fetch(FILE, tmp_path / "data", [dead, live + "nowhere", torn, live])
    assert path.read_bytes() == BODY
    assert os.listdir(path.parent) == [FILE.name]


def test_an_interrupted_download_leaves_nothing(tmp_path, live):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(FILE, tmp_path / "data", [live], progress=interrupt)
    assert os.listdir(tmp_path / "data") == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, live):
    (tmp_path / "file").touch()
    with pytest.raises(
        DataError, match=rf"cannot write .*digits.gz: {os.strerror(errno.EEXIST)}.*SMOOTHCERT_DATA"
    ):
        fetch(FILE, tmp_path / "file", [live])
    if os.path.isdir("/proc/self"):  # read-only even for root
        with pytest.raises(DataError, match=r"cannot write /proc/self/digits.gz"):
            fetch(FILE, type(tmp_path)("/proc/self"), [live])


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_refused(tmp_path, live):
    (tmp_path / "data").mkdir(mode=0o500)
    with pytest.raises(DataError, match=os.strerror(errno.EACCES)):
        fetch(FILE, tmp_path / "data", [live])


def test_a_terminal_sees_a_bar(tmp_path, live, monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        fetch(FILE, tmp_path / "data", [live])
        shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert FILE.name in shown


def test_an_archive_is_unpacked_flat_over_what_was_there(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"old")
    path = archive(tmp_path / "x.tar.gz", ("deep/er/a.bin", b"new"), ("deep/b.bin", b"b"))
    unpack(path, tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "b.bin", "x.tar.gz"]


@pytest.mark.parametrize("name", ["../evil.bin", "/etc/../../evil.bin", "ok/../../../evil.bin"])
def test_an_archive_that_leaves_its_folder_is_refused(tmp_path, name):
    (tmp_path / "in").mkdir()
    path = archive(tmp_path / "in" / "x.tar.gz", ("a.bin", b"a"), (name, b"evil"))
    with pytest.raises(DataError, match=r"x.tar.gz: expected a tar archive .*outside"):
        unpack(path, tmp_path / "in")
    assert os.listdir(tmp_path / "in") == ["x.tar.gz"]
    assert not list(tmp_path.rglob("evil.bin"))


@pytest.mark.parametrize("data", [b"not a tar", b""])
def test_a_damaged_archive_is_refused(tmp_path, data):
    (tmp_path / "x.tar.gz").write_bytes(data)
    with pytest.raises(DataError, match=r"x.tar.gz: expected a tar archive"):
        unpack(tmp_path / "x.tar.gz", tmp_path)
    whole = archive(tmp_path / "y.tar.gz", ("a.bin", os.urandom(10000))).read_bytes()
    (tmp_path / "y.tar.gz").write_bytes(whole[:5000])
    with pytest.raises(DataError, match=r"y.tar.gz: expected a tar archive"):
        unpack(tmp_path / "y.tar.gz", tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["x.tar.gz", "y.tar.gz"]
