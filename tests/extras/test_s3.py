"""Runs and stores on an S3 server, moto's, that listens on a port of this machine. `make test-extras` installs it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from urllib.request import Request, urlopen

import pytest

from smoothcert.errors import StoreError
from smoothcert.runs import remote_store
from smoothcert.runs.remote import Remote, ServerError, local
from smoothcert.runs.remote_store import RemoteStore
from smoothcert.runs.store import ResultStore
from tests.cli.commands import fails, run
from tests.processes import PATIENCE
from tests.results import cells
from tests.runs.test_remote_store import MANIFEST, rows_of, work_on

s3fs = pytest.importorskip("s3fs")
moto_server = pytest.importorskip("moto.server")
pytestmark = pytest.mark.filterwarnings("ignore")  # of moto, botocore and aiohttp about each other

RUN = "s3://bucket/runs/gaussian"
URL = f"{RUN}/certify/test"


@contextlib.contextmanager
def listening(monkeypatch):
    """moto's server in a thread, on a port that the system gives it. What it holds outlives it in this process."""
    served = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    served.start()
    host, port = served.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        yield served
    finally:
        served.stop()
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def server(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "A"))
    with listening(monkeypatch) as served:
        urlopen(Request(f"{os.environ['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST")).close()
        s3fs.S3FileSystem().mkdir("bucket")
        yield served


def put(folder):
    s3fs.S3FileSystem().put(f"{folder}/", f"{RUN}/", recursive=True)


@pytest.mark.usefixtures("server")
def test_a_run_on_a_server_is_reported_and_verified_as_on_a_disk(shared_run, tmp_path, capsys):
    folder = shutil.copytree(shared_run, tmp_path / "gaussian")
    put(folder)
    for words in (["status"], ["report"], ["verify", "--resample", "2"]):
        assert run(capsys, *words, RUN) == run(capsys, *words, folder).replace(str(folder), RUN)
    run(capsys, "report", RUN, "--html", tmp_path / "page.html")
    assert f"{URL.replace('test', 'six')}" in (tmp_path / "page.html").read_text()
    assert "state.pt" not in {path.name for path in (tmp_path / "A").rglob("*")}
    assert RUN in run(capsys, "status", "s3://bucket")


@pytest.mark.usefixtures("server")
def test_a_copy_is_fetched_again_when_the_object_is_another():
    files = s3fs.S3FileSystem()
    files.pipe_file(f"{RUN}/config.yaml", b"1")
    copy = local(RUN) / "config.yaml"
    copy.write_text("not fetched again")
    assert local(RUN) / "config.yaml" == copy
    assert copy.read_text() == "not fetched again"
    files.pipe_file(f"{RUN}/config.yaml", b"2")  # within the same second, and as long
    local(RUN)
    assert copy.read_text() == "2"


BLOCKED = """
import sys, time
from smoothcert.cli import main
from smoothcert.runs import remote_store, store
remote_store.UPLOAD_SECONDS = 0.1
real = store.ResultStore.complete
def complete(self, wanted, selection, executor, **words):
    submit = executor.submit
    def slow(names):
        if names != wanted[:1]:
            time.sleep(1e6)  # so that however fast the machine is, it is killed in the middle
        submit(names)
    executor.submit = slow
    real(self, wanted, selection, executor, **words)
store.ResultStore.complete = complete
main(sys.argv[1:])
"""


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_two_machines_certify_one_is_killed_and_the_other_takes_over(
    shared_run, tmp_path, monkeypatch, capsys, number
):
    put(shared_run)
    words = ["certify", RUN, "--max", "6", "--n", "200"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "killed")}
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED, *words, "--shard", "0/2"], env=environment
    ) as process:
        wait_for_rows("part-0-of-2.tsv", 1, process)
        process.send_signal(number)
    assert process.returncode == -number
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    for shard in ("1/2", "0/2"):
        run(capsys, *words, "--shard", shard)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "third"))
    assert f"{URL}: verified: 6 rows recomputed, 2 re-sampled, 0 differ" in run(
        capsys, "verify", URL, "--resample", "2"
    )
    there, alone = (
        sorted(cells(ResultStore(place))) for place in (local(URL), shared_run / "certify" / "six")
    )
    without_time = [[cell for place, cell in enumerate(row) if place != 5] for row in there]
    assert without_time == [[cell for place, cell in enumerate(row) if place != 5] for row in alone]


def wait_for_rows(part, rows, process):
    there, end = Remote(URL), time.monotonic() + PATIENCE
    while (there.read(part) or b"").count(b"\n") < 1 + rows:
        assert process.poll() is None, "the process ended by itself"
        assert time.monotonic() < end, "nothing was uploaded"
        time.sleep(0.05)


def test_rows_stay_here_when_the_server_goes_and_the_same_command_uploads_them(server, monkeypatch):
    monkeypatch.setattr(remote_store, "UPLOAD_SECONDS", 0.05)
    monkeypatch.setenv(
        "AWS_MAX_ATTEMPTS", "1"
    )  # to reach a server that is gone; each more waits longer
    s3fs.S3FileSystem.clear_instance_cache()
    store = RemoteStore.at(URL)

    def work(now):
        if now == [0]:
            server.stop()
        return rows_of(now)

    with pytest.raises(StoreError, match="the last rows were not uploaded") as stopped:
        work_on(store, [0, 1, 2], work=work)
    assert f"They are safe in {store.folder}" in str(stopped.value)
    assert store.done() == {0, 1, 2}
    with listening(monkeypatch):
        assert (Remote(URL).read("part-0-of-1.tsv") or b"").count(b"\n") <= 1
        work_on(RemoteStore.at(URL), [0, 1, 2])
        assert (
            Remote(URL).read("part-0-of-1.tsv") == (store.folder / "part-0-of-1.tsv").read_bytes()
        )


@pytest.mark.usefixtures("server")
def test_the_first_manifest_stays():
    there = Remote(URL)
    there.write("manifest.json", b"1", new=True)
    with pytest.raises(FileExistsError):
        there.write("manifest.json", b"2", new=True)
    assert there.read("manifest.json") == b"1"


@pytest.mark.usefixtures("server")
def test_a_wrong_bucket_and_missing_credentials_are_errors_in_words(monkeypatch, capsys):
    assert "error: s3://nobody/runs: no such folder on the server" in fails(
        capsys, "report", "s3://nobody/runs"
    )
    with pytest.raises(ServerError, match="cannot be written"):
        RemoteStore.at("s3://nobody/certify/test").claim(MANIFEST)
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    said = fails(capsys, "report", RUN)
    assert "credentials which other programs use" in said
    assert said.count("\n") == 1
