"""The page while runs go on: served to browsers on this machine, and made again when files have changed.

It only reads, without locks. What a run writes at the same moment cannot break it: an unfinished last line is passed
over, and what does not fit together is read again as long as files change.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from smoothcert import __version__
from smoothcert.errors import ConfigError, SmoothcertError
from smoothcert.progress import noun
from smoothcert.report.page.page import render_waiting
from smoothcert.runs.find import attack_stores_of, find_results, stores_of
from smoothcert.runs.rows import NoCertificates
from smoothcert.runs.state import RunState, run_states

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
"""What a browser may call this server. Another name that leads here belongs to a page that wants to read along."""

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_TRIES, _PAUSE = 20, 0.05  # to read files that change meanwhile


class LiveReport:
    """The page of some places, made by `render(version)` once for each state of their files."""

    def __init__(self, places: Iterable[str | Path], render: Callable[[str], str]) -> None:
        self._places, self._render = list(map(Path, places)), render
        self._lock = Lock()
        self._page = self._state = ("", "")  # version, text

    def page(self) -> str:
        with self._lock:
            version = _version(self._places)
            if self._page[0] != version:
                self._page = self._rendered(version)
            return self._page[1]

    def state(self) -> str:
        """JSON: the version of the page that is due, whether all is finished, and how far it is in words."""
        with self._lock:
            version = _version(self._places)
            if self._state[0] != version:
                self._state = version, json.dumps({"version": version, **_progress(self._places)})
            return self._state[1]

    def _rendered(self, version: str) -> tuple[str, str]:
        for _ in range(_TRIES):
            try:
                return version, self._render(version)
            except (SmoothcertError, OSError) as error:
                problem = error
            time.sleep(_PAUSE)
            now = _version(self._places)
            if now == version:
                break
            version = now
        return version, render_waiting(
            version, str(problem), waiting=isinstance(problem, NoCertificates)
        )


def _version(places: Sequence[Path]) -> str:
    """A hash of the names, sizes and times of all files that a report reads: it changes when one of them does."""
    digest = sha256()
    try:
        for path in (file for place in places for file in _files(place)):
            try:
                about = path.stat()
            except OSError:  # not there, or not any more
                continue
            seen = f"{path}\0{about.st_ino} {about.st_size} {about.st_mtime_ns}\n"
            digest.update(seen.encode(errors="surrogateescape"))
    except SmoothcertError as error:  # a folder that cannot be searched
        digest.update(str(error).encode())
    return digest.hexdigest()[:16]


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    found = find_results(place) if place.is_dir() else []
    for folder in found or [place]:
        yield from (folder / name for name in ("config.yaml", "model.json", "metrics.jsonl"))
        for store in (folder, *stores_of(folder), *attack_stores_of(folder)):
            yield from (store / name for name in ("manifest.json", "verified.json", "checks.jsonl"))
            yield from sorted(store.glob("part-*.tsv"))


def _progress(places: Sequence[Path]) -> dict[str, Any]:
    runs: list[RunState] = []
    try:
        for place in places:
            runs += [] if place.is_file() else run_states(place)
    except SmoothcertError as error:
        return {"finished": False, "text": str(error)}
    stores = [store for run in runs for store in run.stores]
    done, inputs = (
        sum(getattr(store, name) or 0 for store in stores) for name in ("done", "inputs")
    )
    finished = all(run.finished for run in runs)
    parts = [f"{done:,} of {inputs:,} {noun(inputs, 'input')} certified"] if stores else []
    training = [run for run in runs if run.state == "training"]
    parts += [f"{len(training)} {noun(len(training), 'run')} in training"] if training else []
    parts += [f"{count} damaged" for count in [sum(bool(run.problems) for run in runs)] if count]
    return {"finished": finished, "text": "Finished" if finished else ", ".join(parts)}


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a browser that hangs must not keep the command alive

    def __init__(self, report: LiveReport, port: int) -> None:
        super().__init__((ADDRESS, port), _Handler)
        self.report = report

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = f"smoothcert/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        """The page, its state, and nothing else."""
        report = self.server.report
        known = {"/": ("text/html", report.page), "/state": ("application/json", report.state)}
        if self.headers.get("Host", "").rsplit(":", 1)[0].lower() not in NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, f"ask for http://{ADDRESS}")
        elif self.path not in known:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            kind, make = known[self.path]
            body = make().encode(errors="replace")
            self.send_response(HTTPStatus.OK)
            about = {
                "Content-Type": f"{kind}; charset=utf-8",
                "Content-Length": str(len(body)),
                **HEADERS,
            }
            for name, value in about.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads a line for each look at the state."""


def open_server(report: LiveReport, port: int = 0) -> _Server:
    """Bound to the loopback address, on a free port if it is 0; `serve_forever()` starts it."""
    try:
        return _Server(report, port)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"port {port} of {ADDRESS} cannot be used ({error}): give --port another number from 1 to 65535, or none"
        ) from error


def serve(report: LiveReport, port: int = 0) -> None:
    """Serve until a signal ends the process."""
    with open_server(report, port) as server:
        print(f"serving http://{ADDRESS}:{server.server_port}/ until Ctrl-C", flush=True)
        server.serve_forever()
