"""Files from the network: whole and checked, or not there at all."""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from smoothcert.errors import DataError
from smoothcert.files import file_sha256
from smoothcert.progress import styled

BytesSoFar = Callable[[int, int | None], None]  # bytes so far, bytes in all if the server said so


@dataclass(frozen=True)
class RemoteFile:
    """A file as its publisher made it."""

    name: str
    sha256: str


class _Refused(Exception):
    """This mirror did not deliver the file; the next one may."""


def fetch(
    file: RemoteFile,
    folder: Path,
    mirrors: Sequence[str],
    *,
    progress: BytesSoFar | None = None,
    timeout: float = 30.0,
) -> Path:
    """The path of `file` in `folder`, downloaded from the first mirror (a base URL) that delivers it intact.

    A file that is there already, put there by hand say, is kept if its checksum is right. Several processes
    may fetch the same file at once: each writes under its own temporary name and the rename is atomic.
    """
    target = folder / file.name
    part = folder / f".{file.name}.{token_hex(4)}.part"
    reasons = []
    try:
        if target.is_file() and file_sha256(target) == file.sha256:
            return target
        folder.mkdir(parents=True, exist_ok=True)
        for mirror in mirrors:
            url = f"{mirror.rstrip('/')}/{file.name}"
            try:
                with part.open("wb") as out, _shown(file.name, progress) as show:
                    for chunk, done, total in _body(url, file.sha256, timeout):
                        out.write(chunk)
                        show(done, total)
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(part, target)
                return target
            except _Refused as reason:
                reasons.append(f"\n  {url}: {reason}")
    except OSError as error:
        raise DataError(
            f"cannot write {target}: {error.strerror}: name a folder that can be written, "
            "as data_dir or in $SMOOTHCERT_DATA"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()
    raise DataError(
        f"{file.name} could not be downloaded; tried{''.join(reasons) or ' no mirror'}\n"
        f"Get it in another way (sha256 {file.sha256}) and put it at {target}"
    )


def _body(url: str, checksum: str, timeout: float) -> Iterator[tuple[bytes, int, int | None]]:
    """The chunks of a file as they arrive; raises _Refused in the end if it is not the right file."""
    digest, done = sha256(), 0
    try:
        with urlopen(url, timeout=timeout) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            while chunk := response.read(1 << 16):
                digest.update(chunk)
                done += len(chunk)
                yield chunk, done, total
    except HTTPError as error:
        error.close()
        raise _Refused(f"HTTP {error.code} {error.reason}") from None
    except URLError as error:
        raise _Refused(str(error.reason)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise _Refused(f"{error or type(error).__name__} after {done} bytes") from None
    if total is not None and done != total:
        raise _Refused(f"expected {total} bytes, found {done}")
    if digest.hexdigest() != checksum:
        raise _Refused(f"expected sha256 {checksum}, found {digest.hexdigest()} ({done} bytes)")


@contextmanager
def _shown(name: str, progress: BytesSoFar | None) -> Iterator[BytesSoFar]:
    """Where to report progress: the caller's function, a bar on a terminal, or nowhere."""
    if progress is not None or not sys.stderr.isatty():
        yield progress or (lambda done, total: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Bars(*columns, console=Console(file=styled(sys.stderr))) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def unpack(archive: Path, folder: Path) -> None:
    """Put the files of a tar archive into `folder`, without the archive's own folders.

    They are extracted beside it first, so that no half-written file is ever seen under its final name.
    """
    part = folder / f".{archive.name}.{token_hex(4)}.part"
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(
                part, filter="data"
            )  # refuses absolute paths, links out of the folder, devices
        for path in [path for path in part.rglob("*") if path.is_file()]:
            os.replace(path, folder / path.name)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(
            f"{archive}: expected a tar archive that unpacks into {folder}: {error}"
        ) from error
    finally:
        rmtree(part, ignore_errors=True)
