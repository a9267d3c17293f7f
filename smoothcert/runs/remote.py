"""Folders on servers, such as s3://bucket/runs/a, read by copies on this machine. Only this file knows fsspec.

A copy lies in the cache folder under the path that its address has, so that names made from paths are right. Beside
each file, a hidden one holds the tag that the server had for it (its size, time and ETag): a file that has another tag
by now is fetched again. Nothing here writes to a server but `Remote.write`.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from smoothcert.errors import ConfigError, MissingExtra, StoreError
from smoothcert.files import atomic_write, write_text
from smoothcert.runs.locks import locked

RESULTS = (".yaml", ".json", ".jsonl", ".tsv")
WEIGHTS = (".safetensors",)
_SCHEME = r"([a-z][a-z0-9+.-]*)"
_PACKAGES = {"s3": ("s3fs", "remote"), "gs": ("gcsfs", "gcs")}  # and the extra that installs it
_AT_ONCE = 8  # files that are fetched side by side
_LONGEST_NAME = 200  # bytes: disks know 255, and beside a copy lie files with somewhat longer names
_TOLD = 20_000_000  # bytes of a file whose fetching is told, since it takes a while


def is_remote(place: object) -> bool:
    return isinstance(place, str) and re.match(f"{_SCHEME}://", place) is not None


def local(place: str | Path, *, weights: bool = False) -> Path:
    """A path stays as it is; a folder or file on a server is copied to this machine, and the path of the copy given.

    Of a folder come descriptions and results, with `weights` also networks. Of a store in a run comes also what lies
    directly in the run. What the server no longer has goes from the copy too.
    """
    if not is_remote(place):
        return Path(place)
    asked = Remote(str(place))
    in_run = asked.path.parts[2:][-2:-1] == (
        "certify",
    )  # behind scheme and bucket, which may be called so too
    run = Remote(asked.url.rsplit("/", 2)[0]) if in_run else asked
    below = f"{asked.url.removeprefix(run.url)}/".lstrip("/")  # empty, or certify/NAME/
    files, copy = run.files(), _cache("remote") / run.path
    if "" in files:  # the address of a file
        run.fetch("", files[""], copy)
        return copy
    if not any(name.startswith(below) for name in files):
        raise StoreError(
            f"{asked.url}: no such folder on the server; see that bucket and path are right"
        )
    _forget(copy, set(files))
    kinds = RESULTS + WEIGHTS * weights
    needed = [
        name
        for name in files
        if name.endswith(kinds) and (name.startswith(below) or "/" not in name)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: run.fetch(name, files[name], copy / name), needed))
    found = copy / below
    found.mkdir(parents=True, exist_ok=True)  # it may hold nothing that is needed
    return found


def _forget(copy: Path, there: set[str]) -> None:
    """Delete what was fetched once and is not on the server any more."""
    for tag in list(copy.rglob(".*.tag")):
        path = tag.with_name(tag.name[1 : -len(".tag")])
        if path.relative_to(copy).as_posix() not in there:
            path.unlink(missing_ok=True)
            tag.unlink()


def shown(text: str) -> str:
    """Text for people, with the addresses of copies in the place of their paths."""
    return re.sub(f"{re.escape(_cache('remote').as_posix())}/{_SCHEME}/", r"\1://", text)


def work_folder(url: str) -> Path:
    """Where rows for a store on a server are written. Not into copies, which are replaced by what the server has."""
    return _cache("certifying") / Remote(url).path


def _cache(room: str) -> Path:
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "smoothcert", room)
        .expanduser()
        .absolute()
    )


class ServerError(StoreError):
    """A server cannot be reached, or refuses."""


class Remote:
    """A folder on a server, or a file. Whatever goes wrong there is one ServerError in words."""

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        parts = [part for part in rest.split("/") if part]
        if scheme in ("file", "http", "https") or not parts or not all(map(_plain, parts)):
            raise ConfigError(
                f"expected the address of a folder, such as s3://bucket/runs/a, found {url!r}"
            )
        if "@" in parts[0]:
            raise ConfigError(
                "an address holds no password: leave out what is before the @, and set credentials apart"
            )
        self.url, self.path = f"{scheme}://{'/'.join(parts)}", Path(scheme, *parts)
        package, extra = _PACKAGES.get(scheme, ("fsspec", "remote"))
        try:
            import fsspec

            with self._words("opened"):
                self._server, self._root = fsspec.core.url_to_fs(self.url)
        except ImportError as error:
            raise MissingExtra(package, extra, self.url) from error

    @contextmanager
    def _words(self, what: str) -> Iterator[None]:
        """Errors of the packages that speak with servers, which are of many families, as one of ours."""
        try:
            yield
        except (ImportError, FileExistsError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (
                errno.ENOSPC,
                errno.EDQUOT,
            ):  # on this machine
                raise
            line = (str(error) or repr(error)).splitlines()[0]
            reason = re.sub(r"\?[^\s\"']*", "", line)  # the query of an address may be a signature
            raise ServerError(
                f"{self.url} cannot be {what} ({type(error).__name__}: {reason}); see that the address is right, that "
                "the server can be reached (AWS_ENDPOINT_URL names one that is not Amazon's), and that the "
                "credentials which other programs use for it are set and allow this"
            ) from error

    def files(self) -> dict[str, dict[str, Any]]:
        """What lies below, by its path from here; "" is the address itself where that is a file.

        Hidden names, and those that lead out of a folder, are passed over: anyone may have chosen them.
        """
        with self._words("listed"):
            self._server.invalidate_cache()
            try:
                found = self._server.find(self._root, detail=True)
            except FileNotFoundError:  # no such bucket
                found = {}
        names = {
            path[len(self._root) :].strip("/"): info
            for path, info in found.items()
            if info["type"] == "file"
        }
        return {
            name: info
            for name, info in names.items()
            if not name or all(map(_plain, name.split("/")))
        }

    def read(self, name: str) -> bytes | None:
        """A file as it is now; None where there is none."""
        with self._words("read"):
            self._server.invalidate_cache()
            try:
                content: bytes = self._server.cat_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return None
        return content

    def write(self, name: str, content: bytes, *, new: bool) -> None:
        """A whole file at once. With `new`, a FileExistsError if there is one, from servers that can tell."""
        with self._words("written"):
            self._server.pipe_file(
                f"{self._root}/{name}", content, mode="create" if new else "overwrite"
            )

    def fetch(self, name: str, info: dict[str, Any], path: Path) -> None:
        """Copy a file here, unless the copy has its tag. The tag was taken before the content, so it is never newer."""
        tag, kept = (
            sha256(repr(sorted(info.items())).encode()).hexdigest(),
            path.with_name(f".{path.name}.tag"),
        )
        if path.is_file() and kept.is_file() and kept.read_text() == tag:
            return
        if (info.get("size") or 0) > _TOLD:
            print(f"fetching {self.url}/{name} ({info['size'] / 1e6:,.0f} MB)", file=sys.stderr)
        try:
            with locked(path.with_name(f".{path.name}.lock"), None):
                kept.unlink(missing_ok=True)
                with atomic_write(path) as file, self._words("read"):
                    self._server.get_file(f"{self._root}/{name}".rstrip("/"), file.name)
                write_text(kept, tag)
        except ServerError:
            raise
        except StoreError as error:
            raise StoreError(
                f"{self.url} could not be copied into {_cache('')}: {getattr(error.__cause__, 'strerror', error)}; "
                "free some space there, or name another place by XDG_CACHE_HOME"
            ) from error


def _plain(name: str) -> bool:
    """Whether it is the name of one file or folder, on any system, and not hidden."""
    usual = (
        bool(name) and Path(name).name == name and not name.startswith(".") and name.isprintable()
    )
    return usual and len(name.encode()) <= _LONGEST_NAME
