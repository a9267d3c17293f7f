"""Stores on a server that several machines add rows to; a machine is a cache folder here, the server is in memory."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothcert.errors import ConfigError, StoreError
from smoothcert.runs import remote_store
from smoothcert.runs.chain import edited_rows
from smoothcert.runs.executor import Here
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.remote import Remote, local
from smoothcert.runs.remote_store import RemoteStore, upload
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore
from tests.cli.commands import fails, run
from tests.processes import PATIENCE
from tests.runs.rows import MANIFEST, row
from tests.runs.test_remote import put, server  # noqa: F401

pytestmark = pytest.mark.usefixtures("server")
URL = "memory://bucket/runs/a/certify/test"
WORDS = {"what": "certify", "unit": "images", "note": "", "quiet": True}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The store as a machine of that name sees it: machine("A")."""

    def on(name):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return RemoteStore.at(URL)

    return on


def rows_of(now):
    return [row(index) for index in now]


def work_on(store, wanted, shard=0, shards=1, work=rows_of, manifest=MANIFEST):
    store.claim(manifest)
    store.complete(wanted, Selection(shard=shard, shards=shards), Here(work), **WORDS)


def unsent(store, wanted):
    """Rows of a process that was killed before it uploaded them."""
    ResultStore(store.folder).complete(wanted, Selection(), Here(rows_of), **WORDS)


def on_server():
    """The lines of every part, without headers."""
    there = Remote(URL)
    return {
        name: there.read(name).splitlines()[1:] for name in there.files() if name.startswith("part")
    }


def inputs_on_server():
    return sorted(int(line.split(b"\t")[0]) for lines in on_server().values() for line in lines)


def test_two_machines_make_one_store(machine):
    work_on(machine("A"), [0, 2], 0, 2)
    work_on(machine("B"), [1], 1, 2)
    assert sorted(on_server()) == ["part-0-of-2.tsv", "part-1-of-2.tsv"]
    assert inputs_on_server() == [0, 1, 2]
    machine("C")
    copy = ResultStore(local(URL))
    assert copy.manifest() == MANIFEST
    assert copy.done() == {0, 1, 2}
    assert not any(list(edited_rows(part, MANIFEST)) for part in copy.parts())


def test_what_others_have_uploaded_is_done(machine):
    work_on(machine("A"), [0, 1], 0, 2)
    asked = []

    def work(now):
        asked.extend(now)
        return rows_of(now)

    work_on(machine("B"), [0, 1, 2], 0, 1, work)
    assert asked == [2]


def test_another_machine_goes_on_with_a_part_and_the_first_may_come_back(machine):
    work_on(machine("A"), [0])
    unsent(machine("A"), [0, 1])
    work_on(machine("B"), [0, 1, 2])
    before = on_server()
    work_on(machine("A"), [0, 1, 2])  # what it had beside the server's rows, the server has by now
    assert on_server() == before
    assert inputs_on_server() == [0, 1, 2]
    assert machine("A").done() == {0, 1, 2}


def test_rows_that_a_killed_process_had_not_uploaded_are_uploaded_by_the_next(machine):
    work_on(machine("A"), [0])
    unsent(machine("A"), [0, 1])
    assert inputs_on_server() == [0]
    work_on(machine("A"), [2], 1, 2)  # also one that writes another part
    assert inputs_on_server() == [0, 1, 2]


def test_a_torn_line_is_not_uploaded(machine):
    store = machine("A")
    work_on(store, [0])
    with (store.folder / "part-0-of-1.tsv").open("ab") as part:
        part.write(b"1\t7")
    upload(Remote(URL), store.folder / "part-0-of-1.tsv")
    assert inputs_on_server() == [0]
    work_on(store, [0, 1])
    assert inputs_on_server() == [0, 1]


def test_of_two_machines_on_one_part_the_second_stops_and_nothing_is_lost(machine, monkeypatch):
    monkeypatch.setattr(remote_store, "UPLOAD_SECONDS", 0.01)
    first, second, seen, real = machine("A"), machine("B"), threading.Event(), remote_store.conflict

    def conflict(url, part):
        seen.set()
        return real(url, part)

    def work(now):
        if now == [0]:
            work_on(second, [1])
        else:
            assert seen.wait(PATIENCE), (
                "the thread that uploads has not seen what the other machine did"
            )
        return rows_of(now)

    monkeypatch.setattr(remote_store, "conflict", conflict)
    with pytest.raises(StoreError, match="another machine works on the same shard") as stopped:
        work_on(first, [0, 1, 2], work=work)
    assert f"{URL}/part-0-of-1.tsv" in str(stopped.value)
    assert str(first.folder / "part-0-of-1.tsv") in str(stopped.value)
    assert inputs_on_server() == [1]
    assert 0 in first.done()
    with pytest.raises(StoreError, match="another machine works on the same shard"):
        first.claim(MANIFEST)
    assert inputs_on_server() == [1]


def test_rows_are_uploaded_while_others_are_made(machine, monkeypatch):
    monkeypatch.setattr(remote_store, "UPLOAD_SECONDS", 0.01)
    uploaded, real = threading.Event(), Remote.write

    def write(self, name, content, **how):
        real(self, name, content, **how)
        if content.count(b"\n") > 1 and name.startswith("part"):
            uploaded.set()

    def work(now):
        assert now == [0] or uploaded.wait(PATIENCE), "nothing was uploaded"
        return rows_of(now)

    monkeypatch.setattr(Remote, "write", write)
    work_on(machine("A"), [0, 1, 2], work=work)
    assert inputs_on_server() == [0, 1, 2]


def test_an_error_of_the_network_uploads_what_was_done_and_stays_the_error(machine):
    def work(now):
        if now != [0]:
            raise StoreError("the network answers otherwise now")
        return rows_of(now)

    with pytest.raises(StoreError, match="answers otherwise"):
        work_on(machine("A"), [0, 1, 2], work=work)
    assert inputs_on_server() == [0]


def test_a_store_of_other_settings_is_refused_and_stays(machine):
    work_on(machine("A"), [0])
    before = Remote(URL).read("manifest.json"), on_server()
    other = Manifest({**MANIFEST.identity, "n": 2000}, 3, {})
    for name in ("A", "B"):
        with pytest.raises(
            StoreError,
            match=f"^{URL} holds results of another procedure .*n: 1000 there, 2000 asked",
        ):
            machine(name).claim(other)
    assert (Remote(URL).read("manifest.json"), on_server()) == before


def test_rows_here_are_not_mixed_with_a_store_that_was_made_anew(machine, server):  # noqa: F811
    work_on(machine("A"), [0])
    server.rm("/bucket", recursive=True)
    other = Manifest({**MANIFEST.identity, "n": 2000}, 3, {})
    machine("B").claim(other)
    with pytest.raises(
        StoreError, match=r"is another store now than the one that .* was begun for"
    ):
        machine("A").claim(other)
    assert on_server() == {}


def test_more_inputs_may_be_asked_for(machine):
    work_on(machine("A"), [0])
    grown = Manifest({**MANIFEST.identity, "max": 9}, 9, {})
    work_on(machine("B"), [0, 8], manifest=grown)
    machine("C")
    assert ResultStore(local(URL)).manifest().inputs == 9
    machine("A").claim(grown)
    assert machine("A").done() == {0, 8}


def test_of_two_machines_that_start_together_the_first_manifest_stays(machine, monkeypatch):
    real, others = RemoteStore._bring, []

    def bring(self, there):
        found = real(self, there)
        if not others:
            others.append("B")
            theirs = machine("B")
            theirs.claim(Manifest(MANIFEST.identity, 3, {"host": "B"}))
        return found

    monkeypatch.setattr(RemoteStore, "_bring", bring)
    first = machine("A")
    first.claim(Manifest(MANIFEST.identity, 3, {"host": "A"}))
    assert first.manifest().environment == {"host": "B"}
    assert b'"B"' in Remote(URL).read("manifest.json")


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 3), st.booleans()), max_size=12))
def test_a_part_on_the_server_only_grows(tmp_path_factory, steps):
    """Two machines append to a part of the same name and upload it in any order."""
    there = Remote(f"memory://bucket/{tmp_path_factory.mktemp('steps').name}")
    parts = {name: tmp_path_factory.mktemp(name) / "part-0-of-1.tsv" for name in "AB"}
    for path in parts.values():
        path.write_text("idx\n")
    for name, count, uploaded in steps:
        with parts[name].open("a") as part:
            part.write(f"{name}\n" * count)
        before, ours = there.read("part-0-of-1.tsv") or b"", parts[name].read_bytes()
        if uploaded:
            try:
                upload(there, parts[name])
            except StoreError:
                assert not ours.startswith(before)
                assert there.read("part-0-of-1.tsv") == before
                continue
        now = there.read("part-0-of-1.tsv") or b""
        assert now.startswith(before)
        assert now in (before, ours)
        assert not uploaded or now.startswith(ours)


def test_certify_reads_and_writes_there(shared_run, server, tmp_path, monkeypatch, capsys):  # noqa: F811
    url = "memory://bucket/runs/gaussian"
    put(server, shared_run, url)
    six = ("certify", url, "--max", "6", "--n", "200")
    for shard in ("0/2", "1/2"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / shard[0]))
        table = run(capsys, *six, "--name", "two", "--shard", shard)
    assert table == run(capsys, "report", url + "/certify/six").replace("six", "two")
    assert f"{url}/certify/two: verified: 6 rows" in run(capsys, "verify", url + "/certify/two")
    assert "holds results of another procedure" in fails(capsys, *six[:-1], "300", "--name", "two")
    assert "give --shard i/N" in fails(capsys, *six, "--name", "two", "--shard", "auto")
    assert "--out is of a network that --model names" in fails(
        capsys, "certify", url, "--out", tmp_path / "x"
    )
    assert "mnist-c was not found" in fails(capsys, *six, "--data", "mnist-c:fog")


def test_a_process_without_a_shard_is_refused(machine):
    """Its part would have another name than the one that is uploaded."""
    store = machine("A")
    store.claim(MANIFEST)
    with pytest.raises(ConfigError, match="give a shard"):
        store.complete([0], Selection(shard=None), Here(rows_of), **WORDS)
    assert not store.part_paths()
