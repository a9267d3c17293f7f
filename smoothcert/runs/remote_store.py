"""A store on a server that this machine adds rows to: a folder here, whose files are uploaded whole.

Rows go into the part of this process as they always do, so that it may be killed at any moment. Beside it, a thread
uploads the part every minute, and the end of the work uploads it once more. A server has no locks: a part there is
replaced only by one that begins with all of its rows.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from smoothcert.errors import ConfigError, StoreError
from smoothcert.files import atomic_write
from smoothcert.interrupts import before_leaving
from smoothcert.runs.claims import store_lock
from smoothcert.runs.executor import Executor, Made
from smoothcert.runs.identity import require_same, written_out
from smoothcert.runs.locks import is_held, locked
from smoothcert.runs.manifest import Manifest, read_manifest
from smoothcert.runs.remote import Remote, ServerError, work_folder
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import Key, ResultStore, part_lock

UPLOAD_SECONDS = 60.0
LONGEST_PAUSE = 900.0  # between two tries, where the server does not answer
LAST_SECONDS = 15.0  # that an upload may take after Ctrl-C
# at the end, before it is said what is waited for, and in all
TOLD_SECONDS, END_SECONDS = 10.0, 300.0
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class RemoteStore(ResultStore):
    """The store at `url`, written in `folder`."""

    url: str = ""

    @classmethod
    def at(cls, url: str) -> Self:
        store = cls(work_folder(url), url=Remote(url).url)
        run, in_run, _ = store.url.rpartition("/certify/")
        if in_run and (described := Remote(run).read("model.json")) is not None:
            with atomic_write(store.folder.parent.parent / "model.json") as file:
                file.write(described)
        return store

    def claim(
        self, manifest: Manifest, check: Callable[[Path], object] = lambda folder: None
    ) -> None:
        """As of any store, but the server decides whose it is, and which rows are done."""
        server = Remote(self.url)
        there, behind = self._bring(server)
        try:
            super().claim(manifest, check)
        except StoreError as error:
            raise StoreError(str(error).replace(str(self.folder), self.url)) from error
        ours = (self.folder / _MANIFEST).read_bytes()
        if ours != there:
            try:
                server.write(_MANIFEST, ours, new=there is None)
            except FileExistsError:  # another machine was first, and its manifest stays
                self.claim(manifest, check)
                return
        for path in behind:
            with locked(store_lock(self.folder), None):  # nobody opens a part meanwhile
                if not is_held(part_lock(path)):
                    upload(server, path)

    def _bring(self, server: Remote) -> tuple[bytes | None, list[Path]]:
        """Fetch the manifest and the rows that are not here yet.

        Returns the manifest, and the parts that a process which was killed here did not upload to the end.
        """
        there = server.read(_MANIFEST)
        if there is not None:
            self._adopt(there)
        names = {name for name in server.files() if fnmatch(name, "part-*.tsv") and "/" not in name}
        behind = []
        for path in sorted({self.folder / name for name in names} | set(self.part_paths())):
            content = whole_lines(server.read(path.name) or b"")
            with locked(store_lock(self.folder), None):  # nobody opens a part meanwhile
                here = whole_lines(path.read_bytes() if path.exists() else b"")
                if here == content or is_held(part_lock(path)):
                    continue
                if here.startswith(content):
                    behind.append(path)
                elif inputs_of(here) <= inputs_of(
                    content
                ):  # another machine went on with it: nothing is lost
                    with atomic_write(path) as file:
                        file.write(content)
                else:
                    raise conflict(self.url, path)
        return there, behind

    def _adopt(self, content: bytes) -> None:
        """Take the manifest of the server, if the rows that are here belong to it too."""
        path, new = self.folder / _MANIFEST, self.folder / ".manifest.json"
        with locked(store_lock(self.folder), None):
            with atomic_write(new) as file:
                file.write(content)
            try:
                identity = read_manifest(new).identity
            except StoreError as error:
                raise StoreError(str(error).replace(str(new), f"{self.url}/{_MANIFEST}")) from error
            if path.exists():
                require_same(
                    written_out(identity),
                    written_out(self.manifest().identity),
                    holds=f"{self.url} is another store now than the one that {self.folder} was begun for",
                    advice=f"move {self.folder} away, or choose another name",
                )
            new.replace(path)

    def complete(
        self, wanted: Sequence[Key], selection: Selection, executor: Executor, **words: Any
    ) -> None:
        if selection.shard is None:
            raise ConfigError(
                "a server cannot say what others have taken: give a shard, such as shard=0, shards=2"
            )
        own = self.folder / f"part-{selection.shard}-of-{selection.shards}.tsv"
        with Uploads(Remote(self.url), own) as uploads, before_leaving(uploads.last_words):
            super().complete(wanted, selection, Watched(executor, uploads.check), **words)


class Watched(Executor):
    """An executor that takes no further group when `check` raises an error."""

    def __init__(self, inner: Executor, check: Callable[[], None]) -> None:
        self._inner, self._check = inner, check

    @property
    def note(self) -> str:
        return self._inner.note

    @property
    def idle(self) -> bool:
        return self._inner.idle

    def submit(self, names: Sequence[Any]) -> None:
        self._check()
        self._inner.submit(names)

    def collect(self) -> Sequence[Made]:
        return self._inner.collect()

    def next_group(self, made: Made, claiming: float = 0.0) -> int:
        return self._inner.next_group(made, claiming)


class Uploads:
    """Within a with block, a part is uploaded every minute by a thread, and at the end."""

    def __init__(self, server: Remote, part: Path) -> None:
        self._server, self._part = server, part
        self._done, self._refused = threading.Event(), threading.Event()
        self._problem: StoreError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        pause = UPLOAD_SECONDS
        while True:
            last = self._done.wait(pause)
            try:
                upload(self._server, self._part)
                self._problem, pause = None, UPLOAD_SECONDS
            except ServerError as error:
                if self._problem is None and not last:
                    print(
                        f"note: {error}. It is tried again; the rows are safe here", file=sys.stderr
                    )
                self._problem, pause = error, min(2 * pause, LONGEST_PAUSE)
            except Exception as error:  # whatever it is, rows must not seem to be uploaded
                self._problem = (
                    error
                    if isinstance(error, StoreError)
                    else StoreError(f"{self._part}: {error!r}")
                )
                self._refused.set()
                return
            if last:
                return

    def check(self) -> None:
        """Raise the error that makes further rows useless, if there was one."""
        if self._refused.is_set() and self._problem is not None:
            raise self._problem

    def finish(self, seconds: float) -> None:
        """Upload what is there, and no more after it; at most so many seconds are waited for it."""
        self._done.set()
        self._thread.join(seconds)

    def last_words(self) -> None:
        """Of a process that was told to end."""
        os.write(2, b"\nuploading the rows that are done; a second signal does not wait for it\n")
        self.finish(LAST_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish(TOLD_SECONDS)
        if self._thread.is_alive():
            print(f"waiting for {self._server.url} to take the last rows", file=sys.stderr)
            self.finish(END_SECONDS)
        self.check()
        problem = "the server does not answer" if self._thread.is_alive() else self._problem
        if problem and error is None:
            raise StoreError(
                f"the last rows were not uploaded: {problem}. They are safe in {self._part.parent}: the same command "
                "uploads them when the server answers"
            )


def upload(server: Remote, part: Path) -> None:
    """Replace the part on the server by the whole lines of this one, if that only adds rows."""
    ours, there = whole_lines(part.read_bytes() if part.exists() else b""), server.read(part.name)
    known = whole_lines(there or b"")
    if known.startswith(ours):
        return
    if not ours.startswith(known):
        raise conflict(server.url, part)
    try:
        server.write(part.name, ours, new=there is None)
    except FileExistsError:  # by another machine, or by a try of ours whose answer was lost
        upload(server, part)


def conflict(url: str, part: Path) -> StoreError:
    return StoreError(
        f"{url}/{part.name} and {part} have different rows: another machine works on the same shard. The server "
        "keeps its rows and this machine its own. Let the other one go on, or move the file here away and run the "
        "same command again; to work on both, give each a shard of its own"
    )


def whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def inputs_of(content: bytes) -> set[bytes]:
    """The inputs that a part has rows of, from its lines."""
    return {line.partition(b"\t")[0] for line in content.splitlines()[1:]}
