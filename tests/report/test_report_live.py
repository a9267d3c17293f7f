"""The page while a store grows: a real server on this machine, asked over HTTP."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from smoothcert.errors import ConfigError, StoreError
from smoothcert.report import read_results
from smoothcert.report.page.live import LiveReport, open_server
from smoothcert.report.page.page import render_page
from smoothcert.report.report import Report
from tests.processes import PATIENCE
from tests.report.attack_stores import write_attacks

ROWS = [(0, 1, 1, 0.5), (1, 2, 2, 0.6), (2, 3, -1, 0.0), (3, 1, 1, 0.7)]


def report_of(*places):
    def page(version):
        return render_page(Report(read_results(*places)), "Title", version)

    return LiveReport(places, page)


@contextmanager
def served(report):
    with open_server(report) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def ask(port, path="/", method="GET", host=None):
    """Status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


def state(port):
    return json.loads(ask(port, "/state")[2])


def version_of(page):
    (version,) = re.findall(r'data-version="(\w+)"', page)
    return version


def shown(page):
    """How many inputs the page counts, in its main table; 0 while it waits for the first."""
    if "There is nothing to report yet." in page:
        return 0
    assert "The report cannot be made." not in page
    found = re.search(r"<td>(\d)(?: of 4)?</td><td>1000</td><td>0.001</td>", page)
    assert found is not None
    return int(found[1])


def test_a_store_that_grows_byte_by_byte_is_always_shown_whole(write_store):
    """Never an error, never a row that is not finished, never fewer rows than before."""
    store = write_store(ROWS)
    part = store / "part-0-of-1.tsv"
    content = part.read_bytes()
    part.write_bytes(b"")
    with served(report_of(store.parent.parent)) as port:
        assert not state(port)["finished"]
        page = ask(port)[2]
        seen, versions = [shown(page)], [version_of(page)]

        def grow():
            with part.open("ab", buffering=0) as file:
                for start in range(0, len(content), 7):
                    file.write(content[start : start + 7])
                    time.sleep(0.004)

        writer = threading.Thread(target=grow)
        writer.start()
        while seen[-1] < 4:
            going = writer.is_alive()
            now = state(port)
            if now["version"] != versions[-1]:
                status, _, page = ask(port)
                assert status == 200
                seen.append(shown(page))
                versions.append(version_of(page))
            assert going or now["finished"]
        writer.join()
        last = state(port)
        assert (last["finished"], last["version"]) == (True, version_of(ask(port)[2]))
    assert seen[0] == 0
    assert seen == sorted(seen)
    assert len(versions) == len(set(versions))


def test_the_page_is_made_again_only_when_files_have_changed(write_store):
    store, made = write_store(ROWS[:2]), []
    report = LiveReport([store], lambda version: made.append(version) or "page")
    for _ in range(3):
        report.page()
        report.state()
    assert len(made) == 1
    (store / ".store.lock").touch()  # says nothing about results
    report.page()
    assert len(made) == 1
    (store / "verified.json").write_text("{}")
    report.page()
    assert len(made) == len(set(made)) == 2


def test_the_page_follows_attacks(write_store, tmp_path):
    made = []
    write_store(ROWS, name="test")
    report = LiveReport([tmp_path / "run"], lambda version: made.append(version) or "page")
    report.page()
    write_attacks(tmp_path / "run" / "attack" / "pgd", {(0, 0.5): 1})
    report.page()
    assert len(made) == len(set(made)) == 2


def test_new_runs_appear_and_damage_is_told_until_it_is_repaired(write_store, tmp_path):
    first = write_store(ROWS, run="runs/a")
    with served(report_of(tmp_path / "runs")) as port:
        assert state(port)["text"] == "Finished"
        before = ask(port)[2]
        second = write_store(ROWS[:1], run="runs/b")
        assert state(port)["text"] == "5 of 8 inputs certified"
        page = ask(port)[2]
        assert version_of(page) == state(port)["version"] != version_of(before)
        assert ('title="b"' in before, 'title="b"' in page) == (False, True)
        whole = (second / "part-0-of-1.tsv").read_text()
        (second / "part-0-of-1.tsv").write_text(whole.replace("\t1\t0:00", "\t0\t0:00", 1))
        page = ask(port)[2]
        assert "The report cannot be made." in page
        assert "part-0-of-1.tsv, line 2" in page
        (second / "part-0-of-1.tsv").write_text(whole)
        assert 'title="b"' in ask(port)[2]
        (first / "manifest.json").unlink()
        assert state(port)["text"].endswith(", 1 damaged")


def test_what_does_not_fit_together_is_read_again_while_files_change(tmp_path):
    """As when a larger --max is written between the reading of the manifest and of the rows."""
    log, tries = tmp_path / "log.tsv", []
    log.write_text("a")

    def render(version):
        tries.append(version)
        if len(tries) < 4:
            log.write_text("a" * (1 + len(tries)))
            raise StoreError("the manifest has no such input")
        return f"made of {version}"

    report = LiveReport([log], render)
    assert report.page() == f"made of {tries[-1]}"
    assert len(set(tries)) == 4
    assert json.loads(report.state())["version"] == tries[-1]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({}, 200),
        ({"path": "/state"}, 200),
        ({"host": "localhost:1"}, 200),  # as seen through a tunnel
        ({"host": "127.0.0.1"}, 200),
        ({"host": "evil.example:80"}, 403),  # a name of others that leads here
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": ""}, 403),
        ({"path": "/state", "host": "evil.example"}, 403),
        ({"path": "/manifest.json"}, 404),
        ({"path": "/../../etc/passwd"}, 404),
        ({"path": "//etc"}, 404),
        ({"path": "/%2e%2e/"}, 404),
        ({"method": "POST"}, 501),
        ({"method": "PUT", "path": "/state"}, 501),
        ({"method": "DELETE"}, 501),
    ],
)
def test_nothing_but_the_page_is_served_and_to_nobody_else(harmless, request_, status):
    found, headers, body = ask(harmless, **request_)
    assert found == status
    assert ("the page" in body) == (status == 200 and request_.get("path", "/") == "/")
    if status == 200:
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Frame-Options"] == "DENY"
        assert "Access-Control-Allow-Origin" not in headers
    head, its_headers, nothing = ask(harmless, **request_ | {"method": "HEAD"})
    if request_.get("method") is None:
        assert (head, nothing) == (status, "")
        assert its_headers["Content-Length"] == headers["Content-Length"]


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    place = tmp_path_factory.mktemp("served")
    with served(LiveReport([place], lambda version: "the page")) as port:
        yield port


def test_a_port_in_use_is_named(harmless, tmp_path):
    for port in (harmless, 70_000, -1):
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 cannot be used"):
            open_server(LiveReport([tmp_path], str), port)


def test_the_page_of_a_file_asks_nobody(make, tmp_path, write_store):
    results = [make([0.5])]
    file, live = (render_page(Report(results), "T", version) for version in (None, "7"))
    assert "connect-src" not in file
    assert "fetch(" not in file
    assert "connect-src 'self'" in live


def test_the_command_serves_until_it_is_interrupted(write_store):
    store = write_store(ROWS)
    words = [sys.executable, "-m", "smoothcert", "report", str(store.parent.parent), "--serve"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = next(line for line in process.stdout if line.startswith("serving "))
        port = int(re.fullmatch(r"serving http://127\.0\.0\.1:(\d+)/ until Ctrl-C\n", address)[1])
        try:
            assert shown(ask(port)[2]) == 4
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()  # or a failure would wait for ever
        assert process.stderr.read() == "interrupted\n"
