"""Folders on a server, which is fsspec's in memory here (extras/test_s3.py has a real one), are read by copies."""

import contextlib
import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from smoothcert.errors import ConfigError, MissingExtra, StoreError
from smoothcert.runs.remote import Remote, is_remote, local, shown
from tests.cli.commands import ends, fails, run

RUN = "memory://bucket/runs/gaussian"


@pytest.fixture(autouse=True)
def server(tmp_path, monkeypatch):
    """An empty server, and a machine that has no copies of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    return MemoryFileSystem(skip_instance_cache=True)


def put(server, folder, url):
    """Every file of a folder, hidden ones too, as tools for servers do it."""
    for path in folder.rglob("*"):
        if path.is_file():
            server.pipe_file(f"{url}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def copied(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if _visible(path.name)
    )


def _visible(name):
    return "." in name and not name.startswith(".")


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("s3://bucket/a", True),
        ("memory://a", True),
        ("runs/a", False),
        ("C:\\runs", False),
        ("s3:/bucket/a", False),
    ],
)
def test_an_address_is_told_from_a_path(text, remote):
    assert is_remote(text) == remote
    assert not is_remote(Path(text))


@pytest.mark.parametrize("command", ["status", "verify", "report"])
def test_a_run_on_a_server_reads_as_on_a_disk(command, shared_run, server, tmp_path, capsys):
    folder = shutil.copytree(shared_run, tmp_path / "gaussian")  # verify writes into it
    put(server, folder, RUN)
    assert run(capsys, command, RUN) == run(capsys, command, folder).replace(str(folder), RUN)


def test_json_and_pages_name_the_address(shared_run, server, tmp_path, capsys):
    put(server, shared_run, RUN)
    document = json.loads(run(capsys, "status", RUN, "--json"))
    assert document["runs"][0]["path"] == RUN
    assert document["runs"][0]["stores"][0]["path"] == f"{RUN}/certify/six"
    assert (
        json.loads(run(capsys, "verify", RUN, "--json"))["stores"][0]["name"]
        == f"{RUN}/certify/six"
    )
    run(capsys, "report", RUN, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"smoothcert certify {RUN} --name six" in page
    assert f"smoothcert train {RUN}/config.yaml --out gaussian-again" in page
    assert str(tmp_path / "cache") not in page


def test_all_runs_below_an_address_are_found(shared_run, server, capsys):
    for name in ("seed2", "seed10"):
        put(server, shared_run, f"memory://bucket/runs/{name}")
    found = [
        line for line in run(capsys, "status", "memory://bucket").splitlines() if line[0] != " "
    ]
    assert [line.split(": ")[0] for line in found] == [
        "memory://bucket/runs/seed2",
        "memory://bucket/runs/seed10",
    ]
    table = run(capsys, "report", "memory://bucket/runs")
    assert re.findall(r"^seed\d+", table, re.MULTILINE) == ["seed2", "seed10"]


def test_a_command_fetches_what_it_needs(shared_run, server):
    put(server, shared_run, RUN)
    folder = local(RUN)
    described = ["config.yaml", "environment.jsonl", "metrics.jsonl", "model.json", "timing.jsonl"]
    stored = [
        f"certify/six/{name}" for name in ("checks.jsonl", "manifest.json", "part-0-of-1.tsv")
    ]
    assert [name for name in copied(folder) if "verified" not in name] == sorted(stored + described)
    assert local(RUN, weights=True) == folder
    assert "weights.safetensors" in copied(folder)
    assert "state.pt" not in copied(folder)


def test_of_a_store_comes_the_store_and_what_lies_beside_its_run(server):
    for name in (
        "config.yaml",
        "certify/x/manifest.json",
        "certify/xy/manifest.json",
        "attack/x/manifest.json",
    ):
        server.pipe_file(f"{RUN}/{name}", b"{}")
    store = local(f"{RUN}/certify/x/")
    assert shown(str(store)) == f"{RUN}/certify/x"
    assert copied(store.parent.parent) == ["certify/x/manifest.json", "config.yaml"]


def test_a_copy_follows_the_server_and_is_fetched_once(server):
    server.pipe_file(f"{RUN}/config.yaml", b"1")
    server.pipe_file(f"{RUN}/metrics.jsonl", b"1")
    folder = local(RUN)
    (folder / "config.yaml").write_text("a copy that nobody fetched again")
    server.pipe_file(f"{RUN}/metrics.jsonl", b"2")
    server.pipe_file(f"{RUN}/model.json", b"new")
    local(RUN)
    assert (folder / "config.yaml").read_text() == "a copy that nobody fetched again"
    assert (folder / "metrics.jsonl").read_text() == "2"
    assert (folder / "model.json").read_text() == "new"
    (folder / "verified.json").write_text("of this machine")
    server.rm(f"{RUN}/metrics.jsonl")
    server.rm(f"{RUN}/model.json")
    local(RUN)
    assert copied(folder) == ["config.yaml", "verified.json"]


def test_names_cannot_lead_out_of_the_copy(server, tmp_path):
    for name in (
        "config.yaml",
        "../../../../x.json",
        ".config.yaml.tag",
        ".h/x.json",
        f"{'x' * 250}.json",
    ):
        path = f"{RUN.removeprefix('memory:/')}/{name}"
        server.store[path] = MemoryFile(
            server, path, b"{}"
        )  # as a server takes it that knows no folders
    assert set(Remote(RUN).files()) == {"config.yaml"}
    local(RUN)
    assert [Path(name).name for name in copied(tmp_path)] == ["config.yaml"]


def test_a_bucket_may_have_the_name_of_the_folder_of_stores(server):
    server.pipe_file("memory://certify/test/manifest.json", b"{}")
    assert copied(local("memory://certify/test")) == ["manifest.json"]


def test_a_log_and_a_pack_are_files(shared_run, server, tmp_path, capsys):
    log = "\n".join(["idx\tlabel\tpredict\tradius\tcorrect\ttime", "0\t1\t1\t0.5\t1\t0:00:01", ""])
    server.pipe_file("memory://logs/cohen/noise_0.50.tsv", log.encode())
    assert "100.0" in run(capsys, "report", "memory://logs/cohen/noise_0.50.tsv")
    with contextlib.chdir(tmp_path):
        run(capsys, "pack", shared_run, "--out", "run.zip")
    server.pipe_file("memory://packs/run.zip", (tmp_path / "run.zip").read_bytes())
    assert "memory://packs/run.zip/certify/six: verified" in run(
        capsys, "verify", "memory://packs/run.zip"
    )


def test_what_is_not_there_is_one_error_with_its_address(server, capsys):
    assert fails(capsys, "report", RUN) == (
        f"error: {RUN}: no such folder on the server; see that bucket and path are right\n"
    )
    server.pipe_file(f"{RUN}/picture.png", b"")
    for command in ("report", "status", "verify"):
        status, said = ends(capsys, command, RUN)
        assert status == 2
        assert said.err.startswith(f"error: {RUN}")
    server.pipe_file(f"{RUN}/certify/x/manifest.json", b"{")
    server.pipe_file(f"{RUN}/certify/x/part-0-of-1.tsv", b"")
    assert f"{RUN}/certify/x/manifest.json is damaged" in fails(capsys, "report", RUN)


@pytest.mark.parametrize(
    "address",
    ["s3://", "file:///tmp/x", "https://host/x", "s3://bucket/../x", "s3://key:secret@bucket/x"],
)
def test_other_addresses_are_refused(address):
    with pytest.raises(ConfigError) as refused:
        Remote(address)
    assert "secret@" not in str(refused.value)


def test_a_server_that_nobody_knows_is_an_error_of_ours():
    with pytest.raises(StoreError, match="nobody://x cannot be opened"):
        Remote("nobody://x")


@pytest.mark.skipif(find_spec("gcsfs") is not None, reason="gcsfs is installed")
def test_a_missing_package_is_named():
    with pytest.raises(
        MissingExtra, match=r"gs://bucket needs the package 'gcsfs'.*smoothcert\[gcs\]"
    ):
        Remote("gs://bucket")


@pytest.mark.parametrize(
    "words",
    [
        ("train", "mnist-mini/gaussian-0.50", "--out", RUN),
        ("certify", "--model", "a:b", "--data", "mnist-mini", "--sigma", "1", "--out", RUN),
        ("attack", RUN, "--radius", "1"),
        ("report", RUN, "--html", f"{RUN}.html"),
    ],
)
def test_where_a_path_is_needed_an_address_is_refused(words, capsys, tmp_path):
    with contextlib.chdir(tmp_path):
        assert "expected a path on this machine, found memory://" in fails(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_may_lie_on_a_server(shared_run, server, tmp_path, capsys):
    put(server, shared_run, RUN)
    said = fails(
        capsys, "train", f"{RUN}/config.yaml", "--epochs", "0", "--out", tmp_path / "again"
    )
    assert "epochs" in said
